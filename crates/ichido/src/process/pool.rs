//! What one action of a process needs: its name, where its messages come from, how many workers run it and how failures
//! are retried. `Process` collects pools, `dispatch` picks them and opens their readers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    Context, Error, Outcome, Reader, RetryPolicy, Store,
    action::{
        CommitOn, DynAction, Isolation, Terms,
        callbacks::Callback,
        deadline::within,
        state::{Need, State},
        terms::Committing,
    },
    error::Result,
    lanes::{LaneSet, Policy},
    process::{flags::Following, typed::OWN_READER},
    readers::DynReader,
    stat::Lane,
};

/// One action's workers and where their messages come from.
#[derive(Clone)]
pub struct Pool {
    pub(crate) name: Arc<str>,
    pub(crate) from: From,
    /// The typed queue or lane set that its action is for.
    pub(super) typed: Option<&'static str>,
    pub(crate) concurrency: usize,
    pub(crate) read_ahead: Option<usize>,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) terms: Terms,
    pub(crate) commit_interval: usize,
    pub(crate) commit_on: Committing,
    pub(crate) needs: Vec<Need>,
}

#[derive(Clone)]
pub(crate) enum From {
    Queue(Arc<str>),
    Lanes(Arc<LaneSet>),
    Reader(Arc<dyn DynReader>),
}

/// Workers of an action unless it says otherwise.
pub const CONCURRENCY: usize = 4;

/// The maximum number of messages claimed beyond the free workers.
pub const MOST_READ_AHEAD: usize = 64;

/// The same where a transaction is about many messages, unless one alone is about more.
const MOST_BATCHES_AHEAD: usize = 1024;

/// The server ends a statement so much later than the action is out of time: what is recorded is ours to say.
const SLACK: Duration = Duration::from_millis(100);

impl Pool {
    /// The action's name; its messages come from the queue of the same name unless [`Pool::from`] names another.
    pub fn new(action: impl Into<Arc<str>>) -> Self {
        let name = action.into();
        Pool {
            from: From::Queue(name.clone()),
            name,
            typed: None,
            concurrency: CONCURRENCY,
            read_ahead: None,
            retry: RetryPolicy::default(),
            timeout: None,
            terms: Terms::default(),
            commit_interval: 1,
            commit_on: Committing::default(),
            needs: Vec::new(),
        }
    }

    /// The queue that its messages come from.
    #[must_use]
    pub fn from(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.from = From::Queue(queue.into());
        self
    }

    /// The lane set that its messages come from, each level from its queue. With the policy `dedicated` its levels say how
    /// many workers there are.
    #[must_use]
    pub fn from_lanes(mut self, set: LaneSet) -> Self {
        self.from = From::Lanes(Arc::new(set));
        self
    }

    /// Your own reader instead of a queue.
    #[must_use]
    pub fn reader(mut self, reader: impl Reader) -> Self {
        self.from = From::Reader(Arc::new(reader));
        self
    }

    /// The number of workers.
    #[must_use]
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = workers.max(1);
        self
    }

    /// How many messages are claimed beyond those that the workers are processing.
    #[must_use]
    pub fn read_ahead(mut self, messages: usize) -> Self {
        self.read_ahead = Some(messages);
        self
    }

    /// When failed messages run again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// How many workers run messages of this queue, and which level of a lane set it is.
    pub(crate) fn place(&self, queue: &str) -> (u32, Option<Lane>) {
        let number = |slots: usize| u32::try_from(slots).unwrap_or(u32::MAX);
        let found = self.lanes().and_then(|set| {
            let rank = set.levels.iter().position(|level| &*level.queue == queue)?;
            Some((set, rank, &set.levels[rank]))
        });
        let Some((set, rank, level)) = found else { return (number(self.workers()), None) };
        let lane =
            Lane { lanes: set.name.clone(), level: level.name.clone(), rank: u16::try_from(rank).unwrap_or(u16::MAX) };
        let own = level.concurrency.filter(|_| set.policy == Policy::Dedicated { borrow: false });
        (number(own.unwrap_or_else(|| self.workers())), Some(lane))
    }

    /// How many messages of this queue may have begun at once.
    pub(crate) fn slots_of(&self, queue: &str) -> u32 {
        self.place(queue).0.saturating_mul(u32::try_from(self.commit_interval).unwrap_or(u32::MAX))
    }

    /// The queues that its messages come from.
    pub(crate) fn queues(&self) -> Vec<Arc<str>> {
        match &self.from {
            From::Queue(queue) => vec![queue.clone()],
            From::Lanes(set) => set.levels.iter().map(|level| level.queue.clone()).collect(),
            From::Reader(_) => Vec::new(),
        }
    }

    /// The lane set that its messages come from.
    pub(crate) fn lanes(&self) -> Option<&LaneSet> {
        match &self.from {
            From::Lanes(set) => Some(set),
            From::Queue(_) | From::Reader(_) => None,
        }
    }

    /// How many workers it has.
    pub(crate) fn workers(&self) -> usize {
        self.lanes().map_or(self.concurrency, |set| set.slots(self.concurrency))
    }

    /// Can it work?
    pub(crate) fn check(&self, state: &State) -> Result<()> {
        self.check_typed()?;
        self.needs.iter().try_for_each(|need| need.check(state, &self.name))?;
        let Some(set) = self.lanes() else { return Ok(()) };
        set.check(self.workers())?;
        if self.commit_interval > 1 && set.levels.iter().any(|level| level.reserve > 0 || level.concurrency.is_some()) {
            return Err(Error::Setup(format!(
                "lane set `{}`: `reserve` and `concurrency` of a level count workers, but a worker of action `{}` \
                 takes messages of all levels together (`commit_interval`); remove one or the other",
                set.name, self.name
            )));
        }
        Ok(())
    }

    /// How long the action may take for a message, or for the messages that it gets together. What it has written is rolled
    /// back then, and the message runs again after the backoff. The wait for a transaction does not count, and code that blocks
    /// its thread is not interrupted.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self.terms.limit = Some(limit.saturating_add(SLACK));
        self
    }

    /// What the business transaction sees of others.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.terms.isolation = isolation;
        self
    }

    /// Up to so many messages share a transaction: what is at hand is taken, and committed together. If one of them fails,
    /// all are rolled back and each runs alone. Read-ahead counts in transactions then.
    #[must_use]
    pub fn commit_interval(mut self, messages: usize) -> Self {
        self.commit_interval = messages.max(1);
        self
    }

    /// A failure after which what was written is committed, together with the record that the message has failed for good.
    #[must_use]
    pub fn commit_on(mut self, failure: CommitOn) -> Self {
        self.commit_on.kinds.push(failure);
        self
    }

    /// The same for errors of one type, also where they are the source of another.
    #[must_use]
    pub fn commit_on_error<E: std::error::Error + 'static>(mut self) -> Self {
        self.commit_on.types.push(<dyn std::error::Error>::is::<E>);
        self
    }

    /// The action asks for state of this type ([`Context::state`]): without it the process ends with 127 before anything is claimed.
    #[must_use]
    pub fn needs<T: Send + Sync + 'static>(mut self) -> Self {
        self.needs.push(Need::of::<T>());
        self
    }

    /// How its business transactions are started.
    #[must_use]
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// What is in force, for the log.
    pub(crate) fn described(&self) -> String {
        let from = self.source().unwrap_or(OWN_READER);
        format!("{} from {from}, {} workers, {:?}", self.name, self.workers(), self.retry)
    }

    pub(crate) fn ahead(&self) -> usize {
        let ahead = self.read_ahead.unwrap_or_else(|| self.workers()).min(MOST_READ_AHEAD);
        match self.commit_interval {
            1 => ahead,
            many => ahead.saturating_mul(many).min(MOST_BATCHES_AHEAD.max(many)),
        }
    }
}

