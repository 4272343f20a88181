//! What does the guard cost? The same orders from a quorum queue into the same table, one transaction each, in turns: by ichido
//! with its mutex, and by a plain consumer that has no guard at all (and so does an order twice when its acknowledgement is
//! lost). Same prefetch, same number of slots, same server, fsync on. Prints messages per second and the ratio.
//!
//! Arguments: messages per run, rounds, `lock` or `lease`. The file `BENCH_LOG`, if that is set, tells which statements ran.

#![forbid(unsafe_code)]

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_core::Stream;
use ichido::{
    CancellationToken, Client, Context, Guarded, Operate, Outcome, Pool, Process, Queue, Relay, Result,
    broker::Broker as _,
    message::ClaimBy,
    store::{Database as _, Transactions as _},
};
use ichido_postgres::Postgres;
use ichido_rabbitmq::{PublisherSettings, RabbitMq, Server, Topology};
use ichido_test_servers as servers;
use lapin::{
    Connection, ConnectionProperties,
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool, Row, postgres::PgPoolOptions};
use tokio::sync::Semaphore;

const QUEUE: &str = "bench";
const SLOTS: u32 = 16;

/// What ichido asks for: the slots, and as much ahead.
const PREFETCH: u16 = 32;

#[derive(Serialize, Deserialize)]
struct Order {
    id: i64,
    name: String,
}

impl Order {
    fn of(id: i64) -> Self {
        Order { id, name: format!("order {id}") }
    }

    /// The work: the same statement for both.
    async fn insert(&self, tx: &mut PgConnection) -> Result<()> {
        let insert = "insert into project (id, name) values ($1, $2)";
        sqlx::query(insert).bind(self.id).bind(&self.name).execute(tx).await?;
        Ok(())
    }
}

/// A database and a vhost of one run.
struct Place {
    database: String,
    broker: String,
    pool: PgPool,
}

impl Place {
    async fn new(postgres: &servers::Postgres, node: &servers::RabbitMq) -> Result<Self> {
        let database = postgres.fresh_database();
        let pool = PgPoolOptions::new().max_connections(SLOTS + 4).connect(&database).await?;
        sqlx::query("create table project (id bigint not null, name varchar(100) not null)").execute(&pool).await?;
        Ok(Place { database, broker: node.fresh_vhost(), pool })
    }

    fn rabbitmq(&self) -> Result<RabbitMq> {
        Ok(RabbitMq::new(Server::new([&self.broker])?, Topology::new(QUEUE), PublisherSettings::default()))
    }

