//! `transaction`: the only handler that commits business work. In a worker it runs the rest, completes the message in the
//! same transaction and commits; or rolls back and records the failure in a transaction of its own. In process scope it
//! lends a transaction to the handlers between it and the workers.
//!
//! Scope: both. In: begins at first use. Out: completion and commit; in process scope the commit, before the workers start. On error:
//! roll back; in a worker the failure is recorded in its own transaction. It comes after `connection` of its scope, in a worker
//! also after `read`. Options: those of the action.

use super::record::{caught, committed_failure, record, recorded};
use crate::{
    About, Context, Delivery, Error, Failure, Handler, Mark, Next, Outcome, Result, Scope, Store, slot::undisturbed,
};

/// Completes and commits, or rolls back and records.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transaction;

impl<S: Store> Handler<S> for Transaction {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        if !cx.in_worker {
            return around_workers(cx, next).await;
        }
        cx.roll_back().await; // left over when a handler further out dropped us
        let result = match caught(next.run(cx)).await {
            Ok(Outcome::Done) => finish(cx, None).await.map(|()| Outcome::Done),
            other => {
                if let Some(failure) = committed_failure(cx, &other) {
                    fail(cx, failure, other).await
                } else {
                    cx.roll_back().await;
                    other
                }
            }
        };
        record(cx, result).await
    }

    fn about(&self, scope: Scope) -> About {
        match scope {
            Scope::Process => About::new(
                "transaction",
                "begins at first use, committed before the workers start",
                "commit what is open",
                "roll back",
            )
            .once()
            .after(Scope::Process, "connection", "it has no right to a connection"),
            Scope::Worker => About::new(
                "transaction",
                "begins at first use",
                "completion, commit",
                "roll back, record the failure in its own transaction",
            )
            .once()
            .after(Scope::Worker, "connection", "it has no right to a connection")
            .after(Scope::Worker, "read", "there is no message to complete"),
        }
    }
}

/// Process scope: what is open on the way out is committed, or rolled back after an error.
async fn around_workers<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    let result = next.run(cx).await;
    match (&result, cx.slot.take().await) {
        (Ok(_), Some(tx)) => {
            let store = cx.store.clone();
            undisturbed(async move { store.commit(tx).await }).await?;
            cx.ring();
        }
        (Err(_), Some(tx)) => {
            let store = cx.store.clone();
            undisturbed(async move { store.rollback(tx).await }).await?;
        }
        (_, None) => {}
    }
    result
}

/// How a business transaction ended.
enum Ending {
    Committed,
    RolledBack(Error),
    Unknown(Error),
}

/// Commits what the action has written together with its failure. What cannot be committed, because the error was the
/// database's and broke the transaction, is rolled back and recorded like any other failure.
async fn fail<S: Store>(cx: &mut Context<S>, failure: Failure, result: Result<Outcome>) -> Result<Outcome> {
    match finish(cx, Some(failure.clone())).await {
        Ok(()) => recorded(cx, &failure, &result),
        Err(Error::BrokenTransaction(_)) if result.is_err() => {}
        Err(error) => return Err(error),
    }
    result
}

/// Completes the messages, or records the failure of one, and commits; whoever drops us, it comes to an end.
async fn finish<S: Store>(cx: &mut Context<S>, failure: Option<Failure>) -> Result<()> {
    cx.tx().await?; // completion needs a transaction even if the action did not
    let copies: Vec<_> = cx.batch.window().iter().map(Delivery::copy).collect();
    let Some(tx) = cx.slot.take().await.filter(|_| !copies.is_empty()) else {
        return Err(Error::Setup("the handler `read` must come before `transaction`".into()));
    };
    let store = cx.store.clone();
    match undisturbed(async move { Ok(end(&store, tx, copies, failure).await) }).await? {
        Ending::Committed => {
            cx.ring();
            Ok(())
        }
        Ending::RolledBack(error) => Err(error),
        Ending::Unknown(error) => {
            cx.batch.window_mut().iter_mut().for_each(|delivery| delivery.mark = Some(Mark::Unknown));
            Err(error)
        }
    }
}

async fn end<S: Store>(store: &S, mut tx: S::Tx, deliveries: Vec<Delivery>, failure: Option<Failure>) -> Ending {
    // Without a claim there is nothing to complete, but the transaction must still prove that it is the one we began.
    let passed = match &failure {
        None => store.complete(&mut tx, &deliveries).await,
        Some(failure) => store.fail(&mut tx, &deliveries[0], failure).await,
    };
    if let Err(error) = passed {
        if let Err(error) = store.rollback(tx).await {
            tracing::debug!(%error, "rollback failed");
        }
        return Ending::RolledBack(error);
    }
    let Err(error) = store.commit(tx).await else { return Ending::Committed };
    look(store, &deliveries, error).await
}

/// The rows tell: whoever still has one claim of a transaction has not committed it. Nothing is written on a guess.
async fn look<S: Store>(store: &S, deliveries: &[Delivery], error: Error) -> Ending {
    if deliveries.iter().any(|delivery| delivery.claim.is_none()) {
        return Ending::Unknown(error);
    }
    for delivery in deliveries {
        match store.is_claimed(delivery).await {
            Ok(true) => return Ending::RolledBack(error),
            Ok(false) => {}
            Err(probe) => {
                tracing::warn!(error = %probe, "nobody can tell yet whether {} is done", delivery.message.id());
                return Ending::Unknown(error);
            }
        }
    }
    Ending::Committed
}
