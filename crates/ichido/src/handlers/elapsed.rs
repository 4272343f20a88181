//! `elapsed`: logs how long the rest has taken. Scope: both; in worker scope after `read` it is the time of one message, in
//! process scope that of the whole run. It needs nothing before it.
//!
//! Option `least_ms` = 0: what took less milliseconds is not logged.

use std::time::Duration;

use crate::{
    Context, Handler, Next, Outcome, Store,
    error::Result,
    handlers::{About, Options, Scope},
};

/// Logs how long the rest has taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct Elapsed {
    /// Anything faster is not logged.
    pub least: Duration,
}

impl Elapsed {
    pub(crate) fn from_options(options: &mut Options) -> Result<Self> {
        let least = options.whole("least_ms", 0..=86_400_000, Some(0))?;
        Ok(Elapsed { least: Duration::from_millis(least) })
    }
}

impl<S: Store> Handler<S> for Elapsed {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let begun = cx.clock.now();
        let result = next.run(cx).await;
        let elapsed = cx.clock.now() - begun;
        if elapsed >= self.least {
            tracing::info!(request_id = cx.request_id(), ?elapsed, "elapsed");
        }
        result
    }

    fn about(&self, _: Scope) -> About {
        About::new("elapsed", "", "log the elapsed time", "the same")
    }
}
