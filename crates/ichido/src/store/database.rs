//! A database as such: what a transaction and a connection of it are, which errors are its own, and whether it answers.

use std::error::Error as StdError;
use std::time::Duration;

use crate::error::Result;

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

    /// The same for an error in a statement of ichido's own: is it a fault there, although an action's statement would fail by it? Somebody
    /// has cancelled it, or the server does not write for now.
    fn is_own_fault(cause: &(dyn StdError + 'static)) -> bool {
        let _ = cause;
        false
    }

    /// How long a statement may stay unanswered; none if there is no server that could be silent.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// How many statements the server has left unanswered for that long.
    fn silences(&self) -> u64 {
        0
    }

    /// From now on no statement may stay unanswered for longer than this, and each goes through a connection that was opened since: a process
    /// that ends does not wait for a server.
    fn hurry(&self, timeout: Duration) {
        let _ = timeout;
    }

    /// How many connections a process with this store opens at most; none is counted if nobody has to admit them.
    fn connections(&self) -> ConnectionCounts {
        ConnectionCounts::default()
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

/// How many connections a process opens at most, by what they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Business transactions: one for each that is open.
    pub business: u32,
    /// Claims, releases, and whatever else is a short statement of ichido's own.
    pub own: u32,
    /// Heartbeat, chores and rescue, each with its own ([`Database::apart`]); the last only while there is something to rescue.
    pub upkeep: u32,
    /// Hears the wake-ups of other hosts.
    pub listen: u32,
    /// Asks about a session whose connection is silent, and ends it; only then.
    pub watch: u32,
}

impl ConnectionCounts {
    /// Those of a store on a server: each task of the upkeep needs one, and so does whoever asks about a silent session.
    #[must_use]
    pub fn of_server(business: u32, own: u32, listens: bool) -> Self {
        ConnectionCounts { business, own, upkeep: ConnectionCounts::upkeep(1), listen: listens.into(), watch: 1 }
    }

    /// How many `upkeep` needs if each of its tasks needs this many.
    #[must_use]
    pub fn upkeep(each: u32) -> u32 {
        crate::process::upkeep::TASKS * each
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.business + self.own + self.upkeep + self.listen + self.watch
    }
}
