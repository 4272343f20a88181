//! `availability`: while its request id is paused (`ichido pause`), a worker idles and then looks again. `process stop` does
//! the same, so it is only for handler queues that leave that one out.
//!
//! In a worker, inside `loop` and before `read`: a worker that idles has no message in hand. On the way out and on an error it
//! does nothing. It has no options; flags are read once per `check` by the process, not here.

use crate::{
    Context, Handler, Next, Outcome, Store,
    error::Result,
    handlers::{About, Scope},
};

/// Waits while its request id is paused.
#[derive(Debug, Clone, Copy, Default)]
pub struct Availability;

impl<S: Store> Handler<S> for Availability {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        if idled(cx).await? {
            return Ok(Outcome::Done);
        }
        next.run(cx).await
    }

    fn about(&self, _: Scope) -> About {
        About::new("availability", "paused: wait, check again", "", "").in_loop("it would check only once")
    }
}

/// Idles while the request id is paused; true if it was, and `loop` is to begin anew.
pub(super) async fn idled<S: Store>(cx: &mut Context<S>) -> Result<bool> {
    let work = cx.work()?;
    let paused = work.following.is_paused();
    if paused {
        work.following.resumed().await;
    }
    Ok(paused)
}
