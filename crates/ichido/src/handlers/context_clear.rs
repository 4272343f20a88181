//! `context clear`: removes what handlers further in have put into the context, also after an error.
//!
//! Scope: process. In: nothing. Out and on error: values, request id and user id are removed. It comes before `global error`,
//! which logs the ids. No options.

use crate::{
    Context, Handler, Next, Outcome, Store,
    handlers::{About, Scope},
};

/// Removes context variables on the way out.
#[derive(Debug, Clone, Copy, Default)]
pub struct ContextClear;

impl<S: Store> Handler<S> for ContextClear {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let result = next.run(cx).await;
        cx.clear();
        result
    }

    fn about(&self, _: Scope) -> About {
        About::new("context clear", "", "remove context variables", "the same").only(Scope::Process)
    }
}
