//! What processes have counted, minute by minute, and how old of it is forgotten. `upkeep` calls it.

use std::time::Duration;

use crate::error::Result;
use crate::process::Retention;
use crate::stat::Backlog;
use crate::stat::Stat;
use crate::store::Database;
use crate::store::ProcessId;

/// What processes have counted.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Stats: Database {
    /// Keeps the longest time that a message of a queue has taken, for the warnings of `check`.
    fn note_longest(&self, queue: &str, time: Duration) -> impl Future<Output = Result<()>> + Send;

    /// Writes what a process has counted in a minute, as a whole: rows that are there already are replaced. One statement.
    fn note_stats(&self, process: ProcessId, minute: i64, stats: &[Stat]) -> impl Future<Output = Result<()>> + Send;

    /// Counts what waits in a queue, and for how long: at most [`crate::inspect::MOST_COUNTED`] messages. None if that would cost too much.
    fn count(&self, queue: &str) -> impl Future<Output = Result<Option<Backlog>>> + Send {
        let _ = queue;
        async { Ok(None) }
    }

    /// Prunes what is older than it is to be kept, and adds up what processes have counted more than an hour ago, so that a row per minute and
    /// queue remains: some of it at a time. True if there is more. Writes nothing if there is nothing to do.
    fn prune(&self, retention: Retention) -> impl Future<Output = Result<bool>> + Send;
}
