//! `process stop`: before a message, looks whether the process is asked to stop, by a signal or by `ichido stop`, and idles
//! while its request id is paused.
//!
//! Scope: worker. It comes after `loop` and before `read`: nothing is in hand that would have to be released. On the way out and on an
//! error it does nothing. `check_every` (1): it looks before every so many messages of a worker. The flags themselves are
//! read from the database once per `check`, by the thread that sends the heartbeat.

use super::availability::idled;
use crate::{
    Context, Handler, Next, Outcome, Store,
    handlers::{About, Scope},
};

/// Ends the loop when the process is asked to stop, and waits while it is paused.
#[derive(Debug, Clone, Copy)]
pub struct ProcessStop {
    every: u32,
}

impl ProcessStop {
    /// Checks once per this many messages of a worker.
    #[must_use]
    pub fn every(messages: u32) -> Self {
        ProcessStop { every: messages.max(1) }
    }
}

impl Default for ProcessStop {
    fn default() -> Self {
        ProcessStop::every(1)
    }
}

impl<S: Store> Handler<S> for ProcessStop {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let looks = cx.unlooked == 0;
        cx.unlooked = (cx.unlooked + 1) % self.every;
        if looks && cx.stopping() {
            return Ok(Outcome::Stop);
        }
        if looks && idled(cx).await? {
            cx.unlooked = 0;
            return Ok(Outcome::Done);
        }
        next.run(cx).await
    }

    fn about(&self, _: Scope) -> About {
        About::new("process stop", "stop requested: stop; paused: wait, check again", "", "")
            .in_loop("it would check only once")
    }
}
