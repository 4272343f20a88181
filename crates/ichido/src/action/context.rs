//! What one pass through the handler queue knows: the request, the process, the delivery in hand and its transaction.
//! Handlers fill it on the way in; actions read it. A worker has a copy of its own, made by [`Context::fork`].

mod asked;

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    BoxFuture, Delivery, Error, MessageId, NewMessage, Outcome, Store,
    action::{
        Identity, Request, Terms,
        batch::Batch,
        cancellation::Cancellation,
        deadline::Waited,
        files::{FileSet, Stage},
        slot::{Slot, run_to_completion},
        state::State,
        watch::Watched,
    },
    broker::Found,
    error::Result,
    handlers::Rest,
    lanes::Routes,
    observe::journal::Journal,
    process::{Clock, life::Life, pool::Work, record::failure_code, tasks::spawn_in_span},
    store::{self, ProcessId},
    testing::Sent,
    trace::{self, TRACEPARENT},
};

/// What one pass through the handler queue knows.
pub struct Context<S: Store> {
    pub(crate) store: S,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: CancellationToken,
    pub(crate) request: Arc<Request>,
    pub(crate) identity: Identity,
    pub(crate) journal: Arc<Journal>,
    pub(crate) life: Option<Arc<Life>>,
    /// Ids of this process that could not deregister because the database was gone.
    pub(crate) former: Vec<ProcessId>,
    pub(crate) work: Option<Arc<Work<S>>>,
    /// What comes after `dispatch` for actions that have a queue of their own.
    pub(crate) own_rests: BTreeMap<Arc<str>, Rest<S>>,
    pub(crate) connected: bool,
    pub(crate) in_worker: bool,
    pub(crate) batch: Batch,
    pub(crate) execution: u64,
    /// Passes since `process stop` last looked.
    pub(crate) unlooked: u32,
    /// The request ids that need not be served alone; none: no request id need.
    pub(crate) exempt: Option<Arc<[String]>>,
    pub(crate) slot: Slot<S>,
    pub(crate) waited: Waited,
    pub(crate) watched: Watched,
    /// Tells that a message of the pass is cancelled.
    pub(crate) cancelled: CancellationToken,
    /// The queues that were sent to in the open transaction, and how many messages.
    pub(crate) sent: BTreeMap<Arc<str>, u64>,
    /// The lane sets that can be sent to.
    pub(crate) routes: Routes,
    /// What was sent, where a test wants to know.
    pub(crate) noted: Option<Vec<Sent>>,
    /// Where files are kept until the transaction is committed, and those of the open one.
    pub(crate) stage: Option<Arc<Stage>>,
    pub(crate) files: Option<FileSet>,
    pub(crate) state: State,
    values: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl<S: Store> Context<S> {
    pub(crate) fn new(
        store: S,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
        request: Request,
        journal: Arc<Journal>,
    ) -> Self {
        Context {
            store,
            clock,
            stop,
            request: Arc::new(request),
            identity: Identity::default(),
            journal,
            life: None,
            former: Vec::new(),
            work: None,
            own_rests: BTreeMap::new(),
            connected: false,
            in_worker: false,
            batch: Batch::default(),
            execution: 0,
            unlooked: 0,
            exempt: None,
            slot: Slot::Closed,
            waited: Waited::default(),
            watched: Watched::default(),
            cancelled: CancellationToken::new(),
            sent: BTreeMap::new(),
            routes: Routes::default(),
            noted: None,
            stage: None,
            files: None,
            state: State::default(),
            values: BTreeMap::new(),
        }
    }

    /// A copy for another task, with its own stop signal: the same process and values, no delivery, no connection.
    #[must_use]
    pub fn fork(&self, stop: CancellationToken) -> Self {
        Context {
            identity: self.identity.clone(),
            life: self.life.clone(),
            work: self.work.clone(),
            state: self.state.clone(),
            values: self.values.clone(),
            request: self.request.clone(),
            routes: self.routes.clone(),
            in_worker: self.in_worker,
            ..Context::new(self.store.clone(), self.clock.clone(), stop, Request::default(), self.journal.clone())
        }
    }

    /// The business transaction, started at first use.
    ///
    /// # Errors
    /// When the transaction cannot be started.
    pub async fn tx(&mut self) -> Result<&mut S::Connection> {
        let terms = self.terms()?;
        if matches!(self.slot, Slot::Open(_)) {
            return Ok(S::connection(self.slot.open(&self.store, terms).await?));
        }
        if terms.limit.is_some() {
            self.waited.begin(self.clock.now());
        }
        let opened = self.slot.open(&self.store, terms).await;
        if terms.limit.is_some() {
            self.waited.end(self.clock.now());
        }
        let tx = opened?;
        self.watched.note(S::session(tx));
        Ok(S::connection(tx))
    }

    /// On which terms transactions begin here, if there may be any.
    fn terms(&self) -> Result<Terms> {
        if !self.connected {
            return Err(Error::Setup("`cx.tx()` needs the handler `connection` earlier in the handler queue".into()));
        }
        Ok(self.work.as_ref().filter(|_| self.in_worker).map_or_else(Terms::default, |work| work.pool.terms))
    }

    /// Sends a message to a queue or a lane set, in the business transaction: it is there if and only if this one is done.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, or the database fails.
    pub async fn send(&mut self, queue: &str, message: &(impl Serialize + Sync)) -> Result<MessageId> {
        self.send_new(queue, NewMessage::encode(message)?).await
    }

    /// The same for a message with a level, a delay, a unique key, a group or headers.
    ///
    /// # Errors
    /// When the message is refused, or the database fails.
    pub async fn send_new(&mut self, queue: &str, mut message: NewMessage) -> Result<MessageId> {
        // What this message sends belongs to its trace, also where nobody collects traces.
        let own = self.delivery().ok().and_then(|delivery| delivery.message.headers.get(TRACEPARENT));
        if !message.headers.contains_key(TRACEPARENT) && message.traceparent.is_none() {
            message.traceparent = own.cloned();
        }
        let store = self.store.clone();
        let routes = self.routes.clone();
        let watched = self.watched.clone();
        let tx = self.tx().await?;
        let waits = watched.wait();
        let sent = routes.send(&store, tx, queue, std::slice::from_ref(&message)).await?;
        drop(waits);
        let id = sent.ids.into_iter().next().ok_or("the store returned no message id")?;
        sent.queues.into_iter().for_each(|queue| *self.sent.entry(queue).or_default() += 1);
        if let Some(noted) = &mut self.noted {
            noted.push(Sent::new(&id.queue, id.clone(), message));
        }
        Ok(id)
    }

    /// A file below the folder of the handler `files`, created at first use. It is seen when the business transaction has
    /// committed, in one piece, in the place of what was there before; if it is rolled back, it is never seen.
    ///
    /// ```
    /// # use ichido::{Context, Result, Store};
    /// use tokio::io::AsyncWriteExt as _;
    /// # async fn report<S: Store>(cx: &mut Context<S>) -> Result<()> {
    /// cx.file("reports/42.csv").await?.write_all(b"id,name\n").await?;
    /// cx.file("reports/42.csv").await?.write_all(b"42,fish\n").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`] for a path that leads out of the folder, [`Error::Setup`] without the handler; or what the file
    /// system said.
    pub async fn file(&mut self, path: impl AsRef<Path>) -> Result<&mut tokio::fs::File> {
        let Some(stage) = &self.stage else {
            let text = "`cx.file()` needs the handler `files` earlier in the handler queue, and a current message";
            return Err(Error::Setup(text.into()));
        };
        self.files.get_or_insert_with(|| FileSet::new(stage.clone())).file(path.as_ref()).await
    }

    pub(crate) fn next_execution(&mut self) {
        self.execution = self.life.as_ref().map_or(self.execution + 1, |life| life.next_execution());
        self.batch.execute(self.execution);
    }

    /// Runs a future in a task of its own, whose log lines carry the ids of this message. In other tasks
    /// `tracing::Instrument` does it: `tokio::spawn(work.in_current_span())`.
    ///
    /// The task has no part in the transaction, and the message may be done, or run again, before it ends; wait for the handle
    /// if that matters.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        spawn_in_span(work)
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Has the process been asked to stop?
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Resolves when an operator cancels the message ([`crate::Client::message`], `ichido messages cancel`), within `check` of it. The
    /// action is dropped then, where it waits next, and what it has written is rolled back; so this is for what does not wait with it: a
    /// task of its own, a thread, a loop that computes. Where a transaction has several messages, it is one of them.
    ///
    /// ```
    /// # use ichido::{Context, Outcome, Result, Store};
    /// async fn resize<S: Store>(cx: &mut Context<S>, picture: u64) -> Result<Outcome> {
    ///     let cancelled = cx.cancelled();
    ///     let resized = tokio::task::spawn_blocking(move || {
    ///         (0..100).take_while(|_| !cancelled.is_cancelled()).map(|part| picture + part).sum::<u64>()
    ///     });
    ///     cx.send("resized", &resized.await?).await?;
    ///     Ok(Outcome::Done)
    /// }
    /// ```
    #[must_use]
    pub fn cancelled(&self) -> Cancellation {
        Cancellation(self.cancelled.clone())
    }

    /// Waits this long and returns true; returns false at once when the process is asked to stop.
    pub async fn pause(&mut self, time: Duration) -> bool {
        if time.is_zero() {
            return !self.stopping();
        }
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = self.clock.sleep(time) => true,
        }
    }

