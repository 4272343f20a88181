//! A web service with its work inside. POST /orders writes an order and sends its message in one transaction; a process in the same
//! program ships it, exactly once. /readyz is for the probes of whoever runs the service. SIGTERM ends both: no new connections, requests
//! are answered, then running messages finish; what still waits is there for the next start. Try it:
//!
//! `cargo run -p ichido-cli --example axum_service`, and in another shell
//! `curl -i localhost:3000/orders -H 'content-type: application/json' -d '{"id": 1, "item": "fish"}'`

use std::{env, process::ExitCode, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use ichido::{Client, Context, Operate, Outcome, Pool, Process, Queue, QueueOf, process::Probe};
use ichido_sqlite::Sqlite;
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Serialize, Deserialize)]
struct Order {
    id: i64,
    item: String,
}

/// A message that is no order does not compile, neither in `take` nor in `ship`.
const ORDERS: QueueOf<Order> = QueueOf::named("orders");

/// What requests use.
#[derive(Clone)]
struct App {
    database: SqlitePool,
    client: Client<Sqlite>,
    probe: Probe,
}

/// What actions use.
struct Carrier {
    takes: Duration,
}

async fn take(State(app): State<App>, Json(order): Json<Order>) -> Result<StatusCode, Failed> {
    let mut tx = app.database.begin().await?;
    let insert = "insert into taken (id, item) values (?, ?)";
    sqlx::query(insert).bind(order.id).bind(&order.item).execute(&mut *tx).await?;
    app.client.to(&ORDERS).send(&mut tx, &order).await?;
    tx.commit().await?; // the order and its message, or neither
    Ok(StatusCode::ACCEPTED)
}

async fn ready(State(app): State<App>) -> StatusCode {
    if app.probe.ready().is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn ship(cx: &mut Context<Sqlite>, order: Order) -> ichido::Result<Outcome> {
    let takes = cx.state::<Carrier>()?.takes;
    tokio::time::sleep(takes).await; // a slow call, without a transaction
    sqlx::query("insert into shipped (id) values (?)").bind(order.id).execute(cx.tx().await?).await?;
    Ok(Outcome::Done)
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let or = |name, default: &str| env::var(name).unwrap_or_else(|_| default.into());
    let (url, address) = (or("DATABASE_URL", "sqlite://orders.db"), or("LISTEN", "127.0.0.1:3000"));
    let takes = Duration::from_millis(or("CARRIER_TAKES_MS", "100").parse()?);

    let store = Sqlite::new(&url, vec![Queue::managed(ORDERS.name())])?;
    store.migrate().await?;
    let database = SqlitePool::connect(&url).await?;
    let tables = "create table if not exists taken (id integer primary key, item text not null);
        create table if not exists shipped (id integer not null)";
    sqlx::raw_sql(tables).execute(&database).await?;

    let process =
        Process::new(store.clone()).state(Carrier { takes }).on(&ORDERS, Pool::new("Ship").needs::<Carrier>(), ship);
    let app = App { database, client: Client::new(store), probe: process.probe() };
    let router = Router::new().route("/orders", post(take)).route("/readyz", get(ready)).with_state(app);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);

    let mut terminate = signal(SignalKind::terminate())?;
    let terminated = async move {
        terminate.recv().await;
    };
    let server = axum::serve(listener, router).with_graceful_shutdown(terminated);
    // The server ends when the last request is answered; only then the process stops.
    let code = process.run_until(server).await?;
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
