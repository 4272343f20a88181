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
    Action, CancellationToken, Context, Inspect, NewMessage, Operate, Outcome, Pool, Process, Queue, Result, Status,
    Table,
    adopt::Adopt,
    handlers::{Limit, Retry},
    inspect::ParkedFilter,
    sql::{SqlAction, Syntax},
    store::{Database, Queues, Transactions},
};
use ichido_postgres::Postgres;
use ichido_test_servers::{
    self as servers,
    proxy::{Proxy, Silence, Whom},
};
use ichido_testkit::{eventually, fixture::TABLES};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

/// Short enough for a test, and long enough for a server beside other work.
const TIMEOUT: Duration = Duration::from_secs(1);

const ORDERS: i64 = 12;

struct Scene {
    url: String,
    proxy: Proxy,
}

/// The orders, through this URL.
fn store(url: &str) -> Postgres {
    let status = Status::new("status", "0", "1").failed("2");
    let queue = Queue::table("orders", Table::new("received_order", "process_id", status));
    Postgres::new(url, None, 6, vec![queue]).unwrap().timeout(TIMEOUT)
}

impl Scene {
    async fn new(orders: i64) -> Self {
        let server = servers::Postgres::shared();
        let scene = Scene { url: server.fresh_database(), proxy: Proxy::start(server.address()) };
        scene.outside().await.execute(sqlx::raw_sql(TABLES)).await.unwrap();
        let store = store(&scene.url);
        store.migrate().await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let orders: Vec<_> = (1..=orders).map(|id| NewMessage::new(format!(r#"{{"id":{id}}}"#))).collect();
        store.send(Postgres::connection(&mut tx), "orders", &orders).await.unwrap();
        store.commit(tx).await.unwrap();
        scene
    }

    async fn outside(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    async fn number(&self, query: &str) -> i64 {
        sqlx::query(AssertSqlSafe(query)).fetch_one(&mut self.outside().await).await.unwrap().get(0)
    }

    /// Runs the orders through the proxy; how often an action ran.
    async fn drain(&self, statement: &'static str) -> usize {
        let (runs, statements) = (Arc::new(AtomicUsize::new(0)), vec![statement]);
        let writes = Writes { runs: runs.clone(), statements, pause: Duration::ZERO };
        let process = self.process().drain().action(Pool::new("Write").from("orders").concurrency(2), writes);
        assert_eq!(process.run().await.unwrap(), 0);
        runs.load(Ordering::SeqCst)
    }

    fn process(&self) -> Process<Postgres> {
        Process::new(store(&self.proxy.url(&self.url)))
            .lease(Duration::from_secs(4))
            .poll(Duration::from_millis(50))
            .retry(Retry { limit: Limit::Count(50), interval: Duration::from_millis(50), ..Retry::default() })
    }

    /// Every order is done once, and no attempt was spent on one.
    async fn assert_exact(&self, orders: i64) {
        assert_eq!(self.number("select count(*) from ledger").await, orders);
        assert_eq!(self.number("select count(*) from received_order where status = '1'").await, orders);
        let mut all = ParkedFilter::default();
        all.waiting = true;
        let parked = store(&self.url).parked(&all).await.unwrap();
        assert!(parked.is_empty(), "{parked:?}");
    }
}

/// Writes a line, then runs statements and does something else for a while.
struct Writes {
    runs: Arc<AtomicUsize>,
    statements: Vec<&'static str>,
    pause: Duration,
}

impl Action<Postgres> for Writes {
    type Message = serde_json::Value;

    async fn handle(&self, cx: &mut Context<Postgres>, _: serde_json::Value) -> Result<Outcome> {
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
async fn a_claim_that_is_never_answered() {
    silent_at("with %received_order%", Whom::Speaker).await;
}

/// ichido's own actions wait for nothing but the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_the_action_sql_at_which_one_connection_falls_silent() {
    for silence in [Silence::Answers, Silence::Both] {
        let scene = Scene::new(ORDERS).await;
        scene.proxy.silence_at(silence, Whom::Speaker, "insert into ledger%", 3);
        let writes =
            SqlAction::new(Syntax::POSTGRES, &["insert into ledger values ('order', 'action')".to_owned()]).unwrap();
        let process = scene.process().drain().action(Pool::new("Write").from("orders").concurrency(2), writes);
        assert_eq!(process.run().await.unwrap(), 0);
        tokio::time::timeout(Duration::from_secs(1), scene.proxy.silenced()).await.expect("it was silent");
        scene.assert_exact(ORDERS).await;
    }
}

/// The server knows when it has answered, and we know when we fell asleep.
#[tokio::test(flavor = "multi_thread")]
async fn an_actions_long_statement_whose_answer_is_lost() {
    let scene = Scene::new(3).await;
    scene.proxy.silence_at(Silence::Answers, Whom::Speaker, "select pg_sleep(1)%", 2);
    assert_eq!(scene.drain("select pg_sleep(1)").await, 4, "only that one runs again");
    scene.assert_exact(3).await;
}

/// Neither a long statement nor a long wait for something else is silence.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_long_is_not_disturbed() {
    let scene = Scene::new(2).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let writes = Writes { runs: runs.clone(), statements: vec!["select pg_sleep(7)"], pause: Duration::from_secs(7) };
    let store = store(&scene.url).timeout(Duration::from_secs(3));
    let process = Process::new(store).drain().action(Pool::new("Long").from("orders").concurrency(2), writes);
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    scene.assert_exact(2).await;
}

/// Makes a call that takes as long as the test wants, with its transaction open.
struct Calls {
    runs: Arc<AtomicUsize>,
    answered: Arc<tokio::sync::Semaphore>,
}

impl Action<Postgres> for Calls {
    type Message = serde_json::Value;

    async fn handle(&self, cx: &mut Context<Postgres>, _: serde_json::Value) -> Result<Outcome> {
        cx.tx().await?.execute("insert into ledger values ('order', 'action')").await?;
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.answered.acquire().await?.forget();
        Ok(Outcome::Done)
    }
}

/// A connection of ichido's own that falls silent long after the action's last statement says nothing about that.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_silence_elsewhere_does_not_disturb_a_long_call() {
    let scene = Scene::new(1).await;
    let (runs, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let calls = Calls { runs: runs.clone(), answered: answered.clone() };
    let store = store(&scene.proxy.url(&scene.url));
    let process = Process::new(store.clone()).lease(Duration::from_mins(1)).poll(Duration::from_millis(50)).drain();
    let process = tokio::spawn(process.action(Pool::new("Calls").from("orders"), calls).run());
    eventually("the call begins", async || runs.load(Ordering::SeqCst) == 1).await;
    // Time itself: the looks that follow each other, a timeout apart.
    tokio::time::sleep(TIMEOUT * 5).await;
    let before = store.silences();
    scene.proxy.silence_at(Silence::Both, Whom::Speaker, "select%", 1);
    eventually("a statement of ours is not answered", async || store.silences() != before).await;
    tokio::time::sleep(TIMEOUT * 3).await;
    answered.add_permits(9);
    assert_eq!(process.await.unwrap().unwrap(), 0);
    assert_eq!(runs.load(Ordering::SeqCst), 1, "it was not disturbed");
    scene.assert_exact(1).await;
}

/// An operator's commands end too, and can be repeated; DDL may take as long as the server works on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_and_an_adoption_end_in_silence() {
    for (nth, silence) in [(1, Silence::Both), (4, Silence::Answers)] {
        let server = servers::Postgres::shared();
        let scene = Scene { url: server.fresh_database(), proxy: Proxy::start(server.address()) };
        scene.proxy.silence_at(silence, Whom::Everyone, "%create table if not exists ichido_%", nth);
        let migrated = store(&scene.proxy.url(&scene.url)).migrate().await;
        assert!(migrated.as_ref().is_err_and(ichido::Error::is_fault::<Postgres>), "{migrated:?}");
        tokio::time::timeout(Duration::from_secs(1), scene.proxy.silenced()).await.expect("it was silent");
        let store = store(&scene.proxy.url(&scene.url));
        store.migrate().await.unwrap();
        store.apply(&["select pg_sleep(4)".to_owned()]).await.unwrap();
        for pattern in ["%from pg_class%", "create table made%"] {
            scene.proxy.silence_at(silence, Whom::Everyone, pattern, 1);
            let ended = match pattern {
                "create table made%" => store.apply(&["create table made (id integer)".to_owned()]).await,
                _ => store.tables(None).await.map(|_| ()),
            };
            assert!(ended.as_ref().is_err_and(ichido::Error::is_fault::<Postgres>), "{pattern}: {ended:?}");
        }
        assert!(!store.tables(None).await.unwrap().is_empty());
    }
}

/// The server keeps what it has locked for as long as the session lives.
#[tokio::test(flavor = "multi_thread")]
async fn the_session_of_a_silent_connection_is_ended() {
    let scene = Scene::new(0).await;
    let store = store(&scene.proxy.url(&scene.url));
    store.prepare().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let who = "select pg_backend_pid()";
    let pid: i32 = sqlx::query(who).fetch_one(Postgres::connection(&mut tx)).await.unwrap().get(0);
    scene.proxy.silence(Silence::Both);
    assert!(store.commit(tx).await.is_err());
    let there = format!("select count(*) from pg_stat_activity where pid = {pid}");
    eventually("the session is gone", async || scene.number(&there).await == 0).await;
}

/// Statements that somebody cancels are ichido's own until the action's begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_statement_of_our_own_is_a_fault() {
    let scene = Scene::new(1).await;
    let mut outside = scene.outside().await;
    let mut locked = outside.begin().await.unwrap();
    locked.execute("lock table received_order in access exclusive mode").await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let writes = Writes { runs: runs.clone(), statements: Vec::new(), pause: Duration::ZERO };
    let process = scene.process().drain().action(Pool::new("Write").from("orders"), writes);
    let process = tokio::spawn(process.run());
    let mut cancelled = 0;
    let cancel = "select count(*) from (select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() \
        and wait_event_type = 'Lock' and query like '%received_order%') as told";
    eventually("three claims are cancelled", async || {
        cancelled += scene.number(cancel).await;
        cancelled >= 3 || process.is_finished()
    })
    .await;
    assert!(!process.is_finished(), "a cancelled claim ends no process");
    locked.rollback().await.unwrap();
    assert_eq!(process.await.unwrap().unwrap(), 0);
    scene.assert_exact(1).await;
}

/// Nobody answers, and nobody would for an hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_in_silence_ends() {
    let scene = Scene::new(1).await;
    let stop = CancellationToken::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let writes = Writes { runs: runs.clone(), statements: vec!["select 'anything'"], pause: Duration::ZERO };
    let store = store(&scene.proxy.url(&scene.url)).timeout(Duration::from_hours(1));
    let settings = ichido::process::Settings { grace: Duration::from_millis(100), ..Default::default() };
    let process = Process::new(store).settings(settings).stop_on(stop.clone());
    let process = process.action(Pool::new("Write").from("orders"), writes);
    scene.proxy.silence_at(Silence::Both, Whom::Everyone, "select 'anything'%", 1);
    let process = tokio::spawn(process.run());
    scene.proxy.silenced().await;
    scene.proxy.hold();
    stop.cancel();
    assert_eq!(process.await.unwrap().unwrap(), 0);
}

/// An application runs the process: it gets a code, and goes on. Another process of it does the work that was left.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_outlives_a_process_that_ends_in_silence() {
    let scene = Scene::new(1).await;
    let writes = |statement| Writes { runs: Arc::default(), statements: vec![statement], pause: Duration::ZERO };
    let store = store(&scene.proxy.url(&scene.url)).timeout(Duration::from_hours(1));
    let settings = ichido::process::Settings {
        grace: Duration::from_millis(100),
        lease: Duration::from_secs(2),
        poll: Duration::from_millis(50),
        ..Default::default()
    };
    let process = Process::new(store).settings(settings);
    let process = process.action(Pool::new("Write").from("orders"), writes("select 'anything'"));
    let probe = process.probe();
    scene.proxy.silence_at(Silence::Both, Whom::Everyone, "select 'anything'%", 1);
    let silent = async {
        scene.proxy.silenced().await;
        scene.proxy.hold();
    };
    assert_eq!(process.run_until(silent).await.unwrap(), 0);
    assert!(probe.ready().is_err());
    scene.proxy.resume();
    let process = scene.process().drain().action(Pool::new("Write").from("orders"), writes("select 'something'"));
    assert_eq!(process.run().await.unwrap(), 0);
    scene.assert_exact(1).await;
}
