//! Sending from outside an action, in a transaction of the caller's own, or in one that `alone` begins and commits: any message to a queue
//! by its name, or messages of one type to a [`QueueOf`](crate::QueueOf) or a [`KindOf`](crate::KindOf). What was sent is a `one_message`.

use std::{
    marker::PhantomData,
    time::{Duration, SystemTime},
};

use serde::Serialize;

use crate::{
    MessageId, Messages, NewMessage, Store,
    error::Result,
    lanes::{LaneSet, Routes},
    message::{
        OneMessage, alone,
        queue_of::{Destination, Tag, encode},
    },
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
        self.sender(name, None)
    }

    /// A typed queue, or a kind, to send to: messages of another type do not compile.
    #[must_use]
    pub fn to<D: Destination>(&self, to: &D) -> Sender<'_, S, Only<D::Message>> {
        self.sender(to.queue(), to.tag())
    }

    fn sender<'a, M>(&'a self, to: &'a str, tag: Option<Tag>) -> Sender<'a, S, M> {
        let (store, routes) = (&self.store, &self.routes);
        Sender { store, routes, to, tag, like: NewMessage::default(), messages: PhantomData }
    }
}

impl<S: Messages> Client<S> {
    /// One message, to look at, to move in time or to cancel.
    #[must_use]
    pub fn message(&self, id: &MessageId) -> OneMessage<S> {
        OneMessage::new(self.store.clone(), id.clone())
    }
}

/// A queue or a lane set to send to, and how its messages are to be treated. `M` is what it takes: [`Anything`], or [`Only`] messages
/// of one type.
pub struct Sender<'a, S: Store, M = Anything> {
    store: &'a S,
    routes: &'a Routes,
    to: &'a str,
    tag: Option<Tag>,
    like: NewMessage,
    messages: PhantomData<fn(M)>,
}

/// Everything that serde can write can be sent.
#[derive(Debug)]
pub enum Anything {}

/// Messages of this type can be sent.
#[derive(Debug)]
pub struct Only<T>(PhantomData<fn(T)>);

/// How a message is to be treated, for all who send.
macro_rules! treatment {
    () => {
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

        /// A text beside the payload, which the action finds in `cx.headers()`. Not for table queues; names that begin with
        /// `x-ichido-` are refused.
        #[must_use]
        pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.like = self.like.header(name, value);
            self
        }

        /// What is sent gets so many attempts, in place of what its action's `retry` says. Not for table queues.
        #[must_use]
        pub fn attempts(mut self, attempts: u32) -> Self {
            self.like = self.like.attempts(attempts);
            self
        }
    };
}

pub(crate) use treatment;

impl<S: Store, M> Sender<'_, S, M> {
    treatment!();

    async fn send_each(&self, tx: &mut S::Connection, messages: &[impl Serialize + Sync]) -> Result<Vec<MessageId>> {
        let sent = self.routes.send(self.store, tx, self.to, &self.encoded(messages)?).await?;
        sent.queues.iter().for_each(|queue| self.store.wake_ups().sent(self.store, queue, false));
        Ok(sent.ids)
    }

    async fn send_one(&self, tx: &mut S::Connection, message: &(impl Serialize + Sync)) -> Result<MessageId> {
        only(self.send_each(tx, std::slice::from_ref(message)).await?)
    }

    async fn commit_each(&self, messages: &[impl Serialize + Sync]) -> Result<Vec<MessageId>> {
        alone::send_and_commit(self.store, self.routes, self.to, self.encoded(messages)?).await
    }

    fn encoded(&self, messages: &[impl Serialize]) -> Result<Vec<NewMessage>> {
        messages.iter().map(|message| encode(&self.like, self.tag, message)).collect()
    }
}

fn only(ids: Vec<MessageId>) -> Result<MessageId> {
    ids.into_iter().next().ok_or_else(|| "the store returned no message id".into())
}

impl<S: Store> Sender<'_, S> {
    /// Sends one message in the caller's transaction: committed with it, gone if it is rolled back.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, or the database fails.
    pub async fn send(&self, tx: &mut S::Connection, message: &(impl Serialize + Sync)) -> Result<MessageId> {
        self.send_one(tx, message).await
    }

    /// Sends many messages in the caller's transaction.
    ///
    /// # Errors
    /// When a message cannot be encoded or is refused, or the database fails.
    pub async fn send_all(&self, tx: &mut S::Connection, messages: &[impl Serialize + Sync]) -> Result<Vec<MessageId>> {
        self.send_each(tx, messages).await
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
        only(self.commit_each(std::slice::from_ref(message)).await?)
    }

    /// Sends many messages in a transaction of their own: all of them, or none.
    ///
    /// # Errors
    /// As [`Sender::send_and_commit`].
    pub async fn send_all_and_commit(&self, messages: &[impl Serialize + Sync]) -> Result<Vec<MessageId>> {
        self.commit_each(messages).await
    }
}

impl<S: Store, T: Serialize + Sync> Sender<'_, S, Only<T>> {
    /// Sends one message in the caller's transaction: committed with it, gone if it is rolled back.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, or the database fails.
    pub async fn send(&self, tx: &mut S::Connection, message: &T) -> Result<MessageId> {
        self.send_one(tx, message).await
    }

    /// Sends many messages in the caller's transaction.
    ///
    /// # Errors
    /// When a message cannot be encoded or is refused, or the database fails.
    pub async fn send_all(&self, tx: &mut S::Connection, messages: &[T]) -> Result<Vec<MessageId>> {
        self.send_each(tx, messages).await
    }

    /// Sends one message in a transaction of its own, which is committed when this returns.
    ///
    /// # Errors
    /// As for any other message ([`UnknownCommit`](crate::message::UnknownCommit) if the answer to COMMIT is lost).
    pub async fn send_and_commit(&self, message: &T) -> Result<MessageId> {
        only(self.commit_each(std::slice::from_ref(message)).await?)
    }

    /// Sends many messages in a transaction of their own: all of them, or none.
    ///
    /// # Errors
    /// As [`Sender::send_and_commit`].
    pub async fn send_all_and_commit(&self, messages: &[T]) -> Result<Vec<MessageId>> {
        self.commit_each(messages).await
    }
}
