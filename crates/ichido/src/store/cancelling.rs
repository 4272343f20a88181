//! Cancelling: a message is taken out of circulation for good, also while it runs. The client and operators ask for it, the processes that
//! have the message claimed are told, and the handler `transaction` of such a process carries out what could not be done before.

use serde::Serialize;

use crate::{Delivery, MessageId, error::Result, store::Audit};

/// What became of a message that was to be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Cancelled {
    /// It is cancelled: nothing that it does is committed from now on.
    Cancelled,
    /// It was cancelled or discarded before.
    Already,
    /// It is done, and stays done.
    Done,
    /// It runs, and its row is locked. The process that runs it is asked to drop it, and cancels it unless it is done first.
    Asked,
    /// There is no such message: it was never sent, or it is done and has left nothing behind.
    Unknown,
}

impl Cancelled {
    /// Is the message cancelled, now or before?
    #[must_use]
    pub fn is_cancelled(self) -> bool {
        matches!(self, Cancelled::Cancelled | Cancelled::Already)
    }
}

/// Messages that can be cancelled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellable {
    /// Those that nobody has claimed.
    Ready,
    /// Those that a process has claimed.
    Claimed,
    /// Those that wait for a retry or a delay.
    Waiting,
    /// Those that have failed for good.
    Failed,
}

impl Cancellable {
    /// All of them.
    pub const ALL: [Cancellable; 4] =
        [Cancellable::Ready, Cancellable::Claimed, Cancellable::Waiting, Cancellable::Failed];
}

/// Messages that are cancelled.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Cancelling: Audit {
    /// Takes a message out of circulation, whoever has it claimed, in one transaction: its claim, its group, what is known about it, and what is
    /// still to be published. A process that had it claimed is told by its next poll. Waits for nobody: if the row is locked, the
    /// process that runs it is asked instead.
    fn cancel(&self, id: &MessageId) -> impl Future<Output = Result<Cancelled>> + Send;

    /// What [`Cancelling::cancel`] would do now; nothing is changed, and nobody asked.
    fn would_cancel(&self, id: &MessageId) -> impl Future<Output = Result<Cancelled>> + Send;

    /// Cancels up to `most` messages of a queue in one transaction, those that nobody has locked; which.
    fn cancel_some(
        &self,
        queue: &str,
        which: Cancellable,
        most: usize,
    ) -> impl Future<Output = Result<Vec<MessageId>>> + Send;

    /// Up to `most` messages of a queue that could be cancelled now, locked or not.
    fn cancellable(
        &self,
        queue: &str,
        which: Cancellable,
        most: usize,
    ) -> impl Future<Output = Result<Vec<MessageId>>> + Send;

    /// Is the message of this delivery cancelled? If that was asked while it ran, it is cancelled now. The process is told once: what it was
    /// told about the message is deleted.
    fn finish_cancel(&self, delivery: &Delivery) -> impl Future<Output = Result<bool>> + Send;
}
