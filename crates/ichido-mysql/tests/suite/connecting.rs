//! Connections: what a server that refuses says, which of several hosts is taken, what becomes of one that is dropped, closed by the server
//! or held by a host that has vanished, and that a transaction within the transaction is a savepoint.

use std::{
    future::poll_fn,
    net::TcpListener,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use ichido::{
    Context, Error, NewMessage, Operate, Outcome, Pool, Process, Queue,
    action::Terms,
    handlers::{Limit, Retry},
    store::{Database, Processes, Queues, Registration, Transactions},
};
use ichido_mysql::MySql;
use ichido_test_servers::{self as servers, proxy::Proxy};
use ichido_testkit::{eventually, fixture::TABLES};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, Row};

/// An address that nobody listens at.
fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The same database through several hosts.
fn through(url: &str, hosts: &[String], more: &str) -> String {
    let (user, place) = url.split_once('@').unwrap();
    let (_, name) = place.split_once('/').unwrap();
    format!("{user}@{}/{name}{more}", hosts.join(","))
}

async fn number(url: &str, query: &str) -> i64 {
    let mut outside = MySqlConnection::connect(url).await.unwrap();
    sqlx::query(AssertSqlSafe(query)).fetch_one(&mut outside).await.unwrap().get(0)
}

/// A database with ichido's tables and a queue.
async fn mail(url: &str, pool: u32) -> MySql {
    let store = MySql::new(url, None, pool, false, vec![Queue::managed("mail")]).unwrap();
    store.migrate().await.unwrap();
    store
}

async fn session_of(tx: &mut <MySql as Database>::Tx) -> i64 {
    let id = sqlx::query("select cast(connection_id() as signed)").fetch_one(MySql::connection(tx)).await;
    id.unwrap().get(0)
}

