//! How a process learns that something was sent, without asking: in this process, on this host, and from others.

use std::sync::Arc;

use crate::error::Result;
use crate::process::WakeUps;
use crate::store::Transactions;

/// Signals that something was sent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Wakeups: Transactions {
    /// Wakes idle workers when something is sent; all clones share it.
    fn wake_ups(&self) -> &WakeUps;

    /// Tells other hosts that something was sent to a queue, outside the transaction that sent it.
    fn notify(&self, queue: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = queue;
        async { Ok(()) }
    }

    /// Commits, and then tells other hosts that something was sent to these queues; where the server can do that, without another round trip.
    /// An error is one of the COMMIT, as in [`Transactions::commit`]: polling finds what nobody was told of.
    fn commit_and_notify(&self, tx: Self::Tx, queues: &[Arc<str>]) -> impl Future<Output = Result<()>> + Send {
        async move {
            self.commit(tx).await?;
            for queue in queues {
                if let Err(error) = self.notify(queue).await {
                    tracing::debug!(error = %error.in_full(), "cannot wake up other hosts for `{queue}`");
                }
            }
            Ok(())
        }
    }

    /// Receives wake-ups from other hosts, forever; where that is not possible, polling remains.
    fn listen(&self, wake: impl Fn(&str) + Send + Sync) -> impl Future<Output = ()> + Send {
        let _ = wake;
        std::future::pending()
    }
}
