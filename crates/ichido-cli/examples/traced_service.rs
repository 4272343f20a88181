//! A web service whose orders another process ships, in one trace: the request, its send, the publication, the message at the other process.
//! POST /orders writes an order and sends its message in one transaction; a relay publishes it to RabbitMQ. Who ships it is another program.
//! `AMQP_URL=amqp://guest:guest@localhost OTLP=http://127.0.0.1:4318 cargo run -p ichido-cli --example traced_service`

use std::env;

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use ichido::{CancellationToken, Client, Guarded, Operate, Queue, Relay, message::ClaimBy};
use ichido_rabbitmq::{PublisherSettings, RabbitMq, Server, Topology};
use ichido_sqlite::Sqlite;
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument;
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

type App = State<(sqlx::SqlitePool, Client<Sqlite>)>;

async fn take(State((pool, client)): App, Json(order): Json<serde_json::Value>) -> Result<StatusCode, StatusCode> {
    let taken = async {
        let mut tx = pool.begin().await?;
        sqlx::query("insert into taken (item) values (?)").bind(order.to_string()).execute(&mut *tx).await?;
        client.queue("orders").send(&mut tx, &order).await?; // carries the current span
        anyhow::Ok(tx.commit().await?)
    };
    // The root of the trace; without it, `send` would be.
    let taken = taken.instrument(tracing::info_span!("POST /orders")).await;
    taken.map(|()| StatusCode::ACCEPTED).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let telemetry = ichido_telemetry::Telemetry::start(&env::var("OTLP")?, "shop")?;
    tracing_subscriber::registry().with(telemetry.layer()).init();

    let url = env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite://orders.db".into());
    let mut rules = Guarded::new("", "shipments");
    rules.claim = ClaimBy::Lease; // SQLite has no row locks
    let store = Sqlite::new(&url, vec![Queue::broker("orders", rules)])?;
    store.migrate().await?;
    let pool = sqlx::SqlitePool::connect(&url).await?;
    sqlx::raw_sql("create table if not exists taken (item text not null)").execute(&pool).await?;

    let server = Server::new([env::var("AMQP_URL")?])?;
    let broker = RabbitMq::new(server, Topology::new("shipments"), PublisherSettings::default());
    let stop = CancellationToken::new();
    let relay = tokio::spawn(Relay::new(store.clone()).broker("orders", broker).run(stop.clone()));
    let router = Router::new().route("/orders", post(take)).with_state((pool, Client::new(store)));
    let listener =
        tokio::net::TcpListener::bind(env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".into())).await?;
    println!("listening on {}", listener.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let terminated = async move { terminate.recv().await.unwrap_or_default() };
    axum::serve(listener, router).with_graceful_shutdown(terminated).await?;
    stop.cancel();
    relay.await?;
    tokio::task::spawn_blocking(move || telemetry.end()).await?; // the spans that are not sent yet
    Ok(())
}
