//! `read`: puts the next delivery into the context, and settles it on the way out by the mark that `transaction` set. It is
//! the only one that talks to the reader; while it waits, no transaction is open.

use tracing::Instrument;

use crate::{About, Context, Delivery, Handler, Next, Outcome, Result, Scope, Store, Turn, slot::undisturbed};

/// Reads one delivery and settles it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Read;

impl<S: Store> Handler<S> for Read {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let reader = cx.work()?.reader.clone();
        let delivery = loop {
            match reader.try_next()? {
                Turn::Delivery(delivery) => break *delivery,
                Turn::Finished => return Ok(Outcome::Stop),
                Turn::Empty => {}
            }
            tokio::select! {
                () = cx.stop.cancelled() => return Ok(Outcome::Stop),
                () = reader.changed() => {}
            }
        };
        cx.execution = cx.life.as_ref().map_or(cx.execution + 1, |life| life.next_execution());
        let span = tracing::info_span!("message", id = %delivery.message.id(), execution = cx.execution);
        let suspect = delivery.is_suspect();
        let result = run(cx, delivery, suspect, next).instrument(span).await;
        // A pass that was dropped further in leaves its transaction here, and settling would wait for it.
        cx.roll_back().await;
        if let Some(delivery) = cx.delivery.take() {
            reader.settle(delivery).await?;
        }
        result
    }

    fn about(&self, _: Scope) -> About {
        About::new("read", "next message, new execution id", "settle it", "log the message, rethrow")
    }
}

/// A suspect runs after a durable mark, so that its attempt is spent if the process dies.
async fn run<S: Store>(cx: &mut Context<S>, delivery: Delivery, suspect: bool, next: Next<'_, S>) -> Result<Outcome> {
    let id = delivery.message.id();
    cx.delivery = Some(delivery);
    if !suspect {
        return next.run(cx).await;
    }
    mark(cx, Some(id)).await?;
    let result = next.run(cx).await;
    cx.roll_back().await;
    mark(cx, None).await?;
    result
}

async fn mark<S: Store>(cx: &mut Context<S>, suspect: Option<crate::MessageId>) -> Result<()> {
    let (store, Some(process)) = (cx.store.clone(), cx.process_id()) else { return Ok(()) };
    undisturbed(async move { store.mark_running(process, suspect.as_ref()).await }).await
}