fn there(session: i64) -> String {
    format!("select count(*) from information_schema.processlist where id = {session}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_an_error_with_its_cause() {
    let store = MySql::new(&format!("mysql://{}/shop", nobody()), None, 4, false, Vec::new()).unwrap();
    // A wait that ends in "timed out" would never end here.
    let store = store.timeout(Duration::from_hours(1));
    let Err(Error::Unreachable { source, .. }) = store.ping().await else { panic!("there is nobody") };
    assert!(source.to_string().contains("refused"), "{source}");
    let process = Process::new(store.clone())
        .retry(Retry { limit: Limit::Count(3), interval: Duration::from_millis(1), ..Retry::default() })
        .action_fn(Pool::new("Never"), async |_: &mut Context<MySql>, (): ()| Ok(Outcome::Done));
    assert_eq!(process.run().await.unwrap(), 180);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_accepts_and_says_nothing_is_silent() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mysql://{}/shop", mute.local_addr().unwrap());
    let store = MySql::new(&url, None, 4, false, Vec::new()).unwrap().timeout(Duration::from_millis(200));
    let Err(error @ Error::Unreachable { .. }) = store.begin().await.map(|_| ()) else { panic!("it says nothing") };
    assert!(error.is_fault::<MySql>() && format!("{error:#}").contains("did not answer within"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_the_first_that_can_be_written_to_is_taken() {
    let (server, only_reads) = (servers::MariaDb::shared(), servers::MariaDb::start(&[("read_only", "ON")]));
    let url = server.fresh_database();
    let name = url.rsplit_once('/').unwrap().1.split('?').next().unwrap();
    only_reads.client(&only_reads.fresh_database(), &format!("create database {name}"));
    let hosts = [nobody(), only_reads.address().to_string(), server.address().to_string()];
    let store = |hosts: &[String], more| MySql::new(&through(&url, hosts, more), None, 4, false, Vec::new()).unwrap();
    let ours = format!("select count(*) from information_schema.processlist where db = '{name}'");
    let writes = store(&hosts, "&target_session_attrs=read-write");
    writes.migrate().await.unwrap();
    writes.ping().await.unwrap();
    assert!(number(&url, &ours).await > 1, "the last one can be written to");

    let text = format!("{:#}", store(&hosts[..2], "&target_session_attrs=primary").ping().await.unwrap_err());
    let [refused, reads, _] = &hosts;
    assert!(text.contains(&format!("{refused}: ")) && text.contains("refused"), "{text}");
    assert!(text.contains(&format!("{reads}: ")) && text.contains("the server is read-only"), "{text}");

    let any = store(&hosts[1..], "");
    any.ping().await.unwrap();
    assert!(number(&through(&url, &hosts[1..2], ""), &ours).await > 1, "nothing was said about writing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_dropped_closes_its_connection() {
    let url = servers::MariaDb::shared().fresh_database();
    let store = mail(&url, 3).await;
    let mut tx = store.begin().await.unwrap();
    let session = session_of(&mut tx).await;
    drop(tx);
    eventually("the session ends", async || number(&url, &there(session)).await == 0).await;
    // Its place is free: there is only one.
    let tx = store.begin().await.unwrap();
    store.rollback(tx).await.unwrap();
}

/// At whatever moment: what has begun on the server goes with its connection, and its place is free.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_dropped_on_its_way_leaves_no_transaction_behind() {
    let url = servers::MariaDb::shared().fresh_database();
    let store = mail(&url, 3).await;
    let process = Registration::new("dropped", Duration::from_mins(20), [("mail".into(), 3)].into());
    store.register(&process).await.unwrap();
    let (mut polls, mut whole) = (1, 0);
    while whole < 2 {
        let mut claim = pin!(store.claim(process.id, "mail", 1));
        let mut left = polls;
        let claimed = poll_fn(|cx| {
            let polled = claim.as_mut().poll(cx).map(Some);
            left -= 1;
            if left == 0 && polled.is_pending() { Poll::Ready(None) } else { polled }
        });
        if let Some(claimed) = claimed.await {
            assert!(claimed.unwrap().is_empty());
            whole += 1;
        }
        polls += 1;
    }
    assert!(polls > 5, "it was dropped at several moments");
    let mine = "select count(*) from information_schema.innodb_trx t join information_schema.processlist p \
        on p.id = t.trx_mysql_thread_id where p.db = database()";
    eventually("no transaction is open", async || number(&url, mine).await == 0).await;
    assert!(store.heartbeat(process.id, &[]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_the_server_has_closed_costs_nothing() {
    let url = servers::MariaDb::shared().fresh_database();
    let store = mail(&url, 6).await;
    let mut open = [store.begin().await.unwrap(), store.begin().await.unwrap(), store.begin().await.unwrap()];
    let mut sessions = Vec::new();
    for tx in &mut open {
        sessions.push(session_of(tx).await);
    }
    for tx in open {
        store.commit(tx).await.unwrap();
    }
    let mut outside = MySqlConnection::connect(&url).await.unwrap();
    let ours =
        "select cast(id as signed) from information_schema.processlist where db = database() and id <> connection_id()";
    let all: Vec<i64> = sqlx::query(ours).fetch_all(&mut outside).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(sessions.iter().all(|session| all.contains(session)), "they are kept: {sessions:?} of {all:?}");
    for session in all {
        outside.execute(AssertSqlSafe(format!("kill {session}"))).await.unwrap();
    }
    for session in &sessions {
        eventually("it is closed", async || number(&url, &there(*session)).await == 0).await;
    }
    let mut tx = store.begin().await.unwrap();
    store.send(MySql::connection(&mut tx), "mail", &[NewMessage::new("1")]).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!(store.backlog("mail", 10).await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_within_the_transaction_is_a_savepoint() {
    let url = servers::MariaDb::shared().fresh_database();
    let store = mail(&url, 3).await;
    sqlx::raw_sql(TABLES).execute(&mut MySqlConnection::connect(&url).await.unwrap()).await.unwrap();
    for round in 1..=3 {
        let mut tx = store.begin().await.unwrap();
        let connection = MySql::connection(&mut tx);
        connection.execute("insert into ledger values ('outer', 'x')").await.unwrap();
        let mut within = connection.begin().await.unwrap();
        within.execute("insert into ledger values ('kept', 'x')").await.unwrap();
        within.commit().await.unwrap();
        let mut within = connection.begin().await.unwrap();
        within.execute("insert into ledger values ('taken back', 'x')").await.unwrap();
        within.rollback().await.unwrap();
        store.complete(&mut tx, &[]).await.unwrap();
        store.commit(tx).await.unwrap();
        assert_eq!(number(&url, "select count(*) from ledger").await, 2 * round);
    }
}

/// Nothing arrives from the host any more, and its connections stay open: the server ends what idles for longer than its action may take.
#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_a_vanished_host_is_free_when_its_action_is_out_of_time() {
    let server = servers::MariaDb::shared();
    let url = server.fresh_database();
    sqlx::raw_sql(TABLES).execute(&mut MySqlConnection::connect(&url).await.unwrap()).await.unwrap();
    sqlx::raw_sql("insert into only_one values (1)")
        .execute(&mut MySqlConnection::connect(&url).await.unwrap())
        .await
        .unwrap();
    let proxy = Proxy::start_mysql(server.address());
    let store = mail(&proxy.url(&url), 3).await.timeout(Duration::from_secs(1));
    let idle = async |tx: &mut <MySql as Database>::Tx| {
        let idle = sqlx::query("select cast(@@idle_transaction_timeout as signed)");
        idle.fetch_one(MySql::connection(tx)).await.unwrap().get::<i64, _>(0)
    };
    let (mut terms, free) = (Terms::default(), Terms::default());
    terms.limit = Some(Duration::from_secs(2));
    for (terms, seconds) in [(free, 600), (terms, 6), (free, 600)] {
        let mut tx = store.begin_on(terms).await.unwrap();
        assert_eq!(idle(&mut tx).await, seconds);
        store.rollback(tx).await.unwrap();
    }
    let mut tx = store.begin_on(terms).await.unwrap();
    MySql::connection(&mut tx).execute("update only_one set id = 2").await.unwrap();
    proxy.hold();
    let since = Instant::now();
    let taken = "set innodb_lock_wait_timeout = 1; update only_one set id = 3";
    eventually("the row is free", async || {
        let mut other = MySqlConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(taken).execute(&mut other).await.is_ok()
    })
    .await;
    assert!(since.elapsed() < Duration::from_mins(2), "600 s without a limit");
}
