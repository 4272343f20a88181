//! The outbox: what was committed and is still to be published, what should be with the broker, and which relay may publish it. The
//! relay and the reconciler call it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::Key;
use crate::Message;
use crate::broker::Circulating;
use crate::broker::Publication;
use crate::broker::Unsent;
use crate::error::Result;
use crate::store::Database;
use crate::store::ProcessId;

/// What is to be published.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Outbox: Database {
    /// The broker queues.
    fn broker_queues(&self) -> Vec<Arc<str>>;

    /// Puts messages into the outbox, in the caller's transaction: they are published through the broker of this queue, and are
    /// not seen in this database again.
    fn publish(
        &self,
        connection: &mut Self::Connection,
        queue: &str,
        messages: &[Publication],
    ) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// Up to `most` messages of the queue that are due and not known to be published, in the order in which they were sent.
    fn unsent(&self, queue: &str, most: usize) -> impl Future<Output = Result<Vec<Unsent>>> + Send;

    /// Is anything of these queues due and not known to be published?
    fn any_unsent(&self, queues: &BTreeSet<Arc<str>>) -> impl Future<Output = Result<bool>> + Send;

    /// The lease to publish what was sent to a queue, for the queue's `relay_after` from now on: one relay at a time has it, so that
    /// the order of sends is kept. False if another one has it.
    fn take_relay_lease(&self, relay: ProcessId, queue: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Releases the relay lease, if this relay has it.
    fn release_relay_lease(&self, relay: ProcessId, queue: &str) -> impl Future<Output = Result<()>> + Send;

    /// These are with the broker now.
    fn note_published(&self, queue: &str, published: &[&Unsent]) -> impl Future<Output = Result<()>> + Send;

    /// This one is not, for this reason; it is due again after a while.
    fn note_unpublished(
        &self,
        queue: &str,
        unsent: &Unsent,
        error: &str,
        wait: Duration,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Keeps what a message at a broker says, for a retry, if its row is here and nothing of it is kept: another program has sent it.
    /// False if that is not so, or somebody is at its row.
    fn keep(&self, message: &Message) -> impl Future<Output = Result<bool>> + Send;

    /// Has anything of the queue been published that is not done? A store that cannot tell says that it has.
    fn any_circulating(&self, queue: &str) -> impl Future<Output = Result<bool>> + Send {
        let _ = queue;
        async { Ok(true) }
    }

    /// What should be with the broker since so long, up to `most`.
    fn circulating(&self, queue: &str, age: Duration, most: usize) -> impl Future<Output = Result<Circulating>> + Send;

    /// Publishes up to `most` of these again that nobody is at, in this order; how many.
    fn publish_again(&self, queue: &str, keys: &[Key], most: usize) -> impl Future<Output = Result<u64>> + Send;
}
