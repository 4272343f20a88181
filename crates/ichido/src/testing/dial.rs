//! A clock that stands still until a test moves it. Whoever sleeps by it sleeps until the test has let enough time pass.

use std::time::{Duration, Instant};

use std::sync::Arc;
use tokio::sync::watch;

use crate::{BoxFuture, process::Clock};

/// Nobody waits longer than this, by the machine's clock, for a sleeper that does not come.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a nap is.
const NAP: Duration = Duration::from_millis(2);

/// A clock that a test turns.
///
/// It moves what a process measures and waits for by itself: poll and check intervals, [`Context::pause`](crate::Context::pause),
/// timeouts, grace, the pauses of the `retry` handler. It does **not** move the database's time, which alone decides about leases, due
/// times of retries and delays, and `now()` in your statements; nor does it move `SystemTime::now()` or `tokio::time` in your own code.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> ichido::Result<()> {
/// # use ichido::Operate;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite://{}", folder.path().join("test.db").display());
/// # let store = ichido_sqlite::Sqlite::new(&url, vec![])?;
/// # store.migrate().await?;
/// use std::time::Duration;
/// use ichido::{Context, Outcome, Result, testing::{Dial, Run}};
/// use ichido_sqlite::Sqlite;
///
/// const HOUR: Duration = Duration::from_secs(3600);
///
/// async fn slow(cx: &mut Context<Sqlite>, _: String) -> Result<Outcome> {
///     cx.pause(HOUR).await;
///     Ok(Outcome::Done)
/// }
///
/// let dial = Dial::new();
/// let running = tokio::spawn(Run::new(store).message(&"hello").clock(dial.clone()).action_fn(slow));
/// dial.asleep_after(0).await; // it sleeps, and would do so for ever
/// dial.pass(HOUR);
/// assert_eq!(running.await?.outcome(), &Outcome::Done);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Dial(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Only who sleeps exactly so long is held; none: everybody.
    only: Option<Duration>,
    now: watch::Sender<Instant>,
    asleep: watch::Sender<u32>,
    naps: watch::Sender<u32>,
}

impl Default for Dial {
    fn default() -> Self {
        Dial::new()
    }
}

impl Dial {
    /// A clock that stands still for all sleepers.
    #[must_use]
    pub fn new() -> Self {
        Dial::held(None)
    }

    /// A clock that holds those who sleep exactly so long, and lets all others take a short nap by the machine's clock in the
    /// place of their sleep. The chores of a process, heartbeat and rescue among them, sleep for a third of its lease.
    #[must_use]
    pub fn only_for(sleep: Duration) -> Self {
        Dial::held(Some(sleep))
    }

    fn held(only: Option<Duration>) -> Self {
        let (asleep, naps) = (watch::Sender::new(0), watch::Sender::new(0));
        Dial(Arc::new(Inner { only, now: watch::Sender::new(Instant::now()), asleep, naps }))
    }

    /// Lets this much time pass: whoever has slept long enough wakes.
    pub fn pass(&self, time: Duration) {
        self.0.now.send_modify(|now| *now += time);
    }

    /// Lets so much time pass when somebody sleeps, and resolves when somebody goes to sleep again.
    pub async fn tick(&self, time: Duration) {
        let before = self.wake(time).await;
        self.asleep_after(before).await;
    }

    /// Lets so much time pass when somebody sleeps, and says how often somebody had gone to sleep before.
    pub async fn wake(&self, time: Duration) -> u32 {
        self.asleep_after(0).await;
        let before = self.slept();
        self.pass(time);
        before
    }

    /// How often somebody has gone to sleep.
    #[must_use]
    pub fn slept(&self) -> u32 {
        *self.0.asleep.borrow()
    }

    /// Resolves when somebody has gone to sleep more often than that.
    ///
    /// # Panics
    /// If nobody does.
    pub async fn asleep_after(&self, before: u32) {
        reached(&self.0.asleep, before + 1, "nobody goes to sleep").await;
    }

    /// Resolves when so many more naps have begun.
    ///
    /// # Panics
    /// If nobody takes them.
    pub async fn naps(&self, more: u32) {
        let before = *self.0.naps.borrow();
        reached(&self.0.naps, before + more, "nobody takes a nap").await;
    }
}

async fn reached(count: &watch::Sender<u32>, least: u32, otherwise: &str) {
    let mut count = count.subscribe();
    let reached = tokio::time::timeout(TIMEOUT, count.wait_for(|count| *count >= least)).await;
    assert!(reached.is_ok(), "{otherwise}");
}

impl Clock for Dial {
    fn now(&self) -> Instant {
        *self.0.now.borrow()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        if self.0.only.is_some_and(|held| held != time) {
            self.0.naps.send_modify(|naps| *naps += 1);
            return Box::pin(tokio::time::sleep(NAP));
        }
        let (inner, until) = (self.0.clone(), self.now() + time);
        inner.asleep.send_modify(|asleep| *asleep += 1);
        Box::pin(async move {
            let _ = inner.now.subscribe().wait_for(|now| *now >= until).await;
        })
    }
}
