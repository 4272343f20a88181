//! How an action sees that its message is cancelled: something to wait for, or to ask now and then, also from another task or thread.

use std::future::IntoFuture;

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The cancellation of a message, if it comes ([`Context::cancelled`](crate::Context::cancelled)). Await it, or ask.
#[derive(Debug, Clone)]
pub struct Cancellation(pub(crate) CancellationToken);

impl Cancellation {
    /// Is the message cancelled?
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl IntoFuture for Cancellation {
    type Output = ();
    type IntoFuture = WaitForCancellationFutureOwned;

    fn into_future(self) -> Self::IntoFuture {
        self.0.cancelled_owned()
    }
}
