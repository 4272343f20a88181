//! Connections: what a server that refuses says, which of several hosts is taken, what a connection is called, and that one that is
//! dropped is closed.

use std::{net::TcpListener, time::Duration};

use ichido::{
    Error, Operate, Outcome, Pool, Process, Queue,
    handlers::{Limit, Retry},
    store::{Database, Transactions},
};
use ichido_postgres::Postgres;
use ichido_test_servers as servers;
use ichido_testkit::eventually;
use sqlx::{Connection, PgConnection, Row};

/// An address that nobody listens at.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// The same database through several hosts.
fn through(url: &str, hosts: &[String], more: &str) -> String {
    let (front, name) = url.rsplit_once('/').unwrap();
    let at = front.rfind(['@', '/']).unwrap() + 1;
    format!("{}{}/{name}{more}", &front[..at], hosts.join(","))
}

async fn number(url: &str, query: &'static str) -> i64 {
    let mut outside = PgConnection::connect(url).await.unwrap();
    sqlx::query(query).fetch_one(&mut outside).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_an_error_with_its_cause() {
    let store = Postgres::new(&format!("postgres://{}/shop", nobody()), None, 4, Vec::new()).unwrap();
    // A wait that ends in "timed out" would never end here.
    let store = store.timeout(Duration::from_hours(1));
    let Err(Error::Unreachable { source, .. }) = store.ping().await else { panic!("there is nobody") };
    assert!(source.to_string().contains("refused"), "{source}");
    let process = Process::new(store.clone())
        .retry(Retry { limit: Limit::Count(3), interval: Duration::from_millis(1), ..Retry::default() })
        .action_fn(Pool::new("Never"), async |_: &mut ichido::Context<Postgres>, (): ()| Ok(Outcome::Done));
    assert_eq!(process.run().await.unwrap(), 180);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_in_the_url_is_the_name_at_the_server() {
    let url = servers::Postgres::shared().fresh_database();
    let named = Postgres::new(&format!("{url}&application_name=till"), None, 4, Vec::new()).unwrap();
    let plain = Postgres::new(&url, None, 4, Vec::new()).unwrap();
    named.ping().await.unwrap();
    plain.ping().await.unwrap();
    for name in [
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'till'",
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'ichido'",
    ] {
        assert_eq!(number(&url, name).await, 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_the_first_that_can_be_written_to_is_taken() {
    let server = servers::Postgres::shared();
    let url = server.fresh_database();
    let only_reads = servers::Postgres::start(&[("default_transaction_read_only", "on")]);
    let name = url.rsplit_once('/').unwrap().1.split('?').next().unwrap();
    let there = |database: &str, attributes: &str| {
        through(
            &format!("postgres://postgres@h/{database}?sslmode=disable"),
            &[only_reads.address().to_string()],
            attributes,
        )
    };
    let writes = there("postgres", "&options=-c%20default_transaction_read_only%3Doff");
    only_reads.psql(&writes, &format!("create database {name}"));
    let hosts = [nobody(), only_reads.address().to_string(), server.address().to_string()];
    let store = Postgres::new(&through(&url, &hosts, "&target_session_attrs=read-write"), None, 4, Vec::new()).unwrap();
    store.migrate().await.unwrap();
    let ours =
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'ichido'";
    assert!(number(&url, ours).await > 0, "the last one can be written to");

    let unfit = Postgres::new(&through(&url, &hosts[..2], "&target_session_attrs=read-write"), None, 4, Vec::new());
    let text = format!("{:#}", unfit.unwrap().ping().await.unwrap_err());
    let [refused, reads, _] = &hosts;
    assert!(text.contains(&format!("{refused}: ")) && text.contains("refused"), "{text}");
    assert!(text.contains(&format!("{reads}: ")) && text.contains("read-only"), "{text}");

    let any = Postgres::new(&through(&url, &hosts[1..], ""), None, 4, Vec::new()).unwrap();
    any.ping().await.unwrap();
    assert!(number(&there(name, ""), ours).await > 0, "nothing was said about writing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_dropped_closes_its_connection() {
    let url = servers::Postgres::shared().fresh_database();
    let store = Postgres::new(&url, None, 3, vec![Queue::managed("mail")]).unwrap();
    store.migrate().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let pid: i32 =
        sqlx::query("select pg_backend_pid()").fetch_one(Postgres::connection(&mut tx)).await.unwrap().get(0);
    drop(tx);
    let mut outside = PgConnection::connect(&url).await.unwrap();
    eventually("the session ends", async || {
        let there = sqlx::query("select 1 from pg_stat_activity where pid = $1").bind(pid);
        there.fetch_optional(&mut outside).await.unwrap().is_none()
    })
    .await;
    // Its place is free: there is only one.
    let tx = store.begin().await.unwrap();
    store.rollback(tx).await.unwrap();
}
