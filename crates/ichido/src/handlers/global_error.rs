//! `global error`: what nobody further in has handled is logged, once for the monitor and once for analysis, and turned into a
//! status.
//!
//! Scope: process. In and out: nothing. On error: logged, then [`Error::Ended`] becomes its status, [`Error::Setup`] 127 and
//! everything else 500. It comes after `status code`, which makes an exit code of it. No options.

use crate::{
    Context, Error, Handler, Next, Outcome, Store,
    handlers::{About, Scope},
    observe::journal::Journal,
};

/// Logs an error and turns it into a status.
#[derive(Debug, Clone, Copy, Default)]
pub struct GlobalError;

/// A bad command line, configuration or schema.
pub(crate) const SETUP: i32 = 127;

impl<S: Store> Handler<S> for GlobalError {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let error = match next.pass(cx).await {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        let status = match &error {
            Error::Ended { status, .. } => *status,
            Error::Setup(_) => SETUP,
            _ => 500,
        };
        Journal::process_failure(cx, &error, status);
        Ok(Outcome::Ended(status))
    }

    fn about(&self, _: Scope) -> About {
        About::new("global error", "", "", "log, turn into a status")
            .only(Scope::Process)
            .once()
            .after(Scope::Process, "status code", "the status would not become an exit code")
            .after_any(Scope::Process, "context clear", "it would log after the ids are removed")
    }
}
