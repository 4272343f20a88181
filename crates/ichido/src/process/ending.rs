//! The end of a process that was stopped: within its grace, and a moment to release messages and to deregister, even if the server is silent.
//! Whatever still waits then is dropped, and each connection with it.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{Outcome, Store, error::Result, process::Clock};

/// After the grace: how long one statement may take then, and all that is left to do.
const LEAVE: (Duration, Duration) = (Duration::from_millis(700), Duration::from_millis(1500));

/// What the end of a process depends on.
pub(super) struct Ending<S> {
    pub(super) store: S,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: CancellationToken,
    pub(super) grace: Duration,
}

impl<S: Store> Ending<S> {
    /// Runs a process, to its end or until it is out of time.
    pub(super) async fn in_time(self, run: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
        let Some(timeout) = self.store.timeout() else { return run.await };
        let mut hurried = false;
        let out_of_time = async {
            self.stop.cancelled().await;
            self.clock.sleep(self.grace).await;
            hurried = true;
            self.store.hurry(LEAVE.0.min(timeout));
            tokio::time::sleep(LEAVE.1).await;
        };
        let ended = tokio::select! {
            biased;
            ended = run => ended,
            () = out_of_time => {
                tracing::warn!("the database does not answer; other processes rescue the messages after the lease expires");
                Ok(Outcome::Stop)
            }
        };
        if hurried {
            self.store.hurry(timeout); // others may go on with this store
        }
        ended
    }
}
