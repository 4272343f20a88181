//! `transaction`: the only handler that commits business work. In a worker it runs the rest, completes the message in the
//! same transaction and commits; or rolls back and records the failure in a transaction of its own. In process scope it
//! lends a transaction to the handlers between it and the workers.
//!
//! Scope: both. In: begins at first use. Out: completion and commit; in process scope the commit, before the workers start. On error:
//! roll back; in a worker the failure is recorded in its own transaction. It comes after `connection` of its scope, in a worker
//! also after `read`. Options: those of the action.

use crate::{
    Context, Delivery, Error, Handler, Next, Outcome, Result, Store,
    action::{
        callbacks::{self, commit_open},
        files::{Fate, FileSet},
        slot::undisturbed,
    },
    broker::Found,
    handlers::{About, Scope},
    message::Mark,
    process::record::{caught, committed_failure, park, record, recorded, verdict},
    store::{self, Failure},
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
        match guarded(cx).await {
            Ok(None) => {}
            Ok(Some(ended)) => return ended,
            Err(error) => return conclude(cx, Err(error)).await,
        }
        let result = match caught(Box::pin(run(cx, next))).await {
            Ok(Outcome::Done) => finish(cx, None).await.map(|()| Outcome::Done),
            other => match committed_failure(cx, &other) {
                Some(failure) => return commit_failure(cx, failure, other).await,
                None => other,
            },
        };
        conclude(cx, result).await
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

/// Locks the rows of what a broker handed out, before anything else happens in the transaction. What is not to be had is marked, and
/// nothing runs; several are tried again one by one then.
async fn guarded<S: Store>(cx: &mut Context<S>) -> Result<Option<Result<Outcome>>> {
    let locked = |delivery: &Delivery| delivery.claim.as_ref().is_some_and(|claim| claim.locked);
    let hands: Vec<_> = cx.batch.window().iter().enumerate().filter(|(_, delivery)| locked(delivery)).collect();
    let copies: Vec<_> = hands.into_iter().map(|(at, delivery)| (at, delivery.copy())).collect();
    if copies.is_empty() {
        return Ok(None);
    }
    let mut all_free = true;
    for (at, copy) in copies {
        let found = cx.lock(copy).await?;
        match (&mut cx.batch.window_mut()[at], found) {
            (delivery, Found::Free(standing)) if !standing.suspect => delivery.stand(standing),
            (delivery, found) => {
                delivery.mark = Some(Mark::Guarded(found));
                all_free = false;
                break; // the transaction may be broken by the lock that was not to be had
            }
        }
    }
    if all_free {
        return Ok(None);
    }
    cx.roll_back().await;
    let alone = cx.batch.window().len() == 1;
    Ok(Some(if alone { Ok(Outcome::Done) } else { Err(Error::LostClaim) }))
}

/// Process scope: what is open on the way out is committed, or rolled back after an error.
async fn around_workers<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    let result = next.run(cx).await;
    match &result {
        Ok(_) => commit_open(cx).await?,
        Err(_) => cx.roll_back().await,
    }
    result
}

/// Runs the rest; if it is done, the action may still object.
async fn run<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    let outcome = next.run(cx).await?;
    if matches!(outcome, Outcome::Done) {
        callbacks::succeeded(cx).await?;
    }
    Ok(outcome)
}

/// Rolls back, unless the message is done, and writes its failure down, together with what the action then has to say.
async fn conclude<S: Store>(cx: &mut Context<S>, result: Result<Outcome>) -> Result<Outcome> {
    cx.roll_back().await;
    let Some(mut failure) = verdict(cx, &result)? else { return result };
    match tell_action(cx, &failure, &result).await {
        Ok(true) => return result,
        Ok(false) => {}
        Err(error) if spares_the_message(cx, &error) => return record(cx, Err(error)).await,
        Err(error) => failure.error = format!("{}; and `transaction_failure` failed: {error}", failure.error),
    }
    park(cx, failure).await?;
    result
}

