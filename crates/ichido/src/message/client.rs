//! Sending from outside an action: in a transaction of the caller's own, or in one that `alone` begins and commits.

use serde::Serialize;

use crate::{
    MessageId, NewMessage, Result, Store,
    lanes::{LaneSet, Routes},
    message::{alone, new_message::treatment},
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
    treatment!();

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
        let encoded = self.encode(messages)?;
        let sent = self.routes.send(self.store, tx, self.to, &encoded).await?;
        sent.queues.iter().for_each(|queue| self.store.wake_ups().sent(self.store, queue, false));
        Ok(sent.ids)
    }

    /// Sends one message in a transaction of its own, which is committed when this returns. Where there is a transaction, use
    /// [`Sender::send`]: then the message is sent if and only if that is committed.
    ///
    /// ```
    /// # async fn welcome(client: ichido::Client<ichido_sqlite::Sqlite>) -> ichido::Result<()> {
    /// client.queue("mail").unique("welcome/42").send_and_commit(&"anna").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, or the database fails. If the answer to COMMIT is lost, the message was sent
    /// or not: the error says so ([`UnknownCommit`](crate::message::UnknownCommit) is among its sources), and is transient. With
    /// [`Sender::unique`] it is safe to send it again.
    pub async fn send_and_commit(&self, message: &(impl Serialize + Sync)) -> Result<MessageId> {
        let ids = self.send_all_and_commit(std::slice::from_ref(message)).await?;
        ids.into_iter().next().ok_or_else(|| "the store returned no message id".into())
    }

    /// Sends many messages in a transaction of their own: all of them, or none.
    ///
    /// # Errors
    /// As [`Sender::send_and_commit`].
    pub async fn send_all_and_commit(&self, messages: &[impl Serialize + Sync]) -> Result<Vec<MessageId>> {
        alone::send_and_commit(self.store, self.routes, self.to, self.encode(messages)?).await
    }

    fn encode(&self, messages: &[impl Serialize]) -> Result<Vec<NewMessage>> {
        let encode = |message| Ok(NewMessage { payload: serde_json::to_vec(message)?, ..self.like.clone() });
        messages.iter().map(encode).collect()
    }
}
