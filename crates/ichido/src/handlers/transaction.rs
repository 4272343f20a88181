//! `transaction`: the only handler that commits business work. In a worker it runs the rest, completes the message in the
//! same transaction and commits; or rolls back and records the failure in a transaction of its own. In process scope it
//! lends a transaction to the handlers between it and the workers. Here are the steps in their order; `commit` has the end of a
//! transaction, `failed` what becomes of a failure.
//!
//! Scope: both. In: begins at first use. Out: completion and commit; in process scope the commit, before the workers start. On error:
//! roll back; in a worker the failure is recorded in its own transaction. It comes after `connection` of its scope, in a worker
//! also after `read`. Options: those of the action.

mod cancelled;
mod commit;
mod failed;

use self::{
    cancelled::{dropped, ended, unless_cancelled},
    commit::complete_and_commit,
    failed::{record, record_failed_run},
};
use crate::{
    Context, Delivery, Error, Handler, Next, Outcome, Store,
    action::{
        callbacks::{self, commit_open},
        watch::watch,
    },
    broker::Found,
    error::Result,
    handlers::{About, Scope},
    message::Mark,
    process::record::caught,
};

/// Completes and commits, or rolls back and records.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transaction;

impl<S: Store> Handler<S> for Transaction {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        Ok(if cx.in_worker { around_messages(cx, next).await? } else { around_workers(cx, next).await? })
    }

    fn about(&self, scope: Scope) -> About {
        match scope {
            Scope::Process => About::new(
                "transaction",
                "starts at first use; committed before the workers start",
                "commit",
                "roll back",
            )
            .once()
            .after(Scope::Process, "connection", "it would have no connection"),
            Scope::Worker => About::new(
                "transaction",
                "starts at first use",
                "complete, commit",
                "roll back, record the failure in a separate transaction",
            )
            .once()
            .after(Scope::Worker, "connection", "it would have no connection")
            .after(Scope::Worker, "read", "there would be no message to complete"),
        }
    }
}

/// Worker scope, in five steps: begin, run, complete, commit, record. Completion and COMMIT are one call, for they are one task that
/// nobody can drop half-way.
async fn around_messages<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    match begin(cx).await {
        Ok(true) => {}
        Ok(false) => return Ok(Outcome::Done), // its mark says why it did not run
        Err(error) => return Box::pin(record(cx, Err(error))).await,
    }
    let (store, watched, cancel) = (cx.store.clone(), cx.watched.clone(), cx.cancelled.clone());
    let ran = watch(&store, &watched, caught(Box::pin(run(cx, next))));
    match unless_cancelled(&cancel, &watched, ran).await {
        Ok(Outcome::Done) => {
            let committed = Box::pin(complete_and_commit(cx, None)).await;
            Box::pin(ended(cx, committed)).await
        }
        Err(Error::Cancelled) => Box::pin(dropped(cx)).await,
        not_done => Box::pin(record_failed_run(cx, not_done)).await,
    }
}

/// Process scope: what is open on the way out is committed, or rolled back after an error.
async fn around_workers<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    let result = next.pass(cx).await;
    match &result {
        Ok(_) => commit_open(cx).await?,
        Err(_) => cx.roll_back().await,
    }
    result
}

/// Locks the rows of what a broker handed out, before anything else happens in the transaction; anything else begins at first use.
/// What is not to be had is marked, and nothing runs: false, or an error for several, which are tried again one by one then.
async fn begin<S: Store>(cx: &mut Context<S>) -> Result<bool> {
    cx.roll_back().await; // left over when a handler further out dropped us
    let locked = |delivery: &Delivery| delivery.claim.as_ref().is_some_and(|claim| claim.locked);
    let hands: Vec<_> = cx.batch.window().iter().enumerate().filter(|(_, delivery)| locked(delivery)).collect();
    let copies: Vec<_> = hands.into_iter().map(|(at, delivery)| (at, delivery.copy())).collect();
    for (at, copy) in copies {
        // In a box, for what no broker handed out has no use for it.
        let found = Box::pin(cx.lock(copy)).await?;
        match (&mut cx.batch.window_mut()[at], found) {
            (delivery, Found::Free(standing)) if !standing.suspect => delivery.stand(standing),
            (delivery, found) => {
                delivery.mark = Some(Mark::Guarded(found));
                cx.roll_back().await; // the transaction may be broken by the lock that was not to be had
                let alone = cx.batch.window().len() == 1;
                return if alone { Ok(false) } else { Err(Error::LostClaim) };
            }
        }
    }
    Ok(true)
}

/// Runs the rest; if it is done, the action may still object.
async fn run<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    let outcome = next.run(cx).await?;
    if matches!(outcome, Outcome::Done) {
        callbacks::succeeded(cx).await?;
    }
    Ok(outcome)
}