/// Commits what the action has written together with its failure. What cannot be committed, because the error was the
/// database's and broke the transaction, is rolled back and recorded like any other failure.
async fn commit_failure<S: Store>(cx: &mut Context<S>, failure: Failure, result: Result<Outcome>) -> Result<Outcome> {
    match tell_action(cx, &failure, &result).await {
        Ok(true) => result,
        Ok(false) => park(cx, failure).await.and(result),
        Err(error) if spares_the_message(cx, &error) => record(cx, Err(error)).await,
        Err(error) => {
            tracing::debug!(error = %cx.masked(&error.to_string()), "what was written before the failure is not committed");
            conclude(cx, result).await
        }
    }
}

/// Lets the action have its say about a failure, and commits both together; false if nothing was written.
async fn tell_action<S: Store>(cx: &mut Context<S>, failure: &Failure, result: &Result<Outcome>) -> Result<bool> {
    let told = callbacks::failed(cx, result, failure).await;
    if told.is_err() {
        cx.roll_back().await;
    }
    told?;
    if !cx.slot.is_used() && cx.files.is_none() {
        return Ok(false);
    }
    finish(cx, Some(failure.clone())).await?;
    recorded(cx, failure);
    Ok(true)
}

/// Did recording fail in a way that says nothing about the message? It is not ours any more, or it runs again.
fn spares_the_message<S: Store>(cx: &mut Context<S>, error: &Error) -> bool {
    let unknown = cx.batch.only().is_some_and(|delivery| matches!(delivery.mark, Some(Mark::Unknown)));
    unknown || error.is_transient::<S>()
}

/// How a business transaction ended.
enum Ending {
    Committed,
    RolledBack(Error),
    Unknown(Error),
}

/// Completes the messages, or records the failure of one, and commits; whoever drops us, it comes to an end.
async fn finish<S: Store>(cx: &mut Context<S>, failure: Option<Failure>) -> Result<()> {
    cx.tx().await?; // completion needs a transaction even if the action did not
    let copies: Vec<_> = cx.batch.window().iter().map(Delivery::copy).collect();
    let Some(tx) = cx.slot.take().await.filter(|_| !copies.is_empty()) else {
        return Err(Error::Setup("the handler `read` must come before `transaction`".into()));
    };
    let (store, files) = (cx.store.clone(), cx.files.take());
    match undisturbed(async move { Ok(end(&store, tx, copies, failure, files).await) }).await? {
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

async fn end<S: Store>(
    store: &S,
    mut tx: S::Tx,
    deliveries: Vec<Delivery>,
    failure: Option<Failure>,
    mut files: Option<FileSet>,
) -> Ending {
    let (ending, fate) = match pass(store, &mut tx, &deliveries, failure, files.as_mut()).await {
        Ok(()) => match store::commit(store, tx).await {
            Ok(()) => (Ending::Committed, Fate::Committed),
            // A message may be out of our hands for another reason; files have a row of their own.
            Err(error) => (look(store, &deliveries, error).await, Fate::Unknown),
        },
        Err(error) => {
            if let Err(error) = store::rollback(store, tx).await {
                tracing::debug!(%error, "rollback failed");
            }
            (Ending::RolledBack(error), Fate::RolledBack)
        }
    };
    if let Some(files) = files {
        files.end(store, fate).await;
    }
    ending
}

/// The last statements of a business transaction: its files belong to it, and its messages go through the door.
async fn pass<S: Store>(
    store: &S,
    tx: &mut S::Tx,
    deliveries: &[Delivery],
    failure: Option<Failure>,
    files: Option<&mut FileSet>,
) -> Result<()> {
    if let Some(files) = files {
        files.seal().await?;
        store::note_files(store, tx, files.id()).await?;
    }
    // Without a claim there is nothing to complete, but the transaction must still prove that it is the one we began.
    match failure {
        None => store::complete(store, tx, deliveries).await,
        Some(failure) => store::fail(store, tx, &deliveries[0], &failure).await,
    }
}

/// The rows tell: whoever still has one claim of a transaction has not committed it. Nothing is written on a guess.
async fn look<S: Store>(store: &S, deliveries: &[Delivery], error: Error) -> Ending {
    if deliveries.iter().any(|delivery| delivery.claim.is_none()) {
        return Ending::Unknown(error);
    }
    for delivery in deliveries {
        match store::is_claimed(store, delivery).await {
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
