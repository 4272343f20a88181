//! Sending to a typed queue or a kind from inside an action, in its transaction.

use std::{
    marker::PhantomData,
    time::{Duration, SystemTime},
};

use serde::Serialize;

use crate::{
    Context, MessageId, NewMessage, Store,
    error::Result,
    message::{Destination, Tag, client::treatment, queue_of::encode},
};

/// A typed queue or a kind to send to in the business transaction, and how its messages are to be treated.
pub struct TypedSend<'a, S: Store, T> {
    cx: &'a mut Context<S>,
    to: &'static str,
    tag: Option<Tag>,
    like: NewMessage,
    messages: PhantomData<fn(T)>,
}

impl<S: Store> Context<S> {
    /// A typed queue, or a kind, to send to in the business transaction: messages of another type do not compile.
    #[must_use]
    pub fn to<D: Destination>(&mut self, to: &D) -> TypedSend<'_, S, D::Message> {
        TypedSend { cx: self, to: to.queue(), tag: to.tag(), like: NewMessage::default(), messages: PhantomData }
    }
}

impl<S: Store, T> TypedSend<'_, S, T> {
    treatment!();
}

impl<S: Store, T: Serialize + Sync> TypedSend<'_, S, T> {
    /// Sends one message: it is there if and only if the one in hand is done.
    ///
    /// # Errors
    /// When the message cannot be encoded or is refused, or the database fails.
    pub async fn send(&mut self, message: &T) -> Result<MessageId> {
        self.cx.send_new(self.to, encode(&self.like, self.tag, message)?).await
    }
}
