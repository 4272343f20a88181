//! One message that was sent, by its id: what has become of it, when it runs, and its end. [`Client::message`](crate::Client::message) makes it; the
//! store does the rest ([`Messages`]), in a transaction of its own.

use std::time::Duration;

use crate::{
    Due, MessageId, Messages,
    action::slot::run_to_completion,
    error::Result,
    inspect::{Changed, MessageInfo},
    message::{CANCEL_WAIT, cancel_within},
    store::{By, Cancelled},
};

/// A message of a store.
///
/// ```
/// # use std::time::Duration;
/// # async fn later(client: ichido::Client<ichido_sqlite::Sqlite>, id: ichido::MessageId) -> ichido::Result<()> {
/// if !client.message(&id).reschedule(Duration::from_secs(3600)).await?.is_yes() {
///     println!("{:?}", client.message(&id).state().await?);
/// }
/// # Ok(()) }
/// ```
pub struct OneMessage<S: Messages> {
    store: S,
    id: MessageId,
    wait: Duration,
}

impl<S: Messages> OneMessage<S> {
    pub(crate) fn new(store: S, id: MessageId) -> Self {
        OneMessage { store, id, wait: CANCEL_WAIT }
    }

    /// What is known of it; none if there is no such message, or it is done and has left nothing behind.
    ///
    /// # Errors
    /// There is no such queue, or the database failed.
    pub async fn state(&self) -> Result<Option<MessageInfo>> {
        self.store.message(&self.id).await
    }

    /// It runs at this time, or after this long: if it waits, at that time instead; if it is ready, it waits until then. What is claimed,
    /// has failed or is done is left as it is.
    ///
    /// # Errors
    /// There is no such queue, the message is only at its broker, or the database failed.
    pub async fn reschedule(&self, due: impl Into<Due>) -> Result<Changed> {
        let (store, id, due) = (self.store.clone(), self.id.clone(), due.into());
        run_to_completion(async move { store.reschedule(&id, due).await }).await
    }

    /// It is ready at once if it waits, and idle workers are woken.
    ///
    /// # Errors
    /// There is no such queue, or the database failed.
    pub async fn run_now(&self) -> Result<Changed> {
        let (store, id) = (self.store.clone(), self.id.clone());
        run_to_completion(async move {
            let changed = store.run_now(&id).await?;
            if changed.is_yes() {
                store.wake_ups().sent(&store, &id.queue, true);
            }
            Ok(changed)
        })
        .await
    }

    /// Who changes it, for the audit.
    #[must_use]
    pub fn by(mut self, by: By) -> Self {
        self.store = self.store.by(by);
        self
    }

    /// How long to wait for a message that runs, in place of ten seconds.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Cancels the message for good, also while it runs: its action is dropped, and what it wrote is rolled back. Says "cancelled" only when
    /// nothing of it can be committed any more. One that is done stays done.
    ///
    /// ```
    /// # use ichido::{Client, MessageId};
    /// # async fn forget(client: Client<ichido_sqlite::Sqlite>, id: MessageId) -> ichido::Result<()> {
    /// let cancelled = client.message(&id).cancel().await?;
    /// if !cancelled.is_cancelled() {
    ///     println!("{id} is {cancelled:?}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The queue is unknown, or the database failed; whether the message is cancelled is not known then.
    pub async fn cancel(&self) -> Result<Cancelled> {
        cancel_within(&self.store, &self.id, self.wait).await
    }
}
