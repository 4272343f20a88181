//! `context`: who asked for what, from the command line, for the log and for actions.
//!
//! Scope: process. In: request id (the action's name if none was given) and user id are put into the context. Out and on error:
//! nothing. It comes before `dispatch`, which registers the process under the request id. No options.

use crate::{About, Context, Handler, Next, Outcome, Result, Scope, Store};

/// Puts request id and user id into the context.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetContext;

impl<S: Store> Handler<S> for SetContext {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let request = cx.request.clone();
        let request_id = request.request_id.as_ref().or(request.action.as_ref());
        cx.identity.request_id = request_id.map_or("", String::as_str).into();
        cx.identity.user_id = request.user_id.as_deref().unwrap_or_default().into();
        next.run(cx).await
    }

    fn about(&self, _: Scope) -> About {
        About::new("context", "request id, user id, … from the command line", "", "").only(Scope::Process)
    }
}