/// An action with its pool.
pub(crate) type PooledAction<S> = (Pool, Arc<dyn DynAction<S>>);

/// All actions of a process, by name.
pub(crate) type Actions<S> = BTreeMap<Arc<str>, PooledAction<S>>;

/// A pool with its action and its open reader: what `dispatch` puts into the context.
pub(crate) struct Work<S: Store> {
    pub(crate) pool: Pool,
    pub(crate) action: Arc<dyn DynAction<S>>,
    pub(crate) reader: Arc<dyn DynReader>,
    pub(crate) following: Following,
}

impl<S: Store> Work<S> {
    /// Runs the action for what is in hand. One that is out of time is dropped: it only borrows its transaction, which is
    /// rolled back further out.
    pub(crate) async fn run_action(&self, cx: &mut Context<S>) -> Result<Outcome> {
        let Some(limit) = self.pool.timeout else { return self.action.run(cx).await };
        let (clock, waited, begun) = (cx.clock.clone(), cx.waited.clone(), cx.clock.now());
        match within(limit, &*clock, &waited, self.action.run(cx)).await {
            // The server ends a statement a moment after us; on a busy machine it may be the first.
            Err(error) if clock.now() - begun >= limit && error.is_by(S::is_own_fault) => Err(Error::TimedOut(limit)),
            ran => ran,
        }
    }

    /// Calls it back about what is in hand, under the same limit.
    pub(crate) async fn call_back(&self, cx: &mut Context<S>, callback: Callback<'_>) -> Result<()> {
        let Some(limit) = self.pool.timeout else { return self.action.call_back(cx, callback).await };
        let (clock, waited) = (cx.clock.clone(), cx.waited.clone());
        within(limit, &*clock, &waited, self.action.call_back(cx, callback)).await
    }
}

/// What holds for the whole process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Without a heartbeat for this long, a process is considered dead.
    pub lease: Duration,
    /// How often an empty queue is polled.
    pub poll: Duration,
    /// How long running messages may take to end after a stop.
    pub grace: Duration,
    /// How often the flags of operators are read.
    pub check: Duration,
    /// A worker checks them once per this many messages.
    pub check_every: u32,
    /// Whether to end when nothing is unprocessed.
    pub drain: bool,
    /// Ends after this many messages.
    pub max_messages: Option<u64>,
    /// How often a line about the progress is logged; zero: never.
    pub progress: Duration,
    /// How long records are kept.
    pub retention: Retention,
}

/// How long ichido's own records are kept; messages that are not done are never among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// What processes have counted.
    pub stats: Duration,
    /// What operators did by hand.
    pub audit: Duration,
    /// The ids of messages that are done, where they are guarded by an inbox.
    pub inbox: Duration,
}

impl Retention {
    /// How long counts are kept, in minutes.
    #[must_use]
    pub fn stat_minutes(self) -> i64 {
        i64::try_from(self.stats.as_secs() / 60).unwrap_or(i64::MAX / 2)
    }

    /// How long notes about what operators did are kept, in seconds; no database counts further than some centuries.
    #[must_use]
    pub fn audit_seconds(self) -> i64 {
        i64::try_from(self.audit.as_secs()).unwrap_or(i64::MAX).min(200 * 366 * 24 * 3600)
    }
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            stats: Duration::from_hours(7 * 24),
            audit: Duration::from_hours(90 * 24),
            inbox: Duration::from_hours(30 * 24),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(25),
            check: Duration::from_secs(1),
            check_every: 1,
            drain: false,
            max_messages: None,
            progress: Duration::from_secs(10),
            retention: Retention::default(),
        }
    }
}
