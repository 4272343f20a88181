//! What probes and monitors ask of a process that runs in this program: is it live (its own loops move), is it ready (it claims), what has it
//! measured? The answers come from memory and cost no query, so a database that is away is no reason to restart. `dispatch` says when a process begins and
//! ends; the heartbeat, the workers and their passes leave their signs in [`Signs`].

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::life::Life;
use crate::stat::Measures;

/// Answers a program's own probes about the [`Process`](crate::Process) that it came from. Clones are of the same process.
///
/// ```
/// # fn probe<S: ichido::Store>(process: ichido::Process<S>) {
/// let probe = process.probe();
/// tokio::spawn(process.run());
/// // and in the handler of GET /readyz:
/// let status = if probe.ready().is_ok() { 200 } else { 503 };
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<Stage>>);

enum Stage {
    /// For the first time, or again after an outage that ended this life.
    Starting(Option<Arc<Life>>),
    Running(Arc<Life>, Duration),
    Ended,
}

impl Default for Stage {
    fn default() -> Self {
        Stage::Starting(None)
    }
}

impl Probe {
    /// Do the process's own loops move? One that is starting, or has ended, has none that could be stuck.
    ///
    /// # Errors
    /// What does not move, and since when.
    pub fn live(&self) -> Result<(), String> {
        match &*self.stage() {
            Stage::Running(life, lease) => life.signs.live(life, *lease),
            Stage::Starting(_) | Stage::Ended => Ok(()),
        }
    }

    /// Does the process claim messages?
    ///
    /// # Errors
    /// Why not: it is starting, paused, stopping, or not sure of its heartbeat.
    pub fn ready(&self) -> Result<(), &'static str> {
        match &*self.stage() {
            Stage::Starting(_) => Err("starting"),
            Stage::Running(life, _) if life.is_stopping() => Err("stopping"),
            Stage::Running(life, _) if life.is_paused() => Err("paused"),
            Stage::Running(life, _) if life.may_claim().is_none() => Err("its heartbeat is in doubt"),
            Stage::Running(..) => Ok(()),
            Stage::Ended => Err("ended"),
        }
    }

    /// What the process has measured so far, without a query; none before it has started and after it has ended.
    #[must_use]
    pub fn measures(&self) -> Option<Measures> {
        match &*self.stage() {
            Stage::Starting(Some(life)) | Stage::Running(life, _) => Some(life.measures()),
            Stage::Starting(None) | Stage::Ended => None,
        }
    }

    pub(crate) fn begin(&self, life: Arc<Life>, lease: Duration) -> Began {
        *self.stage() = Stage::Running(life, lease);
        Began(self.clone())
    }

    pub(crate) fn end(&self) {
        *self.stage() = Stage::Ended;
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held while workers run. After a fault they may start again.
pub(crate) struct Began(Probe);

impl Drop for Began {
    fn drop(&mut self) {
        let mut stage = self.0.stage();
        if let Stage::Running(life, _) = &*stage {
            *stage = if life.is_stopping() { Stage::Ended } else { Stage::Starting(Some(life.clone())) };
        }
    }
}

/// The signs of a process's loops.
pub(crate) struct Signs {
    begun: Instant,
    /// When the heartbeat's loop last began a turn, whether or not the database answered.
    heartbeat: AtomicU64,
    /// When the last heartbeat was written; registering is the first.
    beaten: AtomicU64,
    workers: Mutex<Vec<Weak<Thread>>>,
}

/// Since when a worker has not given its thread back; zero while it waits.
#[derive(Default)]
struct Thread(AtomicU64);

impl Signs {
    pub(crate) fn new() -> Self {
        Signs {
            begun: Instant::now(),
            heartbeat: AtomicU64::new(1),
            beaten: AtomicU64::new(1),
            workers: Mutex::default(),
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

    /// A worker, watched.
    pub(crate) fn worker<F: Future>(self: &Arc<Self>, work: F) -> Worker<F> {
        let thread = Arc::default();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&thread));
        Worker { work: Box::pin(work), signs: self.clone(), thread }
    }

    /// Milliseconds since the beginning, never zero.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Everything that the heartbeat's loop waits for has a limit of at most two leases together.
    fn live(&self, life: &Life, lease: Duration) -> Result<(), String> {
        let limit = lease * 2 + Duration::from_secs(1);
        let age = |since: u64| Duration::from_millis(self.now().saturating_sub(since));
        let heartbeat = age(self.heartbeat.load(Ordering::Relaxed));
        if heartbeat > limit {
            return Err(format!("the heartbeat's loop has not moved for {heartbeat:?}"));
        }
        if let Some(blocked) = self.longest_blocked().map(age).filter(|blocked| *blocked > limit) {
            return Err(format!("a worker has blocked its thread for {blocked:?}"));
        }
        match life.passes.overdue(Instant::now(), limit) {
            Some(id) => Err(format!("a worker still runs {id}, long after the action's timeout")),
            None => Ok(()),
        }
    }

    fn longest_blocked(&self) -> Option<u64> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let since = workers.iter().filter_map(Weak::upgrade).map(|thread| thread.0.load(Ordering::Relaxed));
        since.filter(|since| *since > 0).min()
    }
}

/// The future of a worker, which tells while it keeps its thread.
pub(crate) struct Worker<F> {
    work: Pin<Box<F>>,
    signs: Arc<Signs>,
    thread: Arc<Thread>,
}

impl<F: Future> Future for Worker<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<F::Output> {
        self.thread.0.store(self.signs.now(), Ordering::Relaxed);
        let polled = self.work.as_mut().poll(task);
        self.thread.0.store(0, Ordering::Relaxed);
        polled
    }
}
