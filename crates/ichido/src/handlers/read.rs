//! `read`: puts the next delivery into the context, and settles it on the way out by the mark that `transaction` set. It is
//! the only one that talks to the reader; while it waits, no transaction is open.
//!
//! Scope: worker. In: waits for a delivery, new execution id. Out: settled. On error: a failure that has no mark is recorded, then
//! it passes. It comes after `loop` and `process stop`, and `transaction` after it. Options: `[process] poll` = 1s, `read_ahead`.

use tracing::Instrument;

use super::record::{caught, record};
use crate::{About, Context, Handler, Next, Outcome, Result, Scope, Store, Turn, slot::undisturbed};

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
        let span = tracing::info_span!(
            "message",
            id = %delivery.message.id(),
            process_id = delivery.owner().map(tracing::field::display),
            request_id = cx.request_id(),
            user_id = cx.user_id(),
            execution = cx.execution,
        );
        let (queue, begun) = (delivery.message.queue.clone(), cx.clock.now());
        cx.delivery = Some(delivery);
        let result = run(cx, next).instrument(span).await;
        if let Some(life) = &cx.life {
            life.took(&queue, cx.clock.now() - begun);
        }
        // A pass that was dropped further in leaves its transaction here, and settling would wait for it.
        cx.roll_back().await;
        if let Some(delivery) = cx.delivery.take() {
            reader.settle(delivery).await?;
        }
        result
    }

    fn about(&self, _: Scope) -> About {
        About::new("read", "next message, new execution id", "settle it", "log the message, rethrow")
            .only(Scope::Worker)
            .once()
            .after(Scope::Worker, "loop", "a worker would read one message and never another")
            .after_any(Scope::Worker, "process stop", "a message would be taken only to be given back")
    }
}

/// Runs the rest for the delivery in hand. What failed further out than `transaction` has no mark yet and is recorded here.
async fn run<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    let suspect = cx.delivery()?.is_suspect();
    if suspect {
        mark(cx, true).await?;
    }
    let result = caught(next.run(cx)).await;
    cx.roll_back().await;
    if suspect && let Err(error) = mark(cx, false).await {
        tracing::warn!(%error, "the mark of a suspect stays; a death now would count as its own");
    }
    let unmarked = cx.delivery.as_ref().is_some_and(|delivery| delivery.mark.is_none());
    if unmarked && !matches!(result, Ok(Outcome::Done)) { record(cx, result).await } else { result }
}

/// A suspect runs after a durable mark, so that its attempt is spent if the process dies.
async fn mark<S: Store>(cx: &mut Context<S>, begins: bool) -> Result<()> {
    let delivery = cx.delivery()?;
    let (store, id, Some(owner)) = (cx.store.clone(), delivery.message.id(), delivery.owner()) else { return Ok(()) };
    undisturbed(async move { store.mark_running(owner, begins.then_some(&id)).await }).await
}
