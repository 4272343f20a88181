//! A batch action: up to a hundred orders in one transaction, and one statement for all of them. If one of them is bad, what was
//! written is rolled back, and each order runs alone: only the bad one fails.

use ichido::{
    BatchAction, Client, Context, Operate, Outcome, Pool, Process, Queue, Result,
    store::{Database, Transactions},
};
use ichido_sqlite::Sqlite;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: i64,
    price: i64,
}

struct Book;

impl BatchAction<Sqlite> for Book {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<Sqlite>, orders: Vec<Order>) -> Result<Outcome> {
        let rows = serde_json::to_string(&orders)?;
        let insert = "insert into booked (id, price) select value ->> 'id', value ->> 'price' from json_each(?)";
        sqlx::query(insert).bind(rows).execute(cx.tx().await?).await?;
        Ok(Outcome::Done)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("shop.db").display());
    let store = Sqlite::new(&url, vec![Queue::managed("orders")])?;
    store.migrate().await?;

    let mut tx = store.begin().await?;
    let connection = Sqlite::connection(&mut tx);
    let table = "create table booked (id integer primary key, price integer check (price > 0))";
    sqlx::query(table).execute(&mut *connection).await?;
    let orders: Vec<_> = (1..=1000).map(|id| Order { id, price: id % 500 }).collect();
    Client::new(store.clone()).queue("orders").send_all(connection, &orders).await?;
    store.commit(tx).await?;

    let retry = ichido::RetryPolicy { attempts: 1, ..ichido::RetryPolicy::default() };
    let pool = Pool::new("Book").from("orders").concurrency(1).commit_interval(100).retry(retry);
    Process::new(store.clone()).batch_action(pool, Book).drain().run().await?;

    let mut tx = store.begin().await?;
    let booked: i64 = sqlx::query_scalar("select count(*) from booked").fetch_one(Sqlite::connection(&mut tx)).await?;
    println!("{booked} of 1000 orders are booked, and the two that cost nothing are not");
    store.rollback(tx).await?;
    Ok(())
}
