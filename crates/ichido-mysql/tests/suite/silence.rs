//! A server that falls silent, as after a failover: a statement without an answer is a fault, the row tells what became of a COMMIT, and a
//! statement of the user's may take as long as the server works on it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{
    Action, Context, NewMessage, Operate, Outcome, Pool, Process, Queue, Result, Status, Table,
    adopt::Adopt,
    handlers::{Limit, Retry},
    store::{Database, Queues, SessionId, SessionState, Transactions},
};
use ichido_mysql::MySql;
use ichido_test_servers::{
    self as servers,
    proxy::{Proxy, Silence, Whom},
};
use ichido_testkit::{eventually, fixture::TABLES};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, Row};

/// Short enough for a test, and long enough for a server beside other work.
const TIMEOUT: Duration = Duration::from_secs(1);

const ORDERS: i64 = 12;

struct Scene {
    url: String,
    proxy: Proxy,
}

/// The orders, through this URL.
fn store(url: &str) -> MySql {
    let status = Status::new("status", "0", "1").failed("2");
    let queue = Queue::table("orders", Table::new("received_order", "process_id", status));
    MySql::new(url, None, 6, false, vec![queue]).unwrap().timeout(TIMEOUT)
}

impl Scene {
    async fn new(orders: i64) -> Self {
        let server = servers::MariaDb::shared();
        let scene = Scene { url: server.fresh_database(), proxy: Proxy::start_mysql(server.address()) };
        sqlx::raw_sql(TABLES).execute(&mut scene.outside().await).await.unwrap();
        let store = store(&scene.url);
        store.migrate().await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let orders: Vec<_> = (1..=orders).map(|id| NewMessage::new(format!(r#"{{"id":{id}}}"#))).collect();
        store.send(MySql::connection(&mut tx), "orders", &orders).await.unwrap();
        store.commit(tx).await.unwrap();
        scene
    }

    async fn outside(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url).await.unwrap()
    }

    async fn number(&self, query: &str) -> i64 {
        sqlx::query(AssertSqlSafe(query)).fetch_one(&mut self.outside().await).await.unwrap().get(0)
    }

    /// Runs the orders through the proxy; how often an action ran.
    async fn drain(&self, statement: &'static str) -> usize {
        let runs = Arc::new(AtomicUsize::new(0));
        let writes = Writes { runs: runs.clone(), statements: vec![statement], pause: Duration::ZERO };
        let process = Process::new(store(&self.proxy.url(&self.url)))
            .lease(Duration::from_secs(4))
            .poll(Duration::from_millis(50))
            .retry(Retry { limit: Limit::Count(50), interval: Duration::from_millis(50), ..Retry::default() })
            .drain()
            .action(Pool::new("Write").from("orders").concurrency(2), writes);
        assert_eq!(process.run().await.unwrap(), 0);
        runs.load(Ordering::SeqCst)
    }

    /// Every order is done once, and no attempt was spent on one.
    async fn assert_exact(&self, orders: i64) {
        assert_eq!(self.number("select count(*) from ledger").await, orders);
        assert_eq!(self.number("select count(*) from received_order where status = '1'").await, orders);
        assert_eq!(self.number("select count(*) from ichido_parked").await, 0);
    }
}

/// Writes a line, then runs statements and does something else for a while.
struct Writes {
    runs: Arc<AtomicUsize>,
    statements: Vec<&'static str>,
    pause: Duration,
}

impl Action<MySql> for Writes {
    type Message = serde_json::Value;

    async fn handle(&self, cx: &mut Context<MySql>, _: serde_json::Value) -> Result<Outcome> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let tx = cx.tx().await?;
        tx.execute("insert into ledger values ('order', 'action')").await?;
        for statement in &self.statements {
            tx.execute(*statement).await?;
        }
        tokio::time::sleep(self.pause).await;
        Ok(Outcome::Done)
    }
}

/// At these statements, for both kinds of silence, everything goes on through new connections, and is exact.
async fn silent_at(pattern: &str, whom: Whom) {
    for silence in [Silence::Answers, Silence::Both] {
        let scene = Scene::new(ORDERS).await;
        scene.proxy.silence_at(silence, whom, pattern, 3);
        scene.drain("select 'anything'").await;
        tokio::time::timeout(Duration::from_secs(1), scene.proxy.silenced()).await.expect("it was silent");
        scene.assert_exact(ORDERS).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_never_answered() {
    silent_at("commit%", Whom::Speaker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_at_which_everyone_falls_silent() {
    silent_at("commit%", Whom::Everyone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_actions_statement_at_which_everyone_falls_silent() {
    silent_at("select 'anything'%", Whom::Everyone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_is_never_answered() {
    silent_at("update %received_order% set %status% = '1'%", Whom::Speaker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_begin_that_is_never_answered() {
    silent_at("start transaction; savepoint%", Whom::Speaker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_never_answered() {
    let scene = Scene::new(ORDERS).await;
    scene.proxy.silence_at(Silence::Answers, Whom::Speaker, "update %received_order% set %process_id% = ?%", 1);
    scene.drain("select 'anything'").await;
    tokio::time::timeout(Duration::from_secs(1), scene.proxy.silenced()).await.expect("it was silent");
    scene.assert_exact(ORDERS).await;
}

/// The server knows when it has answered, and we know when we fell asleep.
#[tokio::test(flavor = "multi_thread")]
async fn an_actions_long_statement_whose_answer_is_lost() {
    let scene = Scene::new(3).await;
    scene.proxy.silence_at(Silence::Answers, Whom::Speaker, "select sleep(2)%", 2);
    assert_eq!(scene.drain("select sleep(2)").await, 4, "only that one runs again");
    scene.assert_exact(3).await;
}

/// Neither a long statement nor a long wait for something else is silence.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_long_is_not_disturbed() {
    let scene = Scene::new(2).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let writes = Writes { runs: runs.clone(), statements: vec!["select sleep(7)"], pause: Duration::from_secs(7) };
    let store = store(&scene.url).timeout(Duration::from_secs(3));
    let process = Process::new(store).drain().action(Pool::new("Long").from("orders").concurrency(2), writes);
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    scene.assert_exact(2).await;
}

/// The server keeps what it has locked for as long as the session lives.
#[tokio::test(flavor = "multi_thread")]
async fn the_session_of_a_silent_connection_is_ended() {
    let scene = Scene::new(0).await;
    let store = store(&scene.proxy.url(&scene.url));
    store.prepare().await.unwrap();
    let tx = store.begin().await.unwrap();
    let session = MySql::session(&tx).unwrap();
    scene.proxy.silence(Silence::Both);
    assert!(store.commit(tx).await.is_err());
    let there = format!("select count(*) from information_schema.processlist where id = {}", session.number);
    eventually("the session is gone", async || scene.number(&there).await == 0).await;
    assert_eq!(store.session_state(&session).await.unwrap(), SessionState::Gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_connection_tells_what_a_session_does() {
    let scene = Scene::new(0).await;
    let store = store(&scene.url);
    let mut tx = store.begin().await.unwrap();
    let session = MySql::session(&tx).unwrap();
    assert!(matches!(store.session_state(&session).await.unwrap(), SessionState::Idle(_)));
    let other = SessionId { since: "1 another:3306:1".into(), ..(*session).clone() };
    assert_eq!(store.session_state(&other).await.unwrap(), SessionState::Gone, "its number is somebody else's now");
    let sleeping = tokio::spawn(async move {
        MySql::connection(&mut tx).execute("do sleep(600)").await.unwrap_err();
    });
    eventually("it works", async || store.session_state(&session).await.unwrap() == SessionState::Working).await;
    scene.outside().await.execute(AssertSqlSafe(format!("kill {}", session.number))).await.unwrap();
    sleeping.await.unwrap();
    eventually("it is gone", async || store.session_state(&session).await.unwrap() == SessionState::Gone).await;
}

/// An operator's commands end too, and can be repeated; DDL may take as long as the server works on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_and_an_adoption_end_in_silence() {
    for (nth, silence) in [(1, Silence::Both), (4, Silence::Answers)] {
        let server = servers::MariaDb::shared();
        let scene = Scene { url: server.fresh_database(), proxy: Proxy::start_mysql(server.address()) };
        scene.proxy.silence_at(silence, Whom::Everyone, "%create table if not exists ichido_%", nth);
        let migrated = store(&scene.proxy.url(&scene.url)).migrate().await;
        assert!(migrated.as_ref().is_err_and(ichido::Error::is_fault::<MySql>), "{migrated:?}");
        tokio::time::timeout(Duration::from_secs(1), scene.proxy.silenced()).await.expect("it was silent");
        let store = store(&scene.proxy.url(&scene.url));
        store.migrate().await.unwrap();
        store.apply(&["do sleep(4)".to_owned()]).await.unwrap();
        for pattern in ["%from information_schema.tables%", "create table made%"] {
            scene.proxy.silence_at(silence, Whom::Everyone, pattern, 1);
            let ended = match pattern {
                "create table made%" => store.apply(&["create table made (id integer)".to_owned()]).await,
                _ => store.tables(None).await.map(|_| ()),
            };
            assert!(ended.as_ref().is_err_and(ichido::Error::is_fault::<MySql>), "{pattern}: {ended:?}");
        }
        assert!(!store.tables(None).await.unwrap().is_empty());
    }
}
