//! The life of this process in the database: the id under which it claims, whether it may claim now, and what it has done
//! so far. `dispatch` begins and ends it, `upkeep` keeps it alive, readers and handlers ask it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};
use tracing::Span;

use crate::{
    Error,
    observe::journal::{Journal, named},
    process::{Flags, dues::Dues, flags::Following, running::Passes, signs::Signs},
    stat::{ActionSlots, Backlogs, Flush, Measures, Meters},
    store::{ProcessId, Registration},
};

pub(crate) struct Life {
    registration: RwLock<Registration>,
    user_id: Arc<str>,
    pub(crate) journal: Arc<Journal>,
    /// Its pools.
    following: Vec<Following>,
    /// Why it must end.
    failed: Mutex<Option<Error>>,
    claiming: watch::Sender<bool>,
    /// A claim or a heartbeat told that this id counts as dead.
    pub(crate) expired: Notify,
    /// Nothing was left in any of its queues, at one moment.
    drained: AtomicBool,
    /// Since when the brokers of these queues have nothing more for us; only where it is the broker who knows.
    emptied: Mutex<BTreeMap<Arc<str>, Instant>>,
    /// When something was last left in the database.
    undrained: Mutex<Option<Instant>>,
    /// One suspect at a time: `ichido_process.running` has room for one.
    suspect_runs: AtomicBool,
    /// The readers whose workers may wait for that.
    waiting: Mutex<Vec<Arc<Notify>>>,
    /// What runs now.
    pub(crate) passes: Arc<Passes>,
    /// When what it has parked for a moment is due.
    pub(crate) dues: Dues,
    /// Whether its loops move.
    pub(crate) signs: Arc<Signs>,
    executions: AtomicU64,
    /// The longest time that a message of each queue has taken, and whether it has been told.
    longest: Mutex<BTreeMap<Arc<str>, (Duration, bool)>>,
    pub(crate) meters: Meters,
    /// What of that is in the store.
    pub(crate) flush: tokio::sync::Mutex<Flush>,
    /// What waits in the queues whose chores it does.
    pub(crate) backlogs: Backlogs,
    /// Its actions and their workers.
    pub(crate) slots: Vec<(Arc<str>, usize)>,
}

impl Life {
    pub(crate) fn new(
        registration: Registration,
        following: Vec<Following>,
        user_id: Arc<str>,
        journal: Arc<Journal>,
        now: Instant,
    ) -> Self {
        Life {
            registration: RwLock::new(registration),
            user_id,
            journal,
            following,
            failed: Mutex::default(),
            claiming: watch::Sender::new(true),
            expired: Notify::new(),
            drained: AtomicBool::new(false),
            emptied: Mutex::default(),
            undrained: Mutex::default(),
            suspect_runs: AtomicBool::new(false),
            waiting: Mutex::default(),
            passes: Arc::default(),
            dues: Dues::default(),
            signs: Arc::new(Signs::new()),
            executions: AtomicU64::new(0),
            longest: Mutex::default(),
            meters: Meters::new(now),
            flush: tokio::sync::Mutex::default(),
            backlogs: Backlogs::default(),
            slots: Vec::new(),
        }
    }

    pub(crate) fn id(&self) -> ProcessId {
        self.registration.read().unwrap_or_else(PoisonError::into_inner).id
    }

    pub(crate) fn registration(&self) -> Registration {
        self.registration.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The ids for log lines that are about no message. Of the highest level, so that lines of every level carry them.
    pub(crate) fn span(&self) -> Span {
        let registration = self.registration();
        let (process_id, request_id) = (registration.id, registration.title());
        tracing::error_span!("process", %process_id, request_id, user_id = named(&self.user_id))
    }

    /// From now on the process claims under another id.
    pub(crate) fn reborn(&self, id: ProcessId) {
        // Only the id: it may have retired from something meanwhile.
        self.registration.write().unwrap_or_else(PoisonError::into_inner).id = id;
    }

    /// These are the flags of operators now.
    pub(crate) fn see(&self, flags: &BTreeMap<String, Flags>) {
        for pool in &self.following {
            pool.see(flags.get(&*pool.request_id).copied().unwrap_or_default());
        }
    }

    /// From now on the process does not serve this request id any more, nor its queues.
    pub(crate) fn retire(&self, request_id: &str, queues: &[Arc<str>]) {
        let mut registration = self.registration.write().unwrap_or_else(PoisonError::into_inner);
        registration.request_ids.remove(request_id);
        registration.alone.remove(request_id);
        for queue in queues {
            registration.queues.remove(queue);
            registration.slots.remove(queue);
        }
    }

    /// It cannot go on: another process serves what this one is to serve alone, or it has no heartbeat. It ends.
    pub(crate) fn fail(&self, error: Error) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.following.iter().for_each(|pool| pool.stop.cancel());
    }

