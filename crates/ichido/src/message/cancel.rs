//! Cancelling one message, and waiting for what runs.

use std::time::{Duration, Instant};

use crate::{
    MessageId, Store,
    action::slot::run_to_completion,
    error::Result,
    store::{self, Cancelled},
};

/// How long a message that runs is waited for, unless somebody says otherwise.
pub const CANCEL_WAIT: Duration = Duration::from_secs(10);

/// So often is looked whether a message has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Cancels a message, waiting this long for one that runs. A fault is tried again meanwhile: after a COMMIT whose answer was lost, the next look
/// tells what holds.
///
/// # Errors
/// The queue is unknown, or the database failed to the end.
pub async fn cancel_within<S: Store>(store: &S, id: &MessageId, wait: Duration) -> Result<Cancelled> {
    let (begun, mut seen, mut doubt) = (Instant::now(), false, false);
    loop {
        let (store, asked) = (store.clone(), id.clone());
        // In a task: whoever drops us must not drop a transaction.
        let looked = run_to_completion(async move { store::cancel(&store, &asked).await }).await;
        let is_over = begun.elapsed() >= wait;
        match looked {
            Ok(Cancelled::Asked) if !is_over => seen = true,
            // It was there, and nobody has cancelled it.
            Ok(Cancelled::Unknown) if seen => return Ok(Cancelled::Done),
            Ok(Cancelled::Already) if doubt || seen => return Ok(Cancelled::Cancelled),
            Err(error) if error.is_fault::<S>() && !is_over => {
                tracing::debug!(error = %error.in_full(), "cannot tell yet whether {id} is cancelled");
                doubt = true;
            }
            looked => return looked,
        }
        tokio::time::sleep(LOOK).await;
    }
}
