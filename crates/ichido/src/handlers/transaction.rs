//! `transaction`: the only handler that commits business work. In a worker it runs the rest, completes the message in the
//! same transaction and commits; or rolls back and records the failure in a transaction of its own. In process scope it
//! lends a transaction to the handlers between it and the workers.
//!
//! Scope: both. In: begins at first use. Out: completion and commit; in process scope the commit, before the workers start. On error:
//! roll back; in a worker the failure is recorded in its own transaction. It comes after `connection` of its scope, in a worker
//! also after `read`. Options: those of the action.

use super::record::{caught, record};
use crate::{About, Context, Delivery, Error, Handler, Mark, Next, Outcome, Result, Scope, Store, slot::undisturbed};

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
            Ok(Outcome::Done) => finish(cx).await,
            other => {
                cx.roll_back().await;
                other
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

/// Completes the message and commits; whoever drops us, it comes to an end.
async fn finish<S: Store>(cx: &mut Context<S>) -> Result<Outcome> {
    cx.tx().await?; // completion needs a transaction even if the action did not
    let (Some(tx), Some(delivery)) = (cx.slot.take().await, cx.delivery.as_mut()) else {
        return Err(Error::Setup("the handler `read` must come before `transaction`".into()));
    };
    let (store, copy) = (cx.store.clone(), delivery.copy());
    match undisturbed(async move { Ok(end(&store, tx, copy).await) }).await? {
        Ending::Committed => {
            cx.ring();
            Ok(Outcome::Done)
        }
        Ending::RolledBack(error) => Err(error),
        Ending::Unknown(error) => {
            delivery.mark = Some(Mark::Unknown);
            Err(error)
        }
    }
}

async fn end<S: Store>(store: &S, mut tx: S::Tx, delivery: Delivery) -> Ending {
    let claimed = delivery.claim.is_some();
    let deliveries = [delivery];
    // Without a claim there is nothing to complete, but the transaction must still prove that it is the one we began.
    if let Err(error) = store.complete(&mut tx, &deliveries).await {
        if let Err(error) = store.rollback(tx).await {
            tracing::debug!(%error, "rollback failed");
        }
        return Ending::RolledBack(error);
    }
    let Err(error) = store.commit(tx).await else { return Ending::Committed };
    if !claimed {
        return Ending::Unknown(error);
    }
    // The row tells: whoever still has its claim has not committed. Nothing is written on a guess.
    match store.is_claimed(&deliveries[0]).await {
        Ok(true) => Ending::RolledBack(error),
        Ok(false) => Ending::Committed,
        Err(probe) => {
            tracing::warn!(error = %probe, "nobody can tell yet whether {} is done", deliveries[0].message.id());
            Ending::Unknown(error)
        }
    }
}
