//! Sending from outside an action, in a transaction of the caller's own.

use serde::Serialize;

use crate::{MessageId, NewMessage, Result, Store};

/// Sends messages to the queues of a store.
#[derive(Clone)]
pub struct Client<S: Store> {
    store: S,
}

impl<S: Store> Client<S> {
    /// A client of this store.
    pub fn new(store: S) -> Self {
        Client { store }
    }

    /// A queue to send to.
    #[must_use]
    pub fn queue<'a>(&'a self, name: &'a str) -> Sender<'a, S> {
        Sender { store: &self.store, queue: name }
    }
}

/// A queue to send to.
pub struct Sender<'a, S: Store> {
    store: &'a S,
    queue: &'a str,
}

impl<S: Store> Sender<'_, S> {
    /// Sends one message in the caller's transaction: committed with it, gone if it is rolled back.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, or the database fails.
    pub async fn send(&self, tx: &mut S::Connection, message: &(impl Serialize + Sync)) -> Result<MessageId> {
        let ids = self.send_all(tx, std::slice::from_ref(message)).await?;
        ids.into_iter().next().ok_or_else(|| "the store sent nothing".into())
    }

    /// Sends many messages in the caller's transaction.
    ///
    /// # Errors
    /// When a message cannot be encoded or is refused, or the database fails.
    pub async fn send_all(&self, tx: &mut S::Connection, messages: &[impl Serialize + Sync]) -> Result<Vec<MessageId>> {
        let encoded = messages.iter().map(|message| Ok(NewMessage::new(serde_json::to_vec(message)?)));
        let encoded: Vec<_> = encoded.collect::<Result<_>>()?;
        self.store.send(tx, self.queue, &encoded).await
    }
}
