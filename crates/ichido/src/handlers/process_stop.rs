//! `process stop`: before each message, looks whether the process is asked to stop.
//!
//! Scope: worker. In: asked to stop: ends the loop. Out and on error: nothing. It comes after `loop` and before `read`. No options.

use crate::{About, Context, Handler, Next, Outcome, Result, Scope, Store};

/// Ends the loop when the process is asked to stop.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessStop;

impl<S: Store> Handler<S> for ProcessStop {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        if cx.stopping() {
            return Ok(Outcome::Stop);
        }
        next.run(cx).await
    }

    fn about(&self, _: Scope) -> About {
        About::new("process stop", "asked to stop: stop", "", "").only(Scope::Worker).after(
            Scope::Worker,
            "loop",
            "it would look once and never again",
        )
    }
}
