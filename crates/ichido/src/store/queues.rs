//! Messages in queues: sent, claimed, released, put aside with a reason, and returned. Readers and `upkeep` call it.

use std::{sync::Arc, time::Duration};

use crate::Delivery;
use crate::MessageId;
use crate::NewMessage;
use crate::error::Result;
use crate::store::Database;
use crate::store::Failure;
use crate::store::ProcessId;
use crate::store::Registration;

/// Messages in queues.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Queues: Database {
    /// Puts messages into a queue, in the caller's transaction.
    fn send(
        &self,
        connection: &mut Self::Connection,
        queue: &str,
        messages: &[NewMessage],
    ) -> impl Future<Output = Result<Vec<MessageId>>> + Send;

    /// Marks up to `count` claimable messages as this process's, in order.
    ///
    /// [`crate::Error::LostClaim`] if the process has been declared dead.
    fn claim(
        &self,
        process: ProcessId,
        queue: &str,
        count: usize,
    ) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// What this process has claimed in the queue: finds claims whose reply was lost.
    fn claimed(&self, process: ProcessId, queue: &str) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// Releases claims; nothing counts as an attempt.
    fn release(&self, deliveries: &[Delivery]) -> impl Future<Output = Result<()>> + Send;

    /// Records a failure and parks the message; false if the claim was lost.
    fn park(&self, delivery: &Delivery, failure: &Failure) -> impl Future<Output = Result<bool>> + Send;

    /// Returns parked messages that are due, up to [`MOST_KEYS`] of each queue.
    fn return_due(&self, by: &Registration) -> impl Future<Output = Result<u64>> + Send;

    /// Deletes the records of messages that are gone or were set to new by hand. It looks at up to [`MOST_KEYS`] records of the queue, those
    /// after this key, and says where to go on; none: that was the last.
    fn tidy(&self, queue: &str, after: &str) -> impl Future<Output = Result<Option<String>>> + Send;

    /// The first of these queues in which something is unprocessed, whoever owns it, or waits for a retry. All are looked at in
    /// the same moment: what moves from one to another in a transaction is seen in one of them.
    fn undrained(&self, queues: &[Arc<str>]) -> impl Future<Output = Result<Option<Arc<str>>>> + Send;

    /// Is nothing unprocessed in the queue, whoever owns it, and nothing waiting for a retry?
    fn is_drained(&self, queue: &str) -> impl Future<Output = Result<bool>> + Send {
        async move { Ok(self.undrained(&[queue.into()]).await?.is_none()) }
    }

    /// In which of these queues there may be something to claim, in their order: one look for all of them, which writes nothing. A store that
    /// cannot tell says that there is.
    fn claimable(&self, queues: &[Arc<str>]) -> impl Future<Output = Result<Vec<bool>>> + Send {
        let all = vec![true; queues.len()];
        async { Ok(all) }
    }

    /// How long it is until the next parked message of each of these queues is due, in their order; zero if one is, none if nothing waits. One
    /// look for all of them.
    fn next_due(&self, queues: &[Arc<str>]) -> impl Future<Output = Result<Vec<Option<Duration>>>> + Send;

    /// How many messages of the queue can be claimed now; no more than so many are counted. None if that would cost too much.
    fn backlog(&self, queue: &str, most: u64) -> impl Future<Output = Result<Option<u64>>> + Send {
        let _ = (queue, most);
        async { Ok(None) }
    }
}

/// The most keys that one statement is about: more of them make it slower, not faster.
pub const MOST_KEYS: usize = 500;