    /// What the application gave to the process ([`Process::state`](crate::Process::state)): its mailer, its HTTP client, its settings.
    ///
    /// ```
    /// # use ichido::{Context, Outcome, Result, Store};
    /// # struct Mailer;
    /// # impl Mailer { async fn send(&self, _: &str) -> std::io::Result<()> { Ok(()) } }
    /// async fn greet<S: Store>(cx: &mut Context<S>, name: String) -> Result<Outcome> {
    ///     let mailer = cx.state::<Mailer>()?;
    ///     mailer.send(&name).await?;
    ///     cx.send("greeted", &name).await?;
    ///     Ok(Outcome::Done)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Setup`] if there is none of this type: it ends the process with 127, names the type, and spends no attempt.
    /// [`Pool::needs`](crate::Pool::needs) finds it at start.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.state.get()
    }

    /// Stores a value for the handlers and the action further in, one per type: for this message, or whatever the handler is
    /// around. What the application has for all of them is [`Context::state`].
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.values.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// A value that a handler further out has inserted.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>())?.downcast_ref()
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.identity = Identity::default();
    }

    pub(crate) fn work(&self) -> Result<Arc<Work<S>>> {
        self.work.clone().ok_or_else(|| Error::Setup("the handler `dispatch` must come before this one".into()))
    }

    /// Are there several messages in hand, and does the action want them one by one?
    pub(crate) fn one_by_one(&self) -> bool {
        self.batch.in_hand().len() > 1 && self.work.as_ref().is_some_and(|work| !work.action.takes_many())
    }

    pub(crate) fn run_action(&mut self) -> BoxFuture<'_, crate::Result<Outcome>> {
        match self.work() {
            Ok(work) => Box::pin(async move {
                let span = trace::span!("action", action = &*work.pool.name);
                let ran = work.run_action(self).instrument(span.clone()).await;
                trace::fail(&span, failure_code::<S>(&ran));
                Ok(ran?)
            }),
            Err(error) => Box::pin(async move { Err(error.into()) }),
        }
    }

    /// What was sent is there for all to see.
    pub(crate) fn wake(&mut self) {
        for (queue, count) in std::mem::take(&mut self.sent) {
            if let Some(life) = &self.life {
                life.meters.sent(queue.clone(), self.routes.level_of(&queue), count);
            }
            self.store.wake_ups().sent(&self.store, &queue, true);
        }
    }

    /// Locks the row of what a broker handed out, in the transaction that is open or begins with it.
    pub(crate) async fn lock(&mut self, delivery: Delivery) -> Result<Found> {
        if let Slot::Open(tx) = &mut self.slot {
            return store::lock(&self.store, tx, &delivery).await;
        }
        let terms = self.terms()?;
        self.waited.begin(self.clock.now());
        let found = self.slot.open_locked(&self.store, terms, delivery).await;
        self.waited.end(self.clock.now());
        if let Slot::Open(tx) = &self.slot {
            self.watched.note(S::session(tx));
        }
        found
    }

    /// Rolls back what is open; a failure to do so only means that the server does it by itself.
    pub(crate) async fn roll_back(&mut self) {
        self.sent.clear();
        self.noted.iter_mut().for_each(Vec::clear);
        if let Some(files) = self.files.take() {
            files.remove().await;
        }
        // What the action left running is not waited for.
        let lost = self.watched.take_lost();
        self.watched.note(None);
        if let Some(tx) = self.slot.take().await {
            let store = self.store.clone();
            let rolled_back = run_to_completion(async move {
                if lost {
                    store.abandon(tx).await;
                    return Ok(());
                }
                store::rollback(&store, tx).await
            });
            if let Err(error) = rolled_back.await {
                tracing::debug!(error = %error.in_full(), "rollback failed");
            }
        }
    }
}
