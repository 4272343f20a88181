//! How a process learns that something was sent, without asking: in this process, on this host, and from others.

use crate::error::Result;
use crate::process::WakeUps;
use crate::store::Database;

/// Signals that something was sent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Wakeups: Database {
    /// Wakes idle workers when something is sent; all clones share it.
    fn wake_ups(&self) -> &WakeUps;

    /// Tells other hosts that something was sent to a queue, outside the transaction that sent it.
    fn notify(&self, queue: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = queue;
        async { Ok(()) }
    }

    /// Receives wake-ups from other hosts, forever; where that is not possible, polling remains.
    fn listen(&self, wake: impl Fn(&str) + Send + Sync) -> impl Future<Output = ()> + Send {
        let _ = wake;
        std::future::pending()
    }
}
