//! A database as such: what a transaction and a connection of it are, which errors are its own, and whether it answers.

use std::error::Error as StdError;
use std::time::Duration;

use crate::Result;

/// A database that holds the business tables and ichido's own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Database: Clone + Send + Sync + 'static {
    /// An open business transaction, owned.
    type Tx: Send + 'static;
    /// What actions write through: `&mut Self::Connection` is a sqlx executor.
    type Connection: Send + 'static;

    /// The connection inside a transaction.
    fn connection(tx: &mut Self::Tx) -> &mut Self::Connection;

    /// Does this error say that the database is at fault (gone, deadlock, full), not the message?
    fn is_fault(cause: &(dyn StdError + 'static)) -> bool;

    /// Does this error say that somebody ended the statement, or a limit of time did? In a statement of ichido's own that is a fault.
    fn is_interruption(cause: &(dyn StdError + 'static)) -> bool {
        let _ = cause;
        false
    }

    /// Looks at the queues' tables and at the schema's version, once; every other method does it when it must.
    fn prepare(&self) -> impl Future<Output = Result<()>> + Send;

    /// The same database through one connection of its own, for the thread that sends the heartbeat.
    #[must_use]
    fn apart(&self) -> Self;

    /// How long a process must have been alive without a gap before it may declare others dead: after an outage of the
    /// database the fleet must not declare itself dead.
    fn rescue_after(&self, lease: Duration) -> Duration {
        lease
    }

    /// Does the database answer?
    fn ping(&self) -> impl Future<Output = Result<()>> + Send;
}
