//! A server that falls silent: the cases of the testkit, through the proxy, and what PostgreSQL shows beside them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{
    Action, CancellationToken, Context, Outcome, Pool, Process, Result,
    sql::{SqlAction, Syntax},
    store::Database,
};
use ichido_postgres::Postgres;
use ichido_test_servers::{
    self as servers,
    proxy::{self, Proxy, Whom},
};
use ichido_testkit::{
    cases::silence::{Scene, TIMEOUT, Writes},
    eventually,
    fixture::{Fixture, Silence, SilenceFixture, queues},
    in_time,
};
use sqlx::{Connection, Executor, PgConnection};

use crate::fixture::OnPostgres;

impl SilenceFixture for OnPostgres {
    type Line = Proxy;

    const CLAIM: (&'static str, u32) = ("with %received_order%", 3);
    const CATALOG: &'static str = "%from pg_class%";
    const SESSION: &'static str = "pg_stat_activity where pid";

    fn sleep(seconds: u32) -> String {
        format!("select pg_sleep({seconds})")
    }

    fn line(&self) -> Proxy {
        Proxy::start(servers::Postgres::shared().address())
    }

    fn store_over(&self, line: Option<&Proxy>, timeout: Duration) -> Postgres {
        let url = line.map_or_else(|| self.place(), |line| line.url(&self.place()));
        Postgres::new(&url, None, 6, queues()).unwrap().timeout(timeout)
    }

    fn silence_at(line: &Proxy, silence: Silence, pattern: &str, nth: u32) {
        line.silence_at(proxy::Silence::of(silence.both), Whom::of(silence.everyone), pattern, nth);
    }

    async fn silenced(line: &Proxy) {
        line.silenced().await;
    }
}

ichido_testkit::silencing!(OnPostgres);

/// ichido's own actions wait for nothing but the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_the_action_sql_at_which_one_connection_falls_silent() {
    for both in [false, true] {
        let scene = Scene::<OnPostgres>::new(12).await;
        OnPostgres::silence_at(&scene.line, Silence { both, everyone: false }, "insert into ledger%", 3);
        let writes =
            SqlAction::new(Syntax::POSTGRES, &["insert into ledger values ('order', 'action')".to_owned()]).unwrap();
        let process = scene.process().drain().action(Pool::new("Write").from("orders").concurrency(2), writes);
        assert_eq!(process.run().await.unwrap(), 0);
        scene.was_silent().await;
        scene.assert_exact(12).await;
    }
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
    let scene = Scene::<OnPostgres>::new(1).await;
    let (runs, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let calls = Calls { runs: runs.clone(), answered: answered.clone() };
    let store = scene.store();
    let process = Process::new(store.clone()).lease(Duration::from_mins(1)).poll(Duration::from_millis(50)).drain();
    let process = tokio::spawn(process.action(Pool::new("Calls").from("orders"), calls).run());
    eventually("the call begins", async || runs.load(Ordering::SeqCst) == 1).await;
    // Time itself: the looks that follow each other, a timeout apart.
    tokio::time::sleep(TIMEOUT * 5).await;
    let before = store.silences();
    // The heartbeat's connection has a limit of its own, which does not count: then another one falls silent.
    eventually("a statement of ours is not answered", async || {
        scene.line.silence_at(proxy::Silence::Both, Whom::Speaker, "select%", 1);
        in_time("a connection falls silent", scene.line.silenced()).await;
        tokio::time::sleep(TIMEOUT * 2).await; // time itself: until that is noticed
        store.silences() != before
    })
    .await;
    tokio::time::sleep(TIMEOUT * 3).await;
    answered.add_permits(9);
    assert_eq!(process.await.unwrap().unwrap(), 0);
    assert_eq!(runs.load(Ordering::SeqCst), 1, "it was not disturbed");
    scene.assert_exact(1).await;
}

/// Statements that somebody cancels are ichido's own until the action's begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_statement_of_our_own_is_a_fault() {
    let scene = Scene::<OnPostgres>::new(1).await;
    let mut outside = PgConnection::connect(&scene.fixture.place()).await.unwrap();
    let mut locked = outside.begin().await.unwrap();
    locked.execute("lock table received_order in access exclusive mode").await.unwrap();
    let writes = Writes::<OnPostgres>::new("select 1", Duration::ZERO);
    let process = scene.process().drain().action(Pool::new("Write").from("orders"), writes);
    let process = tokio::spawn(process.run());
    let mut cancelled = 0;
    let cancel = "select count(*) from (select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() \
        and wait_event_type = 'Lock' and query like '%received_order%') as told";
    eventually("three claims are cancelled", async || {
        cancelled += scene.fixture.number(cancel).await;
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
    let scene = Scene::<OnPostgres>::new(1).await;
    let stop = CancellationToken::new();
    let writes = Writes::<OnPostgres>::new("select 'anything'", Duration::ZERO);
    let store = scene.fixture.store_over(Some(&scene.line), Duration::from_hours(1));
    let settings = ichido::process::Settings { grace: Duration::from_millis(100), ..Default::default() };
    let process = Process::new(store).settings(settings).stop_on(stop.clone());
    let process = process.action(Pool::new("Write").from("orders"), writes);
    scene.line.silence_at(proxy::Silence::Both, Whom::Everyone, "select 'anything'%", 1);
    let process = tokio::spawn(process.run());
    scene.line.silenced().await;
    scene.line.hold();
    stop.cancel();
    assert_eq!(process.await.unwrap().unwrap(), 0);
}

/// An application runs the process: it gets a code, and goes on. Another process of it does the work that was left.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_outlives_a_process_that_ends_in_silence() {
    let scene = Scene::<OnPostgres>::new(1).await;
    let writes = |statement| Writes::<OnPostgres>::new(statement, Duration::ZERO);
    let store = scene.fixture.store_over(Some(&scene.line), Duration::from_hours(1));
    let settings = ichido::process::Settings {
        grace: Duration::from_millis(100),
        lease: Duration::from_secs(2),
        poll: Duration::from_millis(50),
        ..Default::default()
    };
    let process = Process::new(store).settings(settings);
    let process = process.action(Pool::new("Write").from("orders"), writes("select 'anything'"));
    let probe = process.probe();
    scene.line.silence_at(proxy::Silence::Both, Whom::Everyone, "select 'anything'%", 1);
    let silent = async {
        scene.line.silenced().await;
        scene.line.hold();
    };
    assert_eq!(process.run_until(silent).await.unwrap(), 0);
    assert!(probe.ready().is_err());
    scene.line.resume();
    let process = scene.process().drain().action(Pool::new("Write").from("orders"), writes("select 'something'"));
    assert_eq!(process.run().await.unwrap(), 0);
    scene.assert_exact(1).await;
}
