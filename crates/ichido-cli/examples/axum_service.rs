//! A web service with its work inside. POST /orders writes an order and sends its message in one transaction; a process in the same
//! program ships it, exactly once. /readyz is for the probes of whoever runs the service. SIGTERM ends both: no new connections, requests
//! are answered, then running messages finish; what still waits is there for the next start. Try it:
//!
//! `cargo run -p ichido-cli --example axum_service`, and in another shell
//! `curl -i localhost:3000/orders -H 'content-type: application/json' -d '{"id": 1, "item": "fish"}'`
//!
//! With `AMQP_URL=amqp://…` the service only takes orders: its messages go through RabbitMQ, and another process on the same database ships
//! them. With `OTLP=http://127.0.0.1:4318` a collector gets traces, each from the request to the COMMIT, in whichever process that is.

use std::{env, future::Future, process::ExitCode, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use ichido::{
    CancellationToken, Client, Context, Guarded, Operate, Outcome, Pool, Process, Queue, QueueOf, Relay,
    message::ClaimBy, process::Probe,
};
use ichido_rabbitmq::{PublisherSettings, RabbitMq, Server, Topology};
use ichido_sqlite::Sqlite;
use ichido_telemetry::Telemetry;
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument;
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

#[derive(Serialize, Deserialize)]
struct Order {
    id: i64,
    item: String,
}

/// A message that is no order does not compile, neither in `take` nor in `ship`.
const ORDERS: QueueOf<Order> = QueueOf::named("orders");

/// What they are called at RabbitMQ.
const SHIPMENTS: &str = "shipments";

/// What requests use.
#[derive(Clone)]
struct App {
    database: SqlitePool,
    client: Client<Sqlite>,
}

/// What actions use.
struct Carrier {
    takes: Duration,
}

async fn take(State(app): State<App>, Json(order): Json<Order>) -> Result<StatusCode, Failed> {
    // The root of a trace; the send carries it.
    app.take(&order).instrument(tracing::info_span!("POST /orders")).await?;
    Ok(StatusCode::ACCEPTED)
}

impl App {
    async fn take(&self, order: &Order) -> anyhow::Result<()> {
        let mut tx = self.database.begin().await?;
        let insert = "insert into taken (id, item) values (?, ?)";
        sqlx::query(insert).bind(order.id).bind(&order.item).execute(&mut *tx).await?;
        self.client.to(&ORDERS).send(&mut tx, order).await?;
        Ok(tx.commit().await?) // the order and its message, or neither
    }
}

async fn ready(State(probe): State<Probe>) -> StatusCode {
    if probe.ready().is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn ship(cx: &mut Context<Sqlite>, order: Order) -> ichido::Result<Outcome> {
    let takes = cx.state::<Carrier>()?.takes;
    tokio::time::sleep(takes).await; // a slow call, without a transaction
    sqlx::query("insert into shipped (id) values (?)").bind(order.id).execute(cx.tx().await?).await?;
    Ok(Outcome::Done)
}

fn or(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.into())
}

/// Serves until SIGTERM, and ships what is ordered.
async fn ship_here(store: Sqlite, router: Router) -> anyhow::Result<i32> {
    let takes = Duration::from_millis(or("CARRIER_TAKES_MS", "100").parse()?);
    let process = Process::new(store).state(Carrier { takes }).on(&ORDERS, Pool::new("Ship").needs::<Carrier>(), ship);
    let ready = Router::new().route("/readyz", get(ready)).with_state(process.probe());
    // The server ends when the last request is answered; only then the process stops.
    Ok(process.run_until(serve(router.merge(ready)).await?).await?)
}

/// Serves until SIGTERM, and publishes what is ordered for others to ship.
async fn ship_elsewhere(store: Sqlite, router: Router, broker: &str) -> anyhow::Result<i32> {
    let broker = RabbitMq::new(Server::new([broker])?, Topology::new(SHIPMENTS), PublisherSettings::default());
    let stop = CancellationToken::new();
    let relay = tokio::spawn(Relay::new(store).broker(ORDERS.name(), broker).run(stop.clone()));
    serve(router).await?.await?;
    stop.cancel();
    relay.await?; // what it has not published by now, the next start or another process does
    Ok(0)
}

async fn serve(router: Router) -> anyhow::Result<impl Future<Output = std::io::Result<()>>> {
    let listener = tokio::net::TcpListener::bind(or("LISTEN", "127.0.0.1:3000")).await?;
    println!("listening on {}", listener.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let terminated = async move { terminate.recv().await.unwrap_or_default() };
    Ok(axum::serve(listener, router).with_graceful_shutdown(terminated).into_future())
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let telemetry = env::var("OTLP").ok().map(|otlp| Telemetry::start(&otlp, "shop")).transpose()?;
    tracing_subscriber::registry().with(telemetry.as_ref().map(Telemetry::layer)).init();
    let (url, broker) = (or("DATABASE_URL", "sqlite://orders.db"), env::var("AMQP_URL").ok());
    let mut rules = Guarded::new("", SHIPMENTS);
    rules.claim = ClaimBy::Lease; // SQLite has no row locks
    let queue = if broker.is_some() { Queue::broker(ORDERS.name(), rules) } else { Queue::managed(ORDERS.name()) };

    let store = Sqlite::new(&url, vec![queue])?;
    store.migrate().await?;
    let database = SqlitePool::connect(&url).await?;
    let tables = "create table if not exists taken (id integer primary key, item text not null);
        create table if not exists shipped (id integer not null)";
    sqlx::raw_sql(tables).execute(&database).await?;

    let app = App { database, client: Client::new(store.clone()) };
    let router = Router::new().route("/orders", post(take)).with_state(app);
    let code = match broker {
        None => ship_here(store, router).await?,
        Some(broker) => ship_elsewhere(store, router, &broker).await?,
    };
    if let Some(telemetry) = telemetry {
        tokio::task::spawn_blocking(move || telemetry.end()).await?; // the spans that are not sent yet
    }
    Ok(ExitCode::from(u8::try_from(code)?))
}

/// Any error answers a request with 500; its text is for us.
struct Failed(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        eprintln!("{:#}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
