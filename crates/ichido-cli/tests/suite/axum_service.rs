//! The example of an axum service, as a program of its own: orders that are posted are shipped exactly once, also when the service is
//! stopped while requests and messages are in flight. `traces` follows one through RabbitMQ into another process.

use std::process::Stdio;

use ichido_testkit::{eventually, in_time};
use sqlx::SqlitePool;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
};

use crate::examples::built;

/// The example as a running program.
pub(crate) struct Service {
    program: Child,
    address: String,
}

impl Service {
    /// Starts it on this database, with more variables of the environment.
    pub(crate) async fn start(url: &str, more: &[(&str, &str)]) -> Self {
        let mut command = Command::new(built("axum_service"));
        command.env("DATABASE_URL", url).env("LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).kill_on_drop(true);
        let mut program = command.envs(more.iter().copied()).spawn().expect("the example starts");
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let line = in_time("it listens", lines.next_line()).await.unwrap().expect("it says where it listens");
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        Service { program, address }
    }

    /// Starts it with a process inside, whose carrier takes so many milliseconds for an order.
    async fn ready(url: &str, carrier_takes: &str) -> Self {
        let service = Service::start(url, &[("CARRIER_TAKES_MS", carrier_takes)]).await;
        eventually("it is ready", async || service.ask("GET /readyz", "").await == "200").await;
        service
    }

    /// Sends a request and returns the status of the answer.
    pub(crate) async fn ask(&self, what: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let length = body.len();
        stream.write_all(head(what, length, "").as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        status(&mut stream).await
    }

    pub(crate) fn terminate(&self) {
        let pid = self.program.id().and_then(|id| id.try_into().ok()).and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    pub(crate) async fn ends(mut self) -> Option<i32> {
        in_time("the service ends", self.program.wait()).await.unwrap().code()
    }
}

fn head(what: &str, length: usize, more: &str) -> String {
    format!(
        "{what} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n"
    )
}

/// Reads an answer to its end.
async fn status(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    in_time("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    answer.split(' ').nth(1).expect("a status").to_owned()
}

fn order(id: i64) -> String {
    format!(r#"{{"id":{id},"item":"fish"}}"#)
}

/// A request whose body is not sent yet; its handler waits for it.
async fn half_a_request(address: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head("POST /orders", length, "expect: 100-continue\r\n").as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    in_time("the handler asks for the body", stream.read_exact(&mut go_on)).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

async fn number(database: &SqlitePool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(database).await.unwrap()
}

async fn assert_exact(database: &SqlitePool, orders: i64) {
    assert_eq!(number(database, "select count(*) from taken").await, orders);
    let lost = "select count(*) from taken where id not in (select id from shipped)";
    assert_eq!(number(database, lost).await, 0, "lost");
    assert_eq!(number(database, "select count(*) - count(distinct id) from shipped").await, 0, "double");
    assert_eq!(number(database, "select count(*) from ichido_message").await, 0);
}

#[tokio::test]
async fn a_service_that_is_stopped_in_flight_loses_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("orders.db").display());
    let service = Service::ready(&url, "1").await;
    let database = SqlitePool::connect(&url).await.unwrap();
    for id in 1..=5 {
        assert_eq!(service.ask("POST /orders", &order(id)).await, "202");
    }
    assert_eq!(service.ask("POST /orders", &order(5)).await, "500", "taken already: no second message");
    assert_eq!(service.ask("POST /orders", "{}").await, "422", "no order");
    eventually("all are shipped", async || number(&database, "select count(*) from shipped").await == 5).await;
    service.terminate();
    assert_eq!(service.ends().await, Some(0));
    assert_exact(&database, 5).await;

    let service = Service::ready(&url, "500").await;
    for id in 11..=20 {
        assert_eq!(service.ask("POST /orders", &order(id)).await, "202");
    }
    let last = order(21);
    let mut late = half_a_request(&service.address, last.len()).await;
    // Four workers, ten orders: when the first is shipped, others are in flight.
    eventually("messages are in flight", async || number(&database, "select count(*) from shipped").await > 5).await;
    service.terminate();
    eventually("nobody can connect", async || TcpStream::connect(&service.address).await.is_err()).await;
    late.write_all(last.as_bytes()).await.unwrap();
    assert_eq!(status(&mut late).await, "202", "a request in flight is answered");
    assert_eq!(service.ends().await, Some(0));
    let shipped = number(&database, "select count(*) from shipped").await;
    let waiting = number(&database, "select count(*) from ichido_message where owner is null").await;
    assert!(shipped > 5 && shipped + waiting == 16, "{shipped} shipped, {waiting} wait: running messages finish");

    let service = Service::ready(&url, "0").await;
    eventually("all are shipped", async || number(&database, "select count(*) from shipped").await == 16).await;
    service.terminate();
    assert_eq!(service.ends().await, Some(0));
    assert_exact(&database, 16).await;
}
