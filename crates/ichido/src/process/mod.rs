//! A process as users build it, and what it does while it runs: pools, the heartbeat, chores, flags, wake-ups and draining. A
//! [`Process`] has a store, actions with their pools, settings, and the handler queue that runs them; it is the only one that knows all
//! of these.

pub(crate) mod clock;
pub(crate) mod draining;
pub(crate) mod dues;
mod embedding;
mod ending;
pub(crate) mod flags;
pub(crate) mod life;
pub(crate) mod panics;
pub(crate) mod path;
pub(crate) mod pool;
pub(crate) mod probe;
mod rate;
pub(crate) mod record;
mod run;
pub(crate) mod running;
pub(crate) mod served;
pub(crate) mod signs;
pub(crate) mod tasks;
mod typed;
pub(crate) mod upkeep;
pub(crate) mod wake_ups;

pub use self::{
    clock::{Clock, SystemClock},
    flags::{Flag, Flags, RequestState},
    panics::quiet_panics,
    path::{Paths, Pattern},
    pool::{CONCURRENCY, MOST_READ_AHEAD, Pool, Retention, Settings},
    probe::Probe,
    run::HandlerQueues,
    wake_ups::{WakeUps, Writers},
};

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    Action, ActionFn, BatchAction, BoxFuture, Context, HandlerQueue, Masks, Outcome, Payload, Store,
    action::{DynAction, Function, OneByOne, batch_action::Together, state::State},
    broker::{Broker, Brokers},
    error::Result,
    handlers::{Retry, Single},
    lanes::{LaneSet, Routes},
    process::pool::Actions,
};

type Extend<S> = Box<dyn FnOnce(HandlerQueue<S>) -> Result<HandlerQueue<S>> + Send>;

/// A process that runs actions.
pub struct Process<S: Store> {
    store: S,
    actions: Actions<S>,
    settings: Settings,
    retry: Retry,
    single: Option<Single>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    extend: Vec<Extend<S>>,
    own: BTreeMap<Arc<str>, Extend<S>>,
    paths: Paths,
    routes: Routes,
    brokers: Brokers,
    masks: Masks,
    in_force: Option<String>,
    probe: Probe,
    state: State,
}

impl<S: Store> Process<S> {
    /// A process on this store, without actions yet.
    pub fn new(store: S) -> Self {
        Process {
            store,
            actions: Actions::new(),
            settings: Settings::default(),
            retry: Retry::default(),
            single: None,
            clock: Arc::new(SystemClock),
            stop: CancellationToken::new(),
            extend: Vec::new(),
            own: BTreeMap::new(),
            paths: Paths::default(),
            routes: Routes::default(),
            brokers: Brokers::new(),
            masks: Masks::default(),
            in_force: None,
            probe: Probe::default(),
            state: State::default(),
        }
    }

    /// Adds an action that is a type implementing [`Action`].
    #[must_use]
    pub fn action(self, pool: Pool, action: impl Action<S>) -> Self {
        self.add(pool, OneByOne(action))
    }

    /// Adds an action that gets all messages of a transaction together; [`Pool::commit_interval`] says how many at most.
    #[must_use]
    pub fn batch_action(self, pool: Pool, action: impl BatchAction<S>) -> Self {
        self.add(pool, Together(action))
    }

    fn add(mut self, pool: Pool, action: impl DynAction<S> + 'static) -> Self {
        self.actions.insert(pool.name.clone(), (pool, Arc::new(action)));
        self
    }

    /// Adds an action that is an async function `fn(&mut Context<S>, T) -> Result<Outcome>`.
    #[must_use]
    pub fn action_fn<T, F>(self, pool: Pool, function: F) -> Self
    where
        T: Payload,
        F: for<'a> ActionFn<'a, S, T>,
    {
        self.action(pool, Function(function, PhantomData))
    }

