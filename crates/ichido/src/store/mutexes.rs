//! The mutex row of a message that a broker delivers: whoever has it runs the message. The broker reader and the handler
//! `transaction` call it.

use crate::Delivery;
use crate::Message;
use crate::action::Terms;
use crate::broker::Found;
use crate::broker::Guard;
use crate::error::Result;
use crate::store::ProcessId;
use crate::store::Transactions;

/// Mutex rows of messages that brokers deliver.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Mutexes: Transactions {
    /// How a broker's queue is guarded.
    ///
    /// [`crate::Error::Setup`] if no broker keeps it.
    fn guard(&self, queue: &str) -> impl Future<Output = Result<Guard>> + Send;

    /// Locks the row of a message that a broker handed out, without waiting, in a business transaction that has done nothing
    /// else yet. If the row is not to be had, or is about another body, the transaction is rolled back next.
    fn lock(&self, tx: &mut Self::Tx, delivery: &Delivery) -> impl Future<Output = Result<Found>> + Send;

    /// Begins a business transaction and locks the row of this message in it: both of these, for a store that has no shorter
    /// way.
    fn begin_locked(
        &self,
        terms: Terms,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<(Self::Tx, Found)>> + Send {
        async move {
            let mut tx = self.begin_on(terms).await?;
            match Box::pin(self.lock(&mut tx, delivery)).await {
                Ok(found) => Ok((tx, found)),
                Err(error) => {
                    // Now, and not when it is dropped: what comes next must not meet its lock.
                    let _ = Box::pin(self.rollback(tx)).await;
                    Err(error)
                }
            }
        }
    }

    /// Marks the rows of these messages, which a broker handed out, as this process's, as far as they are free or are its own
    /// already, and about these bodies; what was found, in the order of the messages.
    ///
    /// [`crate::Error::LostClaim`] if the process has been declared dead.
    fn claim_these(
        &self,
        process: ProcessId,
        queue: &str,
        messages: &[Message],
    ) -> impl Future<Output = Result<Vec<Found>>> + Send;
}
