//! Actions of typed queues: what an action receives is what the queue's name promises.

use std::sync::Arc;

use crate::{
    BatchAction, BoxFuture, Context, Error, Outcome, Payload, Pool, Process, QueueOf, Store,
    action::{ByFunction, IntoAction, OneByOne, batch_action::Together},
    error::Result,
    lanes::Routes,
    process::pool::From,
};

/// Where messages come from that come from no queue.
pub(super) const OWN_READER: &str = "a reader of its own";

impl<S: Store> Process<S> {
    /// Adds an action for the messages of a typed queue, or of a lane set of this name: a type that implements
    /// [`Action`](crate::Action), or an async function. One for other messages does not compile.
    ///
    /// The pool's messages come from this queue, whatever [`Pool::from`] said. For a lane set give the pool
    /// [`Pool::from_lanes`], or the process [`Process::lanes`].
    #[must_use]
    pub fn on<T, How>(self, queue: &QueueOf<T>, pool: Pool, action: impl IntoAction<S, T, How>) -> Self {
        self.add(pool.typed(queue.name()), OneByOne(action.into_action()))
    }

    /// The same for a closure that captures; see [`Process::action_closure`].
    #[must_use]
    pub fn on_closure<T, F>(self, queue: &QueueOf<T>, pool: Pool, closure: F) -> Self
    where
        T: Payload,
        F: for<'a> Fn(&'a mut Context<S>, T) -> BoxFuture<'a, crate::Result<Outcome>> + Send + Sync + 'static,
    {
        self.on::<T, ByFunction>(queue, pool, closure)
    }

    /// The same for an action that gets all messages of a transaction together.
    #[must_use]
    pub fn on_batch<T>(self, queue: &QueueOf<T>, pool: Pool, action: impl BatchAction<S, Message = T>) -> Self {
        self.add(pool.typed(queue.name()), Together(action))
    }
}

impl Pool {
    /// Its messages come from this typed queue; a lane set must be the one of this name.
    pub(crate) fn typed(mut self, name: &'static str) -> Self {
        self.typed = Some(name);
        match self.from {
            From::Queue(_) => self.from(name),
            From::Lanes(_) | From::Reader(_) => self,
        }
    }

    /// The name of its typed queue may be that of a lane set.
    pub(crate) fn find_lanes(&mut self, routes: &Routes) {
        if let (From::Queue(_), Some(set)) = (&self.from, self.typed.and_then(|name| routes.find(name))) {
            self.from = From::Lanes(Arc::new(set.clone()));
        }
    }

    /// The queue or the lane set that its messages come from.
    pub(super) fn source(&self) -> Option<&str> {
        match &self.from {
            From::Queue(queue) => Some(queue),
            From::Lanes(set) => Some(&set.name),
            From::Reader(_) => None,
        }
    }

    /// Do its messages come from this queue or lane set, or from a level with this queue?
    pub(crate) fn takes_from(&self, name: &str) -> bool {
        self.source() == Some(name) || self.queues().iter().any(|queue| **queue == *name)
    }

    /// Are its messages those that its action is for?
    pub(super) fn check_typed(&self) -> Result<()> {
        let Some(typed) = self.typed.filter(|typed| self.source() != Some(typed)) else { return Ok(()) };
        let (name, from) = (&self.name, self.source().unwrap_or(OWN_READER));
        Err(Error::Setup(format!("action `{name}` is for messages of `{typed}`, but takes them from `{from}`")))
    }
}
