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
pub(crate) mod running;
pub(crate) mod served;
pub(crate) mod signs;
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
    wake_ups::{WakeUps, Writers},
};

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    Action, ActionFn, BatchAction, BoxFuture, Context, Error, HandlerQueue, Masks, Outcome, Payload, Store,
    action::{DynAction, Function, OneByOne, Request, batch_action::Together, state::State},
    broker::{Broker, Brokers},
    error::Result,
    handlers::{self, Dispatch, Rest, Retry, Scope, Single},
    lanes::{LaneSet, Routes},
    observe::journal::Journal,
    process::{ending::Ending, pool::Actions},
};

type Extend<S> = Box<dyn FnOnce(HandlerQueue<S>) -> Result<HandlerQueue<S>> + Send>;

/// The handler queues of a process, all checked.
pub struct HandlerQueues<S: Store> {
    /// The process's.
    pub common: HandlerQueue<S>,
    /// Of the actions that have one of their own.
    pub own: BTreeMap<Arc<str>, HandlerQueue<S>>,
}

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
    /// [`Error::Setup`] with the first that does not.
    pub fn check_pools(&self) -> Result<()> {
        self.actions.values().try_for_each(|(pool, _)| pool.check(&self.state))
    }

    /// The handler queue as it will run, checked; then those of the actions that have one of their own.
    ///
    /// # Errors
    /// What a change to it said; [`Error::Setup`] if its order cannot work.
    pub fn handler_queues(self) -> Result<HandlerQueues<S>> {
        let dispatch = Dispatch::new(self.actions, self.brokers, self.settings.clone(), self.probe);
        let mut queue = handlers::minimal(self.retry, dispatch, &self.settings);
        if let Some(single) = self.single.clone() {
            queue = queue.after(Scope::Process, "context", single)?;
        }
        let common = self.extend.into_iter().try_fold(queue, |queue, change| change(queue))?;
        common.check()?;
        let own = self.own.into_iter().map(|(action, change)| {
            let changed = change(common.clone()).and_then(|queue| queue.check().map(|()| queue));
            let named = |error| Error::Setup(format!("actions.{action}.handlers: {error:#}"));
            changed.map_err(named).map(|queue| (action.clone(), queue))
        });
        let own = own.collect::<Result<_>>()?;
        Ok(HandlerQueues { common, own })
    }

    /// Runs all actions and returns the exit code.
    ///
    /// # Errors
    /// Only errors that no handler turned into a status, or an invalid handler queue.
    pub async fn run(self) -> Result<i32> {
        self.run_request(Request::default()).await
    }

    /// Runs what the request asks for, and returns the exit code.
    ///
    /// # Errors
    /// Only errors that no handler turned into a status, or an invalid handler queue.
    pub async fn run_request(mut self, mut request: Request) -> Result<i32> {
        self.actions.values_mut().for_each(|(pool, _)| pool.find_lanes(&self.routes));
        request.resolve(&self.paths, |name| self.actions.contains_key(name));
        let only = self.actions.keys().next().filter(|_| self.actions.len() == 1).cloned();
        let single = request.action.as_deref().map(Arc::from).or(only);
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let ending =
            Ending { store: store.clone(), clock: clock.clone(), stop: self.stop.clone(), grace: self.settings.grace };
        let settings = self.in_force.take().unwrap_or_else(|| self.described());
        let journal = Arc::new(Journal::new(self.masks.clone(), settings, clock.now()));
        let mut cx = Context::new(store, clock.clone(), std::mem::take(&mut self.stop), request, journal.clone());
        cx.state = std::mem::take(&mut self.state);
        cx.routes = std::mem::take(&mut self.routes);
        let probe = self.probe.clone();
        self.actions.values().filter_map(|(pool, _)| pool.lanes()).for_each(|set| cx.routes.add(set.clone()));
        let HandlerQueues { common, mut own } = self.handler_queues()?;
        let queue = if let Some(action) = single {
            own.remove(&action).unwrap_or(common)
        } else {
            cx.own_rests = own_rests(&common, own)?;
            common
        };
        let code = match ending.in_time(queue.rest().next().pass(&mut cx)).await {
            Ok(Outcome::Ended(code)) => Ok(code),
            Ok(_) => Ok(0),
            Err(error) => Err(error),
        };
        probe.end();
        journal.end(code.as_ref().ok().copied(), clock.now());
        code
    }

    fn described(&self) -> String {
        let actions = self.actions.values().map(|(pool, _)| pool.described()).collect::<Vec<_>>();
        format!("{:?} {:?} actions: {}", self.settings, self.retry, actions.join("; "))
    }
}

/// What each action runs after `dispatch`, when several run in one process.
fn own_rests<S: Store>(
    common: &HandlerQueue<S>,
    own: BTreeMap<Arc<str>, HandlerQueue<S>>,
) -> Result<BTreeMap<Arc<str>, Rest<S>>> {
    let rest = |(action, queue): (Arc<str>, HandlerQueue<S>)| match queue.rest_after_dispatch(common) {
        Some(rest) => Ok((action, rest)),
        None => Err(Error::Setup(format!(
            "the handlers of action {action} up to `dispatch` differ from those of the process; run it in a separate \
             process"
        ))),
    };
    own.into_iter().map(rest).collect()
}
