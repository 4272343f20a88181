//! A server that falls silent, as after a failover: a statement without an answer is a fault, the row tells what became of a COMMIT, and a
//! statement of the user's may take as long as the server works on it.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{
    Action, Context, Error, Operate, Outcome, Pool, Process, Result,
    adopt::Adopt,
    handlers::{Limit, Retry},
    store::{Database, SessionState, Transactions},
};

use crate::{
    eventually,
    fixture::{Fixture, Silence, SilenceFixture, effects, with_orders},
};

/// Short enough for a test, and long enough for a server beside other work.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the server has fallen silent for others too is known a few timeouts later, and on a busy machine that takes a moment.
const LONGER: Duration = Duration::from_secs(4);

const ORDERS: i64 = 12;

const ANYTHING: &str = "select 'anything'";

/// Writes a line, then runs a statement and does something else for a while.
pub struct Writes<F> {
    pub runs: Arc<AtomicUsize>,
    statement: String,
    pause: Duration,
    fixture: PhantomData<fn() -> F>,
}

impl<F> Writes<F> {
    #[must_use]
    pub fn new(statement: &str, pause: Duration) -> Self {
        Writes { runs: Arc::default(), statement: statement.to_owned(), pause, fixture: PhantomData }
    }
}

impl<F: Fixture> Action<F::Store> for Writes<F> {
    type Message = serde_json::Value;

    async fn handle(&self, cx: &mut Context<F::Store>, _: serde_json::Value) -> Result<Outcome> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let tx = cx.tx().await?;
        F::through(tx, "insert into ledger values ('order', 'action')".to_owned()).await?;
        F::through(tx, self.statement.clone()).await?;
        tokio::time::sleep(self.pause).await;
        Ok(Outcome::Done)
    }
}

/// Orders, and a line on which they are processed.
pub struct Scene<F: SilenceFixture> {
    pub fixture: F,
    pub line: F::Line,
    /// How long the server may be silent.
    timeout: Duration,
}

impl<F: SilenceFixture> Scene<F> {
    pub async fn new(orders: i64) -> Self {
        let fixture = with_orders::<F>(orders).await;
        Scene { line: fixture.line(), fixture, timeout: TIMEOUT }
    }

    pub fn store(&self) -> F::Store {
        self.fixture.store_over(Some(&self.line), self.timeout)
    }

    /// Runs the orders over the line; how often an action ran.
    async fn drain(&self, statement: &str) -> usize {
        let writes = Writes::<F>::new(statement, Duration::ZERO);
        let runs = writes.runs.clone();
        let process = self.process().drain().action(Pool::new("Write").from("orders").concurrency(2), writes);
        assert_eq!(process.run().await.unwrap(), 0);
        runs.load(Ordering::SeqCst)
    }

    /// A process on the line that does not give up soon.
    pub fn process(&self) -> Process<F::Store> {
        Process::new(self.store()).lease(self.timeout * 4).poll(Duration::from_millis(50)).retry(Retry {
            limit: Limit::Count(50),
            interval: Duration::from_millis(50),
            ..Retry::default()
        })
    }

    pub async fn was_silent(&self) {
        tokio::time::timeout(Duration::from_secs(1), F::silenced(&self.line)).await.expect("it was silent");
    }

    /// At the nth statement like this, for both kinds of silence, everything goes on through new connections, and is exact.
    pub async fn silent_at(pattern: &str, nth: u32, everyone: bool) {
        Self::silent_for(TIMEOUT, pattern, nth, everyone).await;
    }

    /// The same with another timeout. The two kinds wait beside each other.
    async fn silent_for(timeout: Duration, pattern: &str, nth: u32, everyone: bool) {
        let silent = async |both| {
            let scene = Scene { timeout, ..Self::new(ORDERS).await };
            F::silence_at(&scene.line, Silence { both, everyone }, pattern, nth);
            scene.drain(ANYTHING).await;
            scene.was_silent().await;
            scene.assert_exact(ORDERS).await;
        };
        // In boxes: they are large.
        tokio::join!(Box::pin(silent(false)), Box::pin(silent(true)));
    }

    /// Every order is done once, and no attempt was spent on one.
    pub async fn assert_exact(&self, orders: i64) {
        assert_eq!(effects(&self.fixture).await, orders);
        let done = "select count(*) from received_order where status = '1'";
        assert_eq!(self.fixture.number(done).await, orders);
        assert_eq!(self.fixture.number("select count(*) from ichido_parked").await, 0);
    }
}

