//! How work becomes a task. The runtime's code for a task is compiled once per type of future, and there are hundreds of them for each store; a
//! future in a box has one type per result. So everything that is spawned here is boxed first: it takes a tenth off the program and its build.

use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::BoxFuture;

/// The future as a task takes it.
pub(crate) fn boxed<T>(work: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
    Box::pin(work)
}

/// Runs a future in a task of its own.
pub(crate) fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(boxed(work))
}

/// The same, with the ids of the current span on its log lines.
pub(crate) fn spawn_in_span<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(boxed(work).in_current_span())
}
