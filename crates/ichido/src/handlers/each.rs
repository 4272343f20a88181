//! `each`: runs the rest once for each message of the transaction. The action at the end of the queue is run like that
//! anyway; put it before handlers of your own that are to see every message inside the transaction that they share.

use tracing::{Instrument, Span};

use crate::{
    Context, Handler, Next, Outcome, Store,
    action::batch::OnlyOne,
    handlers::{About, Scope},
    observe::span::message_span,
    trace,
};

/// Runs the rest for each message of the transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Each;

impl<S: Store> Handler<S> for Each {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        if cx.work()?.action.takes_many() {
            return next.run(cx).await;
        }
        let count = cx.deliveries().len();
        for place in 0..count {
            let only = OnlyOne::of(cx, place);
            if count > 1 {
                only.0.next_execution();
            }
            // One alone is in its span already.
            let span = if count > 1 { message_span(only.0)? } else { Span::current() };
            match next.run(&mut *only.0).instrument(span.clone()).await {
                Ok(Outcome::Done) => {}
                other => {
                    trace::fail(&span, other.is_err().then_some("error").filter(|_| count > 1));
                    return other;
                }
            }
        }
        Ok(Outcome::Done)
    }

    fn about(&self, _: Scope) -> About {
        About::new("each", "run one message of the transaction", "next message", "skip the others")
    }
}
