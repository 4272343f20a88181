//! When an action's callbacks run, and in which transaction: `concurrency` calls those around the workers, `transaction` those
//! around a message.

use tracing::Instrument;

use super::{each::Turn, record::caught, span::message_span};
use crate::{Context, Error, Failed, Failure, Outcome, Result, Store, callbacks::Callback, slot::undisturbed};

/// Before the workers start.
pub(super) async fn initialize<S: Store>(cx: &mut Context<S>) -> Result<()> {
    apart(cx, Callback::Initialize).await
}

/// After they have ended. A callback that fails never hides why they did.
pub(super) async fn ended<S: Store>(cx: &mut Context<S>, result: Result<Outcome>) -> Result<Outcome> {
    if let Err(error) = &result
        && let Err(second) = apart(cx, Callback::Error(error)).await
    {
        tracing::warn!("the callback `error` failed, too: {second}");
    }
    match (apart(cx, Callback::Terminate(&result)).await, result) {
        (Err(error), Ok(Outcome::Done | Outcome::Stop)) => Err(error),
        (Err(second), result) => {
            tracing::warn!("the callback `terminate` failed, too: {second}");
            result
        }
        (Ok(()), result) => result,
    }
}

/// After the messages in hand are done, each of them or all together, as the action takes them.
pub(super) async fn succeeded<S: Store>(cx: &mut Context<S>) -> Result<()> {
    let work = cx.work()?;
    if !cx.one_by_one() {
        return work.call_back(cx, Callback::TransactionSuccess).await;
    }
    for place in 0..cx.deliveries().len() {
        let turn = Turn::to(cx, place);
        let span = message_span(turn.0)?;
        work.call_back(&mut *turn.0, Callback::TransactionSuccess).instrument(span).await?;
    }
    Ok(())
}

/// Before the failure of the message in hand is recorded.
pub(super) async fn failed<S: Store>(cx: &mut Context<S>, result: &Result<Outcome>, failure: &Failure) -> Result<()> {
    let work = cx.work()?;
    let said;
    let error = if let Err(error) = result {
        error
    } else {
        said = Error::Failed(failure.error.clone().into());
        &said
    };
    let failed = Failed { error, retry_after: failure.retry_after };
    caught(Box::pin(work.call_back(cx, Callback::TransactionFailure(failed)))).await
}

/// Calls the action back in a transaction of its own, in process scope.
async fn apart<S: Store>(cx: &mut Context<S>, callback: Callback<'_>) -> Result<()> {
    let work = cx.work()?;
    match caught(work.action.call_back(cx, callback)).await {
        Ok(()) => commit_open(cx).await,
        Err(error) => {
            cx.roll_back().await;
            Err(error)
        }
    }
}

/// Commits what is open in process scope, if it is still the transaction that was begun.
pub(super) async fn commit_open<S: Store>(cx: &mut Context<S>) -> Result<()> {
    let Some(mut tx) = cx.slot.take().await else { return Ok(()) };
    let store = cx.store.clone();
    let committed = undisturbed(async move {
        match store.complete(&mut tx, &[]).await {
            Ok(()) => store.commit(tx).await,
            Err(error) => store.rollback(tx).await.and(Err(error)),
        }
    });
    committed.await?;
    cx.ring();
    Ok(())
}
