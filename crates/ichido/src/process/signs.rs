//! The signs that a process's loops leave behind, for [`Probe`](super::Probe): when the heartbeat's loop last moved, which worker or claimer keeps its
//! thread to itself, and which claimer is at a turn that does not end. All of it is a few atomics; nothing here asks a database.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::life::Life;

/// A claimer's turn is at most so many statements, each with the store's own timeout: what is its own already, a claim, what a drain asks, a ping after
/// a fault.
const STATEMENTS_OF_A_TURN: u32 = 8;

/// The signs of a process's loops.
pub(crate) struct Signs {
    begun: Instant,
    /// When the heartbeat's loop last began a turn, whether or not the database answered.
    heartbeat: AtomicU64,
    /// When the last heartbeat was written; registering is the first.
    beaten: AtomicU64,
    threads: Mutex<Vec<Weak<Thread>>>,
    claimers: Mutex<Vec<Weak<Claiming>>>,
}

/// Since when a task has not given its thread back; zero while it waits.
struct Thread {
    /// Who it is, for whoever reads that it hangs.
    who: &'static str,
    since: AtomicU64,
}

/// The turns of a claimer.
pub(crate) struct Claiming {
    signs: Arc<Signs>,
    queue: Arc<str>,
    /// How long the database may leave a statement unanswered; none: for ever.
    timeout: Option<Duration>,
    /// Since when it has been at a turn; zero while it waits for something to do.
    since: AtomicU64,
}

impl Claiming {
    /// It begins a turn.
    pub(crate) fn begin(&self) {
        self.since.store(self.signs.now(), Ordering::Relaxed);
    }

    /// It waits for something to do, for as long as that takes.
    pub(crate) fn rest(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// For how long it has been at a turn, if that is longer than the database and this limit explain.
    fn overdue(&self, limit: Duration) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed);
        let age = self.signs.age(since);
        (since > 0 && age > limit + self.timeout? * STATEMENTS_OF_A_TURN).then_some(age)
    }
}

impl Signs {
    pub(crate) fn new() -> Self {
        Signs {
            begun: Instant::now(),
            heartbeat: AtomicU64::new(1),
            beaten: AtomicU64::new(1),
            threads: Mutex::default(),
            claimers: Mutex::default(),
        }
    }

    /// The heartbeat's loop begins a turn.
    pub(crate) fn heartbeat_moves(&self) {
        self.heartbeat.store(self.now(), Ordering::Relaxed);
    }

    /// A heartbeat was written.
    pub(crate) fn beat(&self) {
        self.beaten.store(self.now(), Ordering::Relaxed);
    }

    /// How long ago the last heartbeat was written.
    pub(crate) fn heartbeat_age(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.beaten.load(Ordering::Relaxed)))
    }

    /// A worker, or another task that must not keep its thread, watched.
    pub(crate) fn watch<F: Future>(self: &Arc<Self>, who: &'static str, work: F) -> Watched<F> {
        let thread = Arc::new(Thread { who, since: AtomicU64::new(0) });
        join(&self.threads, &thread);
        Watched { work: Box::pin(work), signs: self.clone(), thread }
    }

    /// The claimer of this queue, whose store leaves no statement unanswered for longer than this.
    pub(crate) fn claimer(self: &Arc<Self>, queue: &Arc<str>, timeout: Option<Duration>) -> Arc<Claiming> {
        let claiming = Claiming { signs: self.clone(), queue: queue.clone(), timeout, since: AtomicU64::new(0) };
        let claiming = Arc::new(claiming);
        join(&self.claimers, &claiming);
        claiming
    }

    /// Milliseconds since the beginning, never zero.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn age(&self, since: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(since))
    }

    /// Everything that the heartbeat's loop waits for has a limit of at most two leases together.
    pub(super) fn live(&self, life: &Life, lease: Duration) -> Result<(), String> {
        let limit = lease * 2 + Duration::from_secs(1);
        let heartbeat = self.age(self.heartbeat.load(Ordering::Relaxed));
        if heartbeat > limit {
            return Err(format!("the heartbeat's loop has not moved for {heartbeat:?}"));
        }
        let blocked = self.longest_blocked().map(|(who, since)| (who, self.age(since)));
        if let Some((who, blocked)) = blocked.filter(|(_, blocked)| *blocked > limit) {
            return Err(format!("{who} has blocked its thread for {blocked:?}"));
        }
        let claimers = there(&self.claimers);
        if let Some((queue, age)) = claimers.iter().find_map(|of| Some((&of.queue, of.overdue(limit)?))) {
            return Err(format!("the claimer of queue `{queue}` has not moved for {age:?}"));
        }
        match life.passes.overdue(Instant::now(), limit) {
            Some(id) => Err(format!("a worker still runs {id}, long after the action's timeout")),
            None => Ok(()),
        }
    }

    fn longest_blocked(&self) -> Option<(&'static str, u64)> {
        let threads = there(&self.threads).into_iter();
        let since = threads.map(|thread| (thread.who, thread.since.load(Ordering::Relaxed)));
        since.filter(|(_, since)| *since > 0).min_by_key(|(_, since)| *since)
    }
}

/// Adds one to those that are watched; those that have ended are not any more.
fn join<T>(watched: &Mutex<Vec<Weak<T>>>, one: &Arc<T>) {
    let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
    watched.retain(|other| other.strong_count() > 0);
    watched.push(Arc::downgrade(one));
}

fn there<T>(watched: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}

/// A future that tells while it keeps its thread.
pub(crate) struct Watched<F> {
    work: Pin<Box<F>>,
    signs: Arc<Signs>,
    thread: Arc<Thread>,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<F::Output> {
        self.thread.since.store(self.signs.now(), Ordering::Relaxed);
        let polled = self.work.as_mut().poll(task);
        self.thread.since.store(0, Ordering::Relaxed);
        polled
    }
}
