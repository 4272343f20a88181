//! `transaction`: the only handler that commits business work. In a worker it runs the rest, completes the message in the
//! same transaction and commits; or rolls back and records the failure in a transaction of its own. In process scope it
//! lends a transaction to the handlers between it and the workers.

use std::{panic::AssertUnwindSafe, sync::atomic::Ordering, task::Poll};

use crate::{
    About, BoxFuture, Context, Delivery, Error, Failure, Handler, Mark, Next, Outcome, Result, Scope, Store,
    slot::undisturbed,
};

/// Completes and commits, or rolls back and records.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transaction;

/// A message under which the database fails this often in a row is put aside.
const MOST_FAULTS: u32 = 20;

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
            ),
            Scope::Worker => About::new(
                "transaction",
                "begins at first use",
                "completion, commit",
                "roll back, record the failure in its own transaction",
            ),
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
        Ending::Committed => Ok(Outcome::Done),
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
    if claimed && let Err(error) = store.complete(&mut tx, &deliveries).await {
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

/// Marks the delivery with what became of it; a failure is recorded in a transaction of its own.
async fn record<S: Store>(cx: &mut Context<S>, result: Result<Outcome>) -> Result<Outcome> {
    let Some(delivery) = cx.delivery.as_mut() else { return result };
    match &result {
        Ok(Outcome::Done) => {
            delivery.mark = Some(Mark::Done);
            count(cx, |life| &life.done);
            return result;
        }
        _ if delivery.mark == Some(Mark::Unknown) => return result,
        Err(Error::LostClaim) => {
            tracing::warn!("{} is not ours any more; rolled back", delivery.message.id());
            delivery.mark = Some(Mark::Lost);
            return result;
        }
        Err(error) if error.is_fault::<S>() && delivery.faults + 1 < MOST_FAULTS => {
            delivery.mark = Some(Mark::Faulted);
            return result;
        }
        Err(Error::Setup(_)) | Ok(Outcome::Stop | Outcome::Ended(_)) => return result,
        _ if delivery.claim.is_none() => return result,
        _ => {}
    }
    park(cx, &result).await?;
    result
}

/// Writes the failure down; if that fails too, the message is still claimed and simply runs again.
async fn park<S: Store>(cx: &mut Context<S>, result: &Result<Outcome>) -> Result<()> {
    let work = cx.work()?;
    let Some(delivery) = cx.delivery.as_mut() else { return Ok(()) };
    let failure = failure::<S>(delivery, result, &work.pool.retry);
    tell(delivery, &failure);
    let (store, copy) = (cx.store.clone(), delivery.copy());
    delivery.mark = Some(Mark::Faulted);
    let parked = undisturbed(async move { store.park(&copy, &failure).await }).await?;
    delivery.mark = Some(if parked { Mark::Parked } else { Mark::Lost });
    count(cx, |life| &life.failed);
    Ok(())
}

fn failure<S: Store>(delivery: &Delivery, result: &Result<Outcome>, policy: &crate::RetryPolicy) -> Failure {
    let attempt = delivery.attempt;
    let (error, after) = match result {
        Ok(Outcome::Park(reason)) => (reason.clone(), None),
        Ok(Outcome::Retry(Some(after))) => ("asked to run again".into(), policy.wait_after(attempt).map(|_| *after)),
        Ok(Outcome::Retry(None)) => ("asked to run again".into(), policy.wait_after(attempt)),
        Ok(Outcome::Abort(code)) => (format!("aborted the process with code {code}"), policy.wait_after(attempt)),
        Ok(other) => (format!("ended with {other:?}"), policy.wait_after(attempt)),
        Err(error) if error.is_fault::<S>() => {
            return Failure::dead(format!("the database failed {MOST_FAULTS} times in a row: {error}"), attempt - 1);
        }
        Err(error) if error.is_hopeless() => (error.to_string(), None),
        Err(error) => (error.to_string(), policy.wait_after(attempt)),
    };
    Failure { error, failures: attempt, retry_after: after }
}

fn tell(delivery: &Delivery, failure: &Failure) {
    let (id, attempt, error) = (delivery.message.id(), delivery.attempt, &failure.error);
    if let Some(after) = failure.retry_after {
        tracing::warn!(attempt, "{id} failed and runs again in {after:.1?}: {error}");
    } else {
        tracing::error!(attempt, "{id} failed for good: {error}");
    }
}

fn count<S: Store>(cx: &Context<S>, what: impl Fn(&crate::life::Life) -> &std::sync::atomic::AtomicU64) {
    if let Some(life) = &cx.life {
        what(life).fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls the future with unwinding caught, so that a panic is a failure like any other.
async fn caught<T>(mut run: BoxFuture<'_, Result<T>>) -> Result<T> {
    std::future::poll_fn(move |task| {
        std::panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(task))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Poll::Ready(Err(Error::Panic(text.unwrap_or_default())))
        })
    })
    .await
}
