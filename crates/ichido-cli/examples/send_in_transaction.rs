//! Sending in a transaction of your own, on a connection of your own: the message is there if and only if what you wrote is
//! there. A customer who signs up gets one letter; one whose sign-up is rolled back gets none.

use std::time::Duration;

use ichido::{Client, Context, Operate, Outcome, Pool, Process, Queue, Result};
use ichido_sqlite::Sqlite;
use sqlx::SqlitePool;

async fn write_letter(cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
    println!("dear {name} (letter {})", cx.message_id()?);
    Ok(Outcome::Done)
}

/// Nothing in here is about workers: it is the web server's, or whoever's.
async fn sign_up(pool: &SqlitePool, client: &Client<Sqlite>, name: &str) -> Result<()> {
    let mut tx = pool.begin().await?;
    let insert = "insert into customer (name) values (?)";
    sqlx::query(insert).bind(name).execute(&mut *tx).await?;
    // A second letter to the same name is not sent while this one waits.
    client.queue("letters").unique(name).send(&mut tx, &name).await?;
    client.queue("letters").delay(Duration::from_hours(24)).send(&mut tx, &format!("{name}, one day later")).await?;
    if name == "Mallory" {
        return Err("we do not take everybody".into()); // and with the transaction the letters are gone
    }
    Ok(tx.commit().await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("shop.db").display());
    let store = Sqlite::new(&url, vec![Queue::managed("letters")])?;
    store.migrate().await?;
    let pool = SqlitePool::connect(&url).await?;
    sqlx::query("create table customer (name text primary key)").execute(&pool).await?;

    let client = Client::new(store.clone());
    for name in ["Anna", "Mallory", "Ben"] {
        match sign_up(&pool, &client, name).await {
            Ok(()) => println!("{name} has signed up"),
            Err(error) => println!("{name} has not: {error}"),
        }
    }

    let letters = Pool::new("Letters").from("letters").concurrency(1);
    Process::new(store).action_fn(letters, write_letter).drain().run().await?;
    Ok(())
}