pub async fn a_commit_that_is_never_answered<F: SilenceFixture>() {
    Scene::<F>::silent_at("commit%", 3, false).await;
}

pub async fn a_commit_at_which_everyone_falls_silent<F: SilenceFixture>() {
    Scene::<F>::silent_at("commit%", 3, true).await;
}

pub async fn an_actions_statement_at_which_everyone_falls_silent<F: SilenceFixture>() {
    Scene::<F>::silent_for(LONGER, "select 'anything'%", 3, true).await;
}

pub async fn a_completion_that_is_never_answered<F: SilenceFixture>() {
    Scene::<F>::silent_at("update %received_order% set %status% = '1'%", 3, false).await;
}

pub async fn a_claim_that_is_never_answered<F: SilenceFixture>() {
    Scene::<F>::silent_at(F::CLAIM.0, F::CLAIM.1, false).await;
}

/// The server knows when it has answered, and we know when we fell asleep.
pub async fn an_actions_long_statement_whose_answer_is_lost<F: SilenceFixture>() {
    let scene = Scene::<F>::new(3).await;
    let sleep = F::sleep(2);
    F::silence_at(&scene.line, Silence { both: false, everyone: false }, &format!("{sleep}%"), 2);
    assert_eq!(scene.drain(&sleep).await, 4, "only that one runs again");
    scene.assert_exact(3).await;
}

/// Neither a long statement nor a long wait for something else is silence.
pub async fn whoever_takes_long_is_not_disturbed<F: SilenceFixture>() {
    let runs_once = async |statement: &str, pause| {
        let scene = Scene::<F>::new(1).await;
        let writes = Writes::<F>::new(statement, pause);
        let (runs, store) = (writes.runs.clone(), scene.fixture.store_over(None, Duration::from_secs(3)));
        let process = Process::new(store).drain().action(Pool::new("Long").from("orders"), writes);
        assert_eq!(process.run().await.unwrap(), 0);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        scene.assert_exact(1).await;
    };
    let (statement, pause) = (F::sleep(7), Duration::from_secs(7));
    tokio::join!(Box::pin(runs_once(&statement, Duration::ZERO)), Box::pin(runs_once(ANYTHING, pause)));
}

/// The server keeps what it has locked for as long as the session lives.
pub async fn the_session_of_a_silent_connection_is_ended<F: SilenceFixture>() {
    let scene = Scene::<F>::new(0).await;
    let store = scene.store();
    store.prepare().await.unwrap();
    let tx = store.begin().await.unwrap();
    let session = F::Store::session(&tx).unwrap();
    F::silence_at(&scene.line, Silence { both: true, everyone: true }, "commit%", 1);
    assert!(store.commit(tx).await.is_err());
    let there = format!("select count(*) from {} = {}", F::SESSION, session.number);
    eventually("the session is gone", async || scene.fixture.number(&there).await == 0).await;
    assert_eq!(store.session_state(&session).await.unwrap(), SessionState::Gone);
}

/// An operator's commands end too, and can be repeated; DDL may take as long as the server works on it.
pub async fn a_migration_and_an_adoption_end_in_silence<F: SilenceFixture>() {
    tokio::join!(
        Box::pin(commands_end::<F>(1, Silence { both: true, everyone: true })),
        Box::pin(commands_end::<F>(4, Silence { both: false, everyone: true }))
    );
}

/// The migration at its nth table.
async fn commands_end<F: SilenceFixture>(nth: u32, silence: Silence) {
    let fixture = F::empty().await;
    let scene = Scene { line: fixture.line(), fixture, timeout: TIMEOUT };
    F::silence_at(&scene.line, silence, "%create table if not exists ichido_%", nth);
    let migrated = scene.store().migrate().await;
    assert!(migrated.as_ref().is_err_and(Error::is_fault::<F::Store>), "{migrated:?}");
    scene.was_silent().await;
    let store = scene.store();
    store.migrate().await.unwrap();
    store.apply(&[F::sleep(4)]).await.unwrap();
    for pattern in [F::CATALOG, "create table made%"] {
        F::silence_at(&scene.line, silence, pattern, 1);
        let ended = match pattern {
            "create table made%" => store.apply(&["create table made (id integer)".to_owned()]).await,
            _ => store.tables(None).await.map(|_| ()),
        };
        assert!(ended.as_ref().is_err_and(Error::is_fault::<F::Store>), "{pattern}: {ended:?}");
    }
    assert!(!store.tables(None).await.unwrap().is_empty());
}
