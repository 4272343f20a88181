//! What an action may do besides its work: when its workers start and end, and when a message's transaction commits or fails.
//! Both kinds of action have the same callbacks; the handlers `concurrency` and `transaction` call them.

use tracing::Instrument;

use crate::{
    ActionError, Context, Error, Outcome, Store,
    action::{batch::OnlyOne, slot::run_to_completion, watch::watch},
    error::Result,
    observe::span::message_span,
    process::record::caught,
    store::{self, Failure},
};

/// Which callback is called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callback<'a> {
    Initialize,
    TransactionSuccess,
    TransactionFailure(&'a Error, &'a Failure),
    Error(&'a Error),
    Terminate(&'a crate::Result<Outcome>),
}

/// The callbacks, for both kinds of action.
macro_rules! callbacks {
    () => {
        /// Runs before the workers start, in a transaction of its own that is committed before they do; again each time the
        /// process's `retry` handler starts them anew. If it fails, what it wrote is rolled back and no worker starts.
        fn initialize(&self, cx: &mut Context<S>) -> impl Future<Output = Result<()>> + Send {
            let _ = cx;
            async { Ok(()) }
        }

        /// Runs after a message is done, in its transaction, before the commit. If it fails, the message has failed.
        fn transaction_success(&self, cx: &mut Context<S>) -> impl Future<Output = Result<()>> + Send {
            let _ = cx;
            async { Ok(()) }
        }

        /// Runs after a message has failed and what it wrote is rolled back, in the transaction that records the failure: what
        /// this writes is there exactly once for each failure that is recorded. (Where the pool says `commit_on`, that is the
        /// action's own transaction.) It does not run when the claim was lost or the database failed, for then the message runs
        /// again as if nothing had been. If it fails itself, what it wrote is rolled back, and the failure is recorded with both
        /// errors, the message's own first.
        ///
        /// `error` is what went wrong; a reason to retry or to park is an error here, too. `failure` is what becomes of the
        /// message, with the text that operators read.
        fn transaction_failure(
            &self,
            cx: &mut Context<S>,
            error: &Error,
            failure: &Failure,
        ) -> impl Future<Output = Result<()>> + Send {
            let _ = (cx, error, failure);
            async { Ok(()) }
        }

        /// Runs after the workers have ended with an error, in a transaction of its own. If it fails, that is logged, and the
        /// workers' error passes on.
        fn error(&self, cx: &mut Context<S>, error: &Error) -> impl Future<Output = Result<()>> + Send {
            let _ = (cx, error);
            async { Ok(()) }
        }

        /// Runs after the workers have ended, however they did, in a transaction of its own; not if
        /// [`initialize`](Self::initialize) failed. If it fails, the process ends with that error, unless the workers had one.
        fn terminate(&self, cx: &mut Context<S>, ended: &Result<Outcome>) -> impl Future<Output = Result<()>> + Send {
            let _ = (cx, ended);
            async { Ok(()) }
        }
    };
}

/// Calls the one that is meant.
macro_rules! call_back {
    ($action:expr, $cx:expr, $callback:expr) => {
        Box::pin(async move {
            let told = match $callback {
                Callback::Initialize => $action.initialize($cx).await,
                Callback::TransactionSuccess => $action.transaction_success($cx).await,
                Callback::TransactionFailure(error, failure) => $action.transaction_failure($cx, error, failure).await,
                Callback::Error(error) => $action.error($cx, error).await,
                Callback::Terminate(ended) => $action.terminate($cx, ended).await,
            };
            Ok(told?)
        })
    };
}

pub(crate) use {call_back, callbacks};

/// Before the workers start.
pub(crate) async fn initialize<S: Store>(cx: &mut Context<S>) -> Result<()> {
    apart(cx, Callback::Initialize).await
}

/// After they have ended. A callback that fails never hides why they did.
pub(crate) async fn ended<S: Store>(cx: &mut Context<S>, result: Result<Outcome>) -> Result<Outcome> {
    if let Err(error) = &result
        && let Err(second) = apart(cx, Callback::Error(error)).await
    {
        tracing::warn!("the callback `error` failed too: {second:#}");
    }
    let result = result.map_err(ActionError);
    match (apart(cx, Callback::Terminate(&result)).await, &result) {
        (Err(error), Ok(Outcome::Done | Outcome::Stop)) => return Err(error),
        (Err(second), _) => tracing::warn!("the callback `terminate` failed too: {second:#}"),
        (Ok(()), _) => {}
    }
    Ok(result?)
}

/// After the messages in hand are done, each of them or all together, as the action takes them.
pub(crate) async fn succeeded<S: Store>(cx: &mut Context<S>) -> Result<()> {
    let work = cx.work()?;
    if !cx.one_by_one() {
        return work.call_back(cx, Callback::TransactionSuccess).await;
    }
    for place in 0..cx.deliveries().len() {
        let only = OnlyOne::of(cx, place);
        let span = message_span(only.0)?;
        work.call_back(&mut *only.0, Callback::TransactionSuccess).instrument(span).await?;
    }
    Ok(())
}

/// Before the failure of the message in hand is recorded.
pub(crate) async fn failed<S: Store>(cx: &mut Context<S>, result: &Result<Outcome>, failure: &Failure) -> Result<()> {
    let work = cx.work()?;
    let said;
    let error = if let Err(error) = result {
        error
    } else {
        said = Error::Failed(failure.error.clone().into());
        &said
    };
    let (store, watched) = (cx.store.clone(), cx.watched.clone());
    let told = caught(Box::pin(work.call_back(cx, Callback::TransactionFailure(error, failure))));
    watch(&store, &watched, told).await
}

/// Calls the action back in a transaction of its own, in process scope.
async fn apart<S: Store>(cx: &mut Context<S>, callback: Callback<'_>) -> Result<()> {
    let work = cx.work()?;
    let (store, watched) = (cx.store.clone(), cx.watched.clone());
    match watch(&store, &watched, caught(work.action.call_back(cx, callback))).await {
        Ok(()) => commit_open(cx).await,
        Err(error) => {
            cx.roll_back().await;
            Err(error)
        }
    }
}

/// Commits what is open in process scope, if it is still the transaction that was begun.
pub(crate) async fn commit_open<S: Store>(cx: &mut Context<S>) -> Result<()> {
    let Some(mut tx) = cx.slot.take().await else { return Ok(()) };
    cx.watched.note(None);
    let store = cx.store.clone();
    let committed = run_to_completion(async move {
        match store::complete(&store, &mut tx, &[]).await {
            Ok(()) => store::commit(&store, tx).await,
            Err(error) => store::rollback(&store, tx).await.and(Err(error)),
        }
    });
    committed.await?;
    cx.wake();
    Ok(())
}
