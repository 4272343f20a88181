//! `each`: runs the rest once for each message of the transaction. The action at the end of the queue is run like that
//! anyway; put it before handlers of your own that are to see every message inside the transaction that they share.

use tracing::Instrument;

use super::span::message_span;
use crate::{About, Context, Handler, Next, Outcome, Result, Scope, Store};

/// Runs the rest for each message of the transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Each;

impl<S: Store> Handler<S> for Each {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        if cx.work()?.action.takes_many() {
            return next.run(cx).await;
        }
        let count = cx.deliveries().len();
        for place in 0..count {
            let turn = Turn::to(cx, place);
            if count > 1 {
                turn.0.next_execution();
            }
            let span = message_span(turn.0)?;
            match next.run(&mut *turn.0).instrument(span).await {
                Ok(Outcome::Done) => {}
                other => return other,
            }
        }
        Ok(Outcome::Done)
    }

    fn about(&self, _: Scope) -> About {
        About::new("each", "one message of the transaction", "the next one", "leave the others out")
    }
}

/// The turn of one message. Whoever drops us, the next pass is about all of them again: none may be completed that did not run.
pub(super) struct Turn<'a, S: Store>(pub(super) &'a mut Context<S>);

impl<'a, S: Store> Turn<'a, S> {
    pub(super) fn to(cx: &'a mut Context<S>, place: usize) -> Self {
        cx.batch.turn_to(Some(place));
        Turn(cx)
    }
}

impl<S: Store> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        self.0.batch.turn_to(None);
    }
}
