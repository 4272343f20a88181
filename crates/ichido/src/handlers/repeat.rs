//! `loop`: runs the rest again and again, one message a time, until there is nothing more to do. What one message does
//! never ends it; only a stop, an abort, or a database that does not answer.

use std::time::Duration;

use crate::{About, Context, Error, Handler, Next, Outcome, Result, Scope, Store};

/// Runs the rest again and again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Loop;

impl<S: Store> Handler<S> for Loop {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        loop {
            let before = cx.execution;
            match next.run(cx).await {
                Ok(end @ (Outcome::Stop | Outcome::Abort(_) | Outcome::Ended(_))) => return Ok(end),
                Ok(_) => {}
                Err(fault) if fault.is_fault::<S>() => pass_over(cx, fault).await?,
                Err(error @ (Error::Setup(_) | Error::Ended { .. })) => return Err(error),
                // Nothing was read, so this is not a message's failure: running it again would only spin.
                Err(error) if cx.execution == before => return Err(error),
                Err(error) => tracing::debug!(%error, "next"),
            }
        }
    }

    fn about(&self, _: Scope) -> About {
        About::new("loop", "", "again", "by kind")
    }
}

/// A deadlock or one lost connection is over at once; a database that does not answer is the retry handler's.
async fn pass_over<S: Store>(cx: &mut Context<S>, fault: Error) -> Result<()> {
    if cx.store.ping().await.is_err() {
        return Err(fault);
    }
    tracing::warn!(request_id = cx.request_id(), "database fault, no attempt spent: {fault}");
    cx.clock.sleep(Duration::from_millis(fastrand::u64(1..50))).await;
    Ok(())
}
