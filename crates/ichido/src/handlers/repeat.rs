//! `loop`: runs the rest again and again, one message a time, until there is nothing more to do. What one message does
//! never ends it; only a stop, an abort, or a database that does not answer.
//!
//! Scope: worker. In: nothing. Out: again. On error: what is recorded about a message, and a lost claim: next; a database fault: next
//! after a short pause, or the retry handler's if the database does not answer; all else passes. `process stop` and `read` come
//! after it. No options.

use std::time::Duration;

use crate::{
    Context, Error, Handler, Next, Outcome, Store,
    error::Result,
    handlers::{About, Scope},
    store,
};

/// The bound of the first pause after a fault, and that of the later ones.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Runs the rest again and again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Loop;

impl<S: Store> Handler<S> for Loop {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let mut faults = 0;
        loop {
            let before = cx.execution;
            match next.pass(cx).await {
                Ok(end @ (Outcome::Stop | Outcome::Abort(_) | Outcome::Ended(_))) => return Ok(end),
                // Nothing was read: this is the reader's or a handler's failure, and running it again would only spin.
                Err(error) if cx.execution == before => return Err(error.into()),
                Err(fault) if fault.is_fault::<S>() => {
                    faults += 1;
                    pass_over(cx, fault, faults).await?;
                }
                Err(error @ (Error::Setup(_) | Error::Ended { .. })) => return Err(error.into()),
                _ => faults = 0, // done, or recorded and told
            }
        }
    }

    fn about(&self, _: Scope) -> About {
        About::new("loop", "", "next message", "depends on the error").only(Scope::Worker).once()
    }
}

/// A deadlock or one lost connection is over at once; a full disk takes longer, and so do the pauses. A database that does
/// not answer is the retry handler's.
async fn pass_over<S: Store>(cx: &mut Context<S>, fault: Error, faults: u32) -> Result<()> {
    if store::ping(&cx.store).await.is_err() {
        return Err(fault);
    }
    tracing::warn!(request_id = cx.request_id(), "database fault, no attempt spent: {fault:#}");
    let bound = FIRST_PAUSE.saturating_mul(1 << faults.min(16)).min(LONGEST_PAUSE);
    let (stop, pause) = (cx.stop.clone(), cx.clock.sleep(bound.mul_f64(fastrand::f64())));
    tokio::select! {
        () = stop.cancelled() => {}
        () = pause => {}
    }
    Ok(())
}
