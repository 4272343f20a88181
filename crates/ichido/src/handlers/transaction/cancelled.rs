//! A message that an operator cancels while it runs: the action is dropped, what it wrote is rolled back, and the database is asked what holds.
//! No attempt is spent and no failure recorded; the reader releases what is left of the claim, mostly nothing.

use tokio_util::sync::CancellationToken;

use super::failed::record;
use crate::{
    Context, Error, Outcome, Store,
    action::{slot::run_to_completion, watch::Watched},
    error::Result,
    message::Mark,
    process::record::count,
    store,
};

/// Runs something, and drops it if a message of its pass is cancelled. A statement that it leaves running is not waited for.
pub(super) async fn unless_cancelled<T>(
    cancelled: &CancellationToken,
    watched: &Watched,
    run: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {
            watched.give_up();
            Err(Error::Cancelled)
        }
        result = run => result,
    }
}

/// The action was dropped: rolls back, and marks the message if the database says that it is cancelled. If it does not say so (any more), the
/// message is released. Several messages get no mark: each of them runs alone.
pub(super) async fn dropped<S: Store>(cx: &mut Context<S>) -> Result<Outcome> {
    cx.roll_back().await;
    match Box::pin(finish(cx)).await {
        Ok(true) => note(cx),
        Ok(false) => {}
        Err(error) => {
            cx.batch.window_mut().iter_mut().for_each(|delivery| delivery.mark = Some(Mark::Faulted));
            return Err(error);
        }
    }
    Err(Error::Cancelled)
}

/// The end of a transaction. A claim that is gone may be so because the message was cancelled, and then the database says so.
pub(super) async fn ended<S: Store>(cx: &mut Context<S>, committed: Result<()>) -> Result<Outcome> {
    match committed {
        Err(Error::Cancelled) => {
            note(cx);
            return Err(Error::Cancelled);
        }
        Err(Error::LostClaim) if Box::pin(finish(cx)).await.unwrap_or(false) => {
            note(cx);
            return Err(Error::Cancelled);
        }
        // It came too late, and nobody need be asked any more.
        Ok(()) if cx.cancelled.is_cancelled() => drop(Box::pin(finish(cx)).await),
        _ => {}
    }
    record(cx, committed.map(|()| Outcome::Done)).await
}

/// Is the one message of the transaction cancelled? Of several, each will be asked about alone.
pub(super) async fn finish<S: Store>(cx: &mut Context<S>) -> Result<bool> {
    let Some(copy) = cx.batch.only().map(|delivery| delivery.copy()) else { return Ok(false) };
    let (store, id) = (cx.store.clone(), copy.message.id());
    let cancelled = run_to_completion(async move { store::finish_cancel(&store, &copy).await }).await?;
    if let Some(life) = &cx.life {
        life.passes.forget_cancelled(&id);
    }
    Ok(cancelled)
}

fn note<S: Store>(cx: &mut Context<S>) {
    let Some(delivery) = cx.batch.only() else { return };
    delivery.mark = Some(Mark::Cancelled);
    tracing::info!("{} was cancelled; rolled back, no attempt spent", delivery.message.id());
    count(cx, 1, |journal| &journal.cancelled);
}
