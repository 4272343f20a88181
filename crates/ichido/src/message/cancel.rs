//! Cancelling one message, and waiting for what runs: [`Client::message`] for programs, [`cancel_within`] for whoever has a store.

use std::time::{Duration, Instant};

use crate::{
    Client, MessageId, Store,
    action::slot::run_to_completion,
    error::Result,
    store::{self, By, Cancelled},
};

/// How long a message that runs is waited for, unless somebody says otherwise.
pub const CANCEL_WAIT: Duration = Duration::from_secs(10);

/// So often is looked whether a message has ended.
const LOOK: Duration = Duration::from_millis(50);

impl<S: Store> Client<S> {
    /// One message, by its id.
    #[must_use]
    pub fn message(&self, id: &MessageId) -> OneMessage<S> {
        OneMessage { store: self.store.clone(), id: id.clone(), wait: CANCEL_WAIT }
    }
}

/// One message, whatever state it is in.
pub struct OneMessage<S: Store> {
    pub(crate) store: S,
    pub(crate) id: MessageId,
    wait: Duration,
}

impl<S: Store> OneMessage<S> {
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

/// Cancels a message, waiting this long for one that runs. A fault is tried again meanwhile: after a COMMIT whose answer was lost, the next look
/// tells what holds.
///
/// # Errors
/// The queue is unknown, or the database failed to the end.
pub async fn cancel_within<S: Store>(store: &S, id: &MessageId, wait: Duration) -> Result<Cancelled> {
    let (begun, mut seen, mut doubt) = (Instant::now(), false, false);
    loop {
        let (store, asked) = (store.clone(), id.clone());
        // In a task: whoever drops us must not drop a transaction.
        let looked = run_to_completion(async move { store::cancel(&store, &asked).await }).await;
        let is_over = begun.elapsed() >= wait;
        match looked {
            Ok(Cancelled::Asked) if !is_over => seen = true,
            // It was there, and nobody has cancelled it.
            Ok(Cancelled::Unknown) if seen => return Ok(Cancelled::Done),
            Ok(Cancelled::Already) if doubt || seen => return Ok(Cancelled::Cancelled),
            Err(error) if error.is_fault::<S>() && !is_over => {
                tracing::debug!(error = %error.in_full(), "cannot tell yet whether {id} is cancelled");
                doubt = true;
            }
            looked => return looked,
        }
        tokio::time::sleep(LOOK).await;
    }
}
