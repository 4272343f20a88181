//! An order service, RabbitMQ, and a warehouse. The service sends in the transaction in which it takes an order, and some of
//! them are rolled back; a broker that crashes gets messages twice. What was taken is shipped, once, and nothing else is.
//! Try it: `AMQP_URL=amqp://guest:guest@localhost cargo run -p ichido-cli --example order_service`

use ichido::{Client, Context, Guarded, Operate, Outcome, Pool, Process, Queue, Relay, Result, message::ClaimBy};
use ichido_rabbitmq::{PublisherSettings, RabbitMq, Server, Topology};
use ichido_sqlite::Sqlite;
use sqlx::SqlitePool;

async fn take(pool: &SqlitePool, client: &Client<Sqlite>, order: i64) -> Result<()> {
    let mut tx = pool.begin().await?;
    sqlx::query("insert into taken values (?)").bind(order).execute(&mut *tx).await?;
    client.queue("shipping").send(&mut tx, &order).await?;
    if order % 10 == 0 {
        return Err("out of stock".into()); // and with the transaction the message is gone
    }
    Ok(tx.commit().await?)
}

async fn ship(cx: &mut Context<Sqlite>, order: i64) -> Result<Outcome> {
    sqlx::query("insert into shipped values (?)").bind(order).execute(cx.tx().await?).await?;
    Ok(Outcome::Done)
}

#[tokio::main]
async fn main() -> Result<()> {
    let amqp = std::env::var("AMQP_URL").map_err(|_| "AMQP_URL must say where the broker is")?;
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("shop.db").display());
    let mut rules = Guarded::new("", "ichido.example");
    rules.claim = ClaimBy::Lease; // SQLite has no row locks
    let store = Sqlite::new(&url, vec![Queue::broker("shipping", rules)])?;
    store.migrate().await?;
    let pool = SqlitePool::connect(&url).await?;
    sqlx::raw_sql("create table taken (id); create table shipped (id)").execute(&pool).await?;

    let client = Client::new(store.clone());
    for order in 1..=100 {
        drop(take(&pool, &client, order).await); // one in ten is out of stock
    }
    let broker = RabbitMq::new(Server::new([&amqp])?, Topology::new("ichido.example"), PublisherSettings::default());
    let relay = Relay::new(store.clone()).broker("shipping", broker.clone());
    println!("{} orders are taken, and their messages published", relay.flush().await?.published);
    // As if the broker had them and nobody had learned it.
    sqlx::query("update ichido_outbox set published_at = null where number % 5 = 0").execute(&pool).await?;
    println!("{} messages are published a second time", relay.flush().await?.published);

    let warehouse = Process::new(store).broker("shipping", broker);
    warehouse.action_fn(Pool::new("Ship").from("shipping").concurrency(4), ship).drain().run().await?;
    let lost = "select count(*) from (select id from taken except select id from shipped)";
    let double = "select count(*) - count(distinct id) from shipped";
    let ghost = "select count(*) from (select id from shipped except select id from taken)";
    for (what, query) in [("lost", lost), ("shipped twice", double), ("shipped and never taken", ghost)] {
        println!("{what}: {}", sqlx::query_scalar::<_, i64>(query).fetch_one(&pool).await?);
    }
    Ok(())
}
