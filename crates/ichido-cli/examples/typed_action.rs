//! A typed action: each message is an `Order`. Its project is written in the transaction that completes the message: both are
//! there, or neither. What cannot be read as an order is put aside with the reason, and its neighbours go on.

use ichido::{
    Client, Context, Inspect, Operate, Outcome, Pool, Process, Queue, Result,
    inspect::ParkedFilter,
    store::{Database, Transactions},
};
use ichido_sqlite::Sqlite;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: i64,
    name: String,
}

async fn create_project(cx: &mut Context<Sqlite>, order: Order) -> Result<Outcome> {
    let insert = sqlx::query("insert into project (id, name) values (?, ?)").bind(order.id).bind(&order.name);
    insert.execute(cx.tx().await?).await?;
    println!("{} became the project {}", cx.message_id()?, order.name);
    Ok(Outcome::Done)
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("shop.db").display());
    let store = Sqlite::new(&url, vec![Queue::managed("orders")])?;
    store.migrate().await?;

    let client = Client::new(store.clone());
    let mut tx = store.begin().await?;
    let connection = Sqlite::connection(&mut tx);
    sqlx::query("create table project (id integer primary key, name text)").execute(&mut *connection).await?;
    client.queue("orders").send(connection, &Order { id: 42, name: "Kai".into() }).await?;
    client.queue("orders").send(connection, &"this is no order").await?;
    client.queue("orders").send(connection, &Order { id: 43, name: "Umi".into() }).await?;
    store.commit(tx).await?;

    let pool = Pool::new("ProjectCreation").from("orders").concurrency(2);
    Process::new(store.clone()).action_fn(pool, create_project).drain().run().await?;

    for failed in store.parked(&ParkedFilter::default()).await? {
        println!("{} failed: {}", failed.id, failed.error);
    }
    Ok(())
}
