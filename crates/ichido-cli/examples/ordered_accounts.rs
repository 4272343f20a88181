//! Accounts at a bank, and a FIFO queue of SQS. The bookings of an account run in their order, those of others beside them; one that fails is tried
//! again before those behind it, so that no balance is ever below zero.
//! Try it: `SQS_ENDPOINT=http://127.0.0.1:4566 AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x cargo run -p ichido-cli --example ordered_accounts`

use std::time::Duration;

use ichido::{Client, Context, Guarded, Operate, Outcome, Pool, Process, Queue, Result, RetryPolicy, message::ClaimBy};
use ichido_sqlite::Sqlite;
use ichido_sqs::{Server, Settings, Sqs, Topology};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

const QUEUE: &str = "ichido-example.fifo";

#[derive(Serialize, Deserialize)]
struct Booking {
    account: i64,
    amount: i64,
}

async fn book(cx: &mut Context<Sqlite>, booking: Booking) -> Result<Outcome> {
    if cx.attempt() == 1 && booking.amount > 0 {
        return Err("the other bank does not answer".into()); // and nothing overtakes it
    }
    let book = "update account set balance = balance + ? where id = ?";
    sqlx::query(book).bind(booking.amount).bind(booking.account).execute(cx.tx().await?).await?;
    Ok(Outcome::Done)
}

#[tokio::main]
async fn main() -> Result<()> {
    let endpoint = std::env::var("SQS_ENDPOINT").map_err(|_| "SQS_ENDPOINT must say where SQS is")?;
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("bank.db").display());
    let mut rules = Guarded::new("", QUEUE).groups();
    rules.claim = ClaimBy::Lease; // SQLite has no row locks
    let store = Sqlite::new(&url, vec![Queue::broker("bookings", rules)])?;
    store.migrate().await?;
    let pool = SqlitePool::connect(&url).await?;
    sqlx::raw_sql("create table account (id, balance check (balance >= 0))").execute(&pool).await?;
    let client = Client::new(store.clone());
    let mut tx = pool.begin().await?;
    for account in 1..=3 {
        sqlx::query("insert into account values (?, 0)").bind(account).execute(&mut *tx).await?;
        for amount in [100, -60, -40, 70, -70] {
            let group = client.queue("bookings").group(account.to_string());
            group.send(&mut tx, &Booking { account, amount }).await?;
        }
    }
    tx.commit().await?;
    let broker = Sqs::new(Server::new(None, Some(&endpoint)), Topology::new(QUEUE), Settings::default());
    let bookings = Process::new(store).broker("bookings", broker);
    let retry = RetryPolicy { attempts: 2, first: Duration::from_secs(1), ..RetryPolicy::default() };
    bookings.action_fn(Pool::new("Book").from("bookings").concurrency(4).retry(retry), book).drain().run().await?;
    let (accounts, left): (i64, i64) =
        sqlx::query_as("select count(*), sum(balance) from account").fetch_one(&pool).await?;
    println!("{accounts} accounts, {left} left, and none of them was ever overdrawn");
    Ok(())
}