    /// Why it must end.
    pub(crate) fn failed(&self) -> Option<Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The id to claim under; none while the heartbeat is in doubt.
    pub(crate) fn may_claim(&self) -> Option<ProcessId> {
        self.claiming.borrow().then(|| self.id())
    }

    pub(crate) fn set_claiming(&self, claiming: bool) {
        self.claiming.send_replace(claiming);
    }

    /// Resolves when it may claim.
    pub(crate) async fn until_it_may_claim(&self) {
        // The sender is ours: it is not gone.
        let _ = self.claiming.subscribe().wait_for(|may| *may).await;
    }

    /// Tells that a claim under this id found it dead; an id that was given up already is no news.
    pub(crate) fn expire(&self, id: ProcessId) {
        if id == self.id() {
            self.set_claiming(false);
            self.expired.notify_one();
        }
    }

    /// Is every pool on its way out?
    pub(crate) fn is_stopping(&self) -> bool {
        self.following.iter().all(|pool| pool.stop.is_cancelled())
    }

    /// Is every pool that goes on paused?
    pub(crate) fn is_paused(&self) -> bool {
        self.following.iter().filter(|pool| !pool.stop.is_cancelled()).all(Following::is_paused)
    }

    /// Has a drain come to its end?
    pub(crate) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    pub(crate) fn note_drained(&self) {
        self.drained.store(true, Ordering::Release);
    }

    /// Has the broker of this queue nothing more for us? What was in the database meanwhile may have sent something there.
    pub(crate) fn is_emptied(&self, queue: &str) -> bool {
        let undrained = *self.undrained.lock().unwrap_or_else(PoisonError::into_inner);
        let emptied = self.emptied.lock().unwrap_or_else(PoisonError::into_inner);
        emptied.get(queue).is_some_and(|since| undrained.is_none_or(|undrained| undrained < *since))
    }

    /// The broker of this queue has nothing more for us since then.
    pub(crate) fn note_emptied(&self, queue: &Arc<str>, since: Option<Instant>) {
        let mut emptied = self.emptied.lock().unwrap_or_else(PoisonError::into_inner);
        match since {
            Some(since) => drop(emptied.insert(queue.clone(), since)),
            None => drop(emptied.remove(queue)),
        }
    }

    /// Something is left in the database.
    pub(crate) fn note_undrained(&self, now: Instant) {
        *self.undrained.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// The right to run a suspect, if no other one runs.
    pub(crate) fn alone(self: &Arc<Self>) -> Option<Alone> {
        let free = !self.suspect_runs.swap(true, Ordering::AcqRel);
        free.then(|| Alone(self.clone()))
    }

    /// Does a suspect run?
    pub(crate) fn suspect_runs(&self) -> bool {
        self.suspect_runs.load(Ordering::Acquire)
    }

    /// From now on this is told when a suspect has ended.
    pub(crate) fn tell(&self, changed: Arc<Notify>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(changed);
    }

    /// A message of this queue took so long.
    pub(crate) fn took(&self, queue: &Arc<str>, time: Duration) {
        let mut longest = self.longest.lock().unwrap_or_else(PoisonError::into_inner);
        match longest.get_mut(queue) {
            Some((known, _)) if *known >= time => {}
            Some(known) => *known = (time, false),
            None => drop(longest.insert(queue.clone(), (time, false))),
        }
    }

    /// The longest times that have not been told yet.
    pub(crate) fn untold(&self) -> Vec<(Arc<str>, Duration)> {
        let longest = self.longest.lock().unwrap_or_else(PoisonError::into_inner);
        let untold = longest.iter().filter(|(_, (_, told))| !told);
        untold.map(|(queue, (time, _))| (queue.clone(), *time)).collect()
    }

    /// This longest time is told. Not before it is: whoever tells it may be dropped.
    pub(crate) fn told(&self, queue: &str, time: Duration) {
        let mut longest = self.longest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = longest.get_mut(queue).filter(|(known, _)| *known == time) {
            known.1 = true;
        }
    }

    /// What this process knows now, for monitors.
    pub(crate) fn measures(&self) -> Measures {
        let (mut queues, now) = (self.meters.measure(), Instant::now());
        for measured in &mut queues {
            measured.backlog = self.backlogs.of(&measured.queue, now);
        }
        let slots = self.slots.iter();
        let slots = slots.map(|(action, slots)| ActionSlots::new(action.clone(), *slots, self.passes.busy(action)));
        Measures { queues, slots: slots.collect(), heartbeat_age: self.signs.heartbeat_age() }
    }

    pub(crate) fn next_execution(&self) -> u64 {
        self.executions.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Held while a suspect runs, in any pool of the process.
pub(crate) struct Alone(Arc<Life>);

impl std::fmt::Debug for Alone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Alone")
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.suspect_runs.store(false, Ordering::Release);
        for changed in self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            changed.notify_one();
        }
    }
}