    /// Orders per second, from the first that is seen to be there until all are: how long anything takes to start is not asked.
    async fn rate(&self, messages: i64) -> Result<f64> {
        let mut first = None;
        loop {
            let done: i64 = sqlx::query("select count(*) from project").fetch_one(&self.pool).await?.get(0);
            let (begun, there) = *first.get_or_insert((Instant::now(), done));
            if done >= messages {
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                return Ok((messages - there) as f64 / begun.elapsed().as_secs_f64());
            }
            first = first.filter(|_| done > 0);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn work(cx: &mut Context<Postgres>, order: Order) -> Result<Outcome> {
    order.insert(cx.tx().await?).await?;
    Ok(Outcome::Done)
}

/// With ichido's guard.
async fn guarded(place: &Place, messages: i64, claim: ClaimBy) -> Result<f64> {
    let mut rules = Guarded::new("", QUEUE);
    rules.claim = claim;
    let queues = vec![Queue::broker(QUEUE, rules)];
    let store = Postgres::new(&place.database, None, SLOTS + 4, queues)?;
    store.migrate().await?;
    let rabbitmq = place.rabbitmq()?;
    rabbitmq.declare().await?;
    let orders: Vec<_> = (0..messages).map(Order::of).collect();
    for some in orders.chunks(1000) {
        let mut tx = store.begin().await?;
        Client::new(store.clone()).queue(QUEUE).send_all(Postgres::connection(&mut tx), some).await?;
        store.commit(tx).await?;
    }
    let flushed = Relay::new(store.clone()).broker(QUEUE, rabbitmq.clone()).flush().await?;
    assert_eq!((i64::try_from(flushed.published)?, flushed.left), (messages, None));
    sqlx::query("vacuum analyze").execute(&place.pool).await?;
    let stop = CancellationToken::new();
    let pool = Pool::new("Bench").from(QUEUE).concurrency(SLOTS as usize);
    let process = Process::new(store).broker(QUEUE, rabbitmq).action_fn(pool, work).stop_on(stop.clone());
    let running = tokio::spawn(process.run());
    let rate = place.rate(messages).await?;
    stop.cancel();
    assert_eq!(running.await??, 0);
    Ok(rate)
}

/// Without any guard.
async fn plain(place: &Place, messages: i64) -> Result<f64> {
    let rabbitmq = place.rabbitmq()?;
    rabbitmq.declare().await?;
    let outgoing = |id: i64| {
        Ok(ichido::broker::Outgoing {
            edition: 0,
            id: id.to_string(),
            origin: "bench".into(),
            queue: Some(QUEUE.into()),
            exchange: String::new(),
            routing_key: QUEUE.to_owned(),
            headers: ichido::Headers::new(),
            payload: serde_json::to_vec(&Order::of(id))?,
        })
    };
    let all = (0..messages).map(outgoing).collect::<Result<Vec<_>>>()?;
    for some in all.chunks(128) {
        rabbitmq.publish(some).await.into_iter().collect::<std::result::Result<Vec<()>, _>>()?;
    }
    let consuming = tokio::spawn(consume(place.broker.clone(), place.pool.clone()));
    let rate = place.rate(messages).await?;
    consuming.abort();
    Ok(rate)
}

async fn consume(url: String, pool: PgPool) -> Result<()> {
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let consume = channel.basic_consume(QUEUE.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default());
    let mut consumer = consume.await?;
    let slots = Arc::new(Semaphore::new(SLOTS as usize));
    while let Some(delivery) = poll_fn(|cx| Pin::new(&mut consumer).poll_next(cx)).await {
        let (delivery, pool, slot) = (delivery?, pool.clone(), Arc::clone(&slots).acquire_owned().await?);
        tokio::spawn(async move {
            let order: Order = serde_json::from_slice(&delivery.data)?;
            let mut tx = pool.begin().await?;
            order.insert(&mut tx).await?;
            tx.commit().await?;
            drop(slot);
            delivery.acker.ack(BasicAckOptions::default()).await?;
            Ok::<_, ichido::ActionError>(())
        });
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: i64| arguments.get(at).map_or(Ok(otherwise), |text| text.parse());
    let (messages, rounds) = (number(0, 5000)?, number(1, 5)?);
    let claim = if arguments.get(2).is_some_and(|claim| claim == "lease") { ClaimBy::Lease } else { ClaimBy::Lock };
    let log = if std::env::var_os("BENCH_LOG").is_some() { "all" } else { "none" };
    let postgres = servers::Postgres::start(&[("fsync", "on"), ("full_page_writes", "on"), ("log_statement", log)]);
    let node = servers::RabbitMq::start(&[]);
    let (mut all_guarded, mut all_plain) = (0.0, 0.0);
    for round in 1..=rounds {
        let guarded = guarded(&Place::new(&postgres, &node).await?, messages, claim).await?;
        let plain = plain(&Place::new(&postgres, &node).await?, messages).await?;
        println!(
            "round {round}: guarded ({claim:?}) {guarded:.0}/s, plain {plain:.0}/s, {:.0} %",
            guarded / plain * 100.0
        );
        all_guarded += guarded;
        all_plain += plain;
    }
    if let Some(file) = std::env::var_os("BENCH_LOG") {
        std::fs::copy(postgres.folder().join("log"), file)?;
    }
    println!("ratio {:.0} %", all_guarded / all_plain * 100.0);
    Ok(())
}