    /// Adds an action that is a closure, which may capture what it needs. It is called once per message, so that what it captures is
    /// shared or cloned:
    ///
    /// ```
    /// # use ichido::{Outcome, Pool, Process, Store};
    /// # struct Mailer;
    /// # impl Mailer { async fn send(&self, _: &str) -> std::io::Result<()> { Ok(()) } }
    /// # fn process<S: Store>(store: S) -> Process<S> {
    /// # let mailer = Mailer;
    /// let mailer = std::sync::Arc::new(mailer);
    /// Process::new(store).action_closure(Pool::new("Greet"), move |cx, name: String| {
    ///     let mailer = mailer.clone();
    ///     Box::pin(async move {
    ///         mailer.send(&name).await?;
    ///         cx.send("greeted", &name).await?;
    ///         Ok(Outcome::Done)
    ///     })
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn action_closure<T, F>(self, pool: Pool, closure: F) -> Self
    where
        T: Payload,
        F: for<'a> Fn(&'a mut Context<S>, T) -> BoxFuture<'a, crate::Result<Outcome>> + Send + Sync + 'static,
    {
        self.action_fn(pool, closure)
    }

    /// What actions and handlers get by [`Context::state`]: one value per type, shared by all workers. Of two of the same type the
    /// last one stays.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.state.insert(value);
        self
    }

    /// What holds for the whole process.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Without a heartbeat for this long, others consider this process dead.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How often an empty queue is polled.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.settings.poll = poll;
        self
    }

    /// How often the flags of operators are read.
    #[must_use]
    pub fn check(mut self, check: Duration) -> Self {
        self.settings.check = check;
        self
    }

    /// A worker checks once per this many messages whether it is stopped or paused.
    #[must_use]
    pub fn check_every(mut self, messages: u32) -> Self {
        self.settings.check_every = messages;
        self
    }

    /// Only one live process per request id.
    #[must_use]
    pub fn single(mut self, single: Single) -> Self {
        self.single = Some(single);
        self
    }

    /// Ends when nothing is unprocessed and nothing waits for a retry.
    #[must_use]
    pub fn drain(mut self) -> Self {
        self.settings.drain = true;
        self
    }

    /// What to do when the database is unreachable.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Stops gracefully when this token is cancelled.
    #[must_use]
    pub fn stop_on(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Changes the handler queue: adds your own handlers, removes others.
    #[must_use]
    pub fn handlers(
        mut self,
        change: impl FnOnce(HandlerQueue<S>) -> Result<HandlerQueue<S>> + Send + 'static,
    ) -> Self {
        self.extend.push(Box::new(change));
        self
    }

    /// Changes the handler queue for this action only. When several actions run in one process, what comes up to `dispatch` is
    /// the same for all of them.
    #[must_use]
    pub fn action_handlers(
        mut self,
        action: impl Into<Arc<str>>,
        change: impl FnOnce(HandlerQueue<S>) -> Result<HandlerQueue<S>> + Send + 'static,
    ) -> Self {
        self.own.insert(action.into(), Box::new(change));
        self
    }

    /// Ends after this many messages, in all pools together; anything claimed beyond that is released.
    #[must_use]
    pub fn max_messages(mut self, messages: u64) -> Self {
        self.settings.max_messages = Some(messages);
        self
    }

    /// Columns, fields and headers whose values are never logged, nor recorded with an error.
    #[must_use]
    pub fn mask(mut self, masks: Masks) -> Self {
        self.masks = masks;
        self
    }

    /// The settings in force, in one line for the log; secrets are the caller's to mask. Without it the log shows
    /// [`Settings`] and the actions.
    #[must_use]
    pub fn in_force(mut self, settings: impl Into<String>) -> Self {
        self.in_force = Some(settings.into());
        self
    }

    /// Which action a request path means.
    #[must_use]
    pub fn paths(mut self, paths: Paths) -> Self {
        self.paths = paths;
        self
    }

    /// A lane set that actions can send to; one that an action of this process works on is known.
    #[must_use]
    pub fn lanes(mut self, set: LaneSet) -> Self {
        self.routes.add(set);
        self
    }

    /// The broker of this queue: the process publishes what is sent to it, and its actions receive from it.
    #[must_use]
    pub fn broker(mut self, queue: impl Into<Arc<str>>, broker: impl Broker) -> Self {
        self.brokers.insert(queue.into(), Arc::new(broker));
        self
    }

    /// Do the pools fit the process: the state that they need, their typed queues, their lane sets?
    ///
    /// # Errors
    /// [`crate::Error::Setup`] with the first that does not.
    pub fn check_pools(&self) -> Result<()> {
        self.actions.values().try_for_each(|(pool, _)| pool.check(&self.state))
    }
}
