//! A long action: it makes its slow call first and opens its transaction late. While it waits it holds no connection, no lock and
//! no snapshot. SQLite admits one writer, and here two calls are under way at the same time all the same: each of them waits for the
//! other, which could never be if one had opened its transaction before.

use std::sync::Arc;

use ichido::{
    Action, Client, Context, Operate, Outcome, Pool, Process, Queue, Result,
    store::{Database, Transactions},
};
use ichido_sqlite::Sqlite;
use tokio::sync::Barrier;

/// A bank, far away and slow.
struct Bank {
    two_at_once: Barrier,
}

impl Bank {
    /// The key makes it harmless to ask twice: after a crash the message runs again, with the same id.
    async fn charge(&self, idempotency_key: &str, amount: i64) -> String {
        self.two_at_once.wait().await;
        format!("receipt of {idempotency_key} for {amount}")
    }
}

struct Charge(Arc<Bank>);

impl Action<Sqlite> for Charge {
    type Message = i64;

    async fn handle(&self, cx: &mut Context<Sqlite>, amount: i64) -> Result<Outcome> {
        let receipt = self.0.charge(&cx.message_id()?.to_string(), amount).await;
        let insert = sqlx::query("insert into paid (receipt) values (?)").bind(&receipt);
        insert.execute(cx.tx().await?).await?; // only now, and for a moment
        println!("{receipt}");
        Ok(Outcome::Done)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("shop.db").display());
    let store = Sqlite::new(&url, vec![Queue::managed("payments")])?;
    store.migrate().await?;

    let mut tx = store.begin().await?;
    sqlx::query("create table paid (receipt text)").execute(Sqlite::connection(&mut tx)).await?;
    Client::new(store.clone()).queue("payments").send_all(Sqlite::connection(&mut tx), &[100, 250, 75, 900]).await?;
    store.commit(tx).await?;

    let bank = Arc::new(Bank { two_at_once: Barrier::new(2) });
    let pool = Pool::new("Charge").from("payments").concurrency(2);
    Process::new(store).action(pool, Charge(bank)).drain().run().await?;
    Ok(())
}
