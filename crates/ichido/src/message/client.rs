//! Sending from outside an action, in a transaction of the caller's own.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::{
    MessageId, NewMessage, Store,
    error::Result,
    lanes::{LaneSet, Routes},
};

/// Sends messages to the queues of a store.
#[derive(Clone)]
pub struct Client<S: Store> {
    pub(crate) store: S,
    routes: Routes,
}

impl<S: Store> Client<S> {
    /// A client of this store.
    pub fn new(store: S) -> Self {
        Client { store, routes: Routes::default() }
    }

    /// With a lane set to send to.
    #[must_use]
    pub fn lanes(mut self, set: LaneSet) -> Self {
        self.routes.add(set);
        self
    }

    /// A queue or a lane set to send to.
    #[must_use]
    pub fn queue<'a>(&'a self, name: &'a str) -> Sender<'a, S> {
        Sender { store: &self.store, routes: &self.routes, to: name, like: NewMessage::default() }
    }
}

/// A queue or a lane set to send to, and how its messages are to be treated.
pub struct Sender<'a, S: Store> {
    store: &'a S,
    routes: &'a Routes,
    to: &'a str,
    like: NewMessage,
}

impl<S: Store> Sender<'_, S> {
    /// What is sent goes to this level of the lane set, whatever the message says.
    #[must_use]
    pub fn level(mut self, level: impl Into<String>) -> Self {
        self.like = self.like.level(level);
        self
    }

    /// What is sent may run only after this time.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.like = self.like.delay(delay);
        self
    }

    /// What is sent may run only from this time on.
    #[must_use]
    pub fn at(mut self, time: SystemTime) -> Self {
        self.like = self.like.at(time);
        self
    }

    /// While a message with this key is neither done nor failed, no second one is sent: the first one's id is returned.
    #[must_use]
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.like = self.like.unique(key);
        self
    }

    /// Messages of a group run one at a time and in order.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.like = self.like.group(group);
        self
    }

    /// Sends one message in the caller's transaction: committed with it, gone if it is rolled back.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, or the database fails.
    pub async fn send(&self, tx: &mut S::Connection, message: &(impl Serialize + Sync)) -> Result<MessageId> {
        let ids = self.send_all(tx, std::slice::from_ref(message)).await?;
        ids.into_iter().next().ok_or_else(|| "the store returned no message id".into())
    }

    /// Sends many messages in the caller's transaction.
    ///
    /// # Errors
    /// When a message cannot be encoded or is refused, or the database fails.
    pub async fn send_all(&self, tx: &mut S::Connection, messages: &[impl Serialize + Sync]) -> Result<Vec<MessageId>> {
        let encoded = messages
            .iter()
            .map(|message| Ok(NewMessage { payload: serde_json::to_vec(message)?, ..self.like.clone() }));
        let encoded: Vec<_> = encoded.collect::<Result<_>>()?;
        let sent = self.routes.send(self.store, tx, self.to, &encoded).await?;
        sent.queues.iter().for_each(|queue| self.store.wake_ups().sent(self.store, queue, false));
        Ok(sent.ids)
    }
}
