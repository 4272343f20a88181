//! What became of a message: marks the delivery, and records a failure in a transaction of its own. `transaction` does it for
//! the action, `read` for handlers between the two.

use std::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
};

use crate::{
    BoxFuture, Context, Delivery, Error, Masks, Outcome, RetryPolicy, Store,
    action::slot::run_to_completion,
    error::Result,
    message::Mark,
    observe::journal::Journal,
    process::panics::{self, Catching},
    stat::Meter,
    store::{self, Failure},
};

/// A message under which the database fails this often in a row is put aside.
const MOST_FAULTS: u32 = 20;

/// Marks the deliveries in hand with what became of them; the failure of one alone is written down. Several that are not
/// done get no mark: each of them will run alone.
pub(crate) async fn record<S: Store>(cx: &mut Context<S>, result: Result<Outcome>) -> Result<Outcome> {
    if let Some(failure) = verdict(cx, &result)? {
        park(cx, failure).await?;
    }
    result
}

/// Marks the deliveries in hand; what is returned is still to be written down.
pub(crate) fn verdict<S: Store>(cx: &mut Context<S>, result: &Result<Outcome>) -> Result<Option<Failure>> {
    if matches!(result, Ok(Outcome::Done)) {
        cx.batch.window_mut().iter_mut().for_each(|delivery| delivery.mark = Some(Mark::Done));
        count(cx, cx.batch.window().len(), |journal| &journal.done);
        meter(cx, Meter::done);
        return Ok(None);
    }
    let journal = cx.journal.clone();
    let Some(delivery) = cx.batch.only() else { return Ok(None) };
    match result {
        _ if matches!(delivery.mark, Some(Mark::Unknown | Mark::Parked)) => return Ok(None),
        Err(Error::LostClaim) => {
            tracing::warn!("claim on {} lost; rolled back", delivery.message.id());
            delivery.mark = Some(Mark::Lost);
            count(cx, 1, |journal| &journal.lost);
            return Ok(None);
        }
        // `transaction` has asked the database about it.
        Err(Error::Cancelled) => return Ok(None),
        // A database that does not let us begin says nothing about this message, however often.
        Err(Error::Unreachable { .. }) => {
            delivery.mark = Some(Mark::Faulted);
            return Ok(None);
        }
        Err(error) if error.is_fault::<S>() && delivery.faults + 1 < MOST_FAULTS => {
            delivery.faults += 1;
            delivery.mark = Some(Mark::Faulted);
            return Ok(None);
        }
        Err(Error::Setup(_)) | Ok(Outcome::Stop | Outcome::Ended(_)) => return Ok(None),
        Ok(Outcome::Snooze(_)) if delivery.claim.is_none() => return Ok(None), // its reader decides when it comes again
        _ if delivery.claim.is_none() => {
            tell_unclaimed::<S>(&journal, delivery, result);
            return Ok(None);
        }
        _ => {}
    }
    let policy = cx.work()?.pool.retry;
    Ok(cx.batch.only().map(|delivery| failure::<S>(delivery, result, &policy, &journal.masks)))
}

/// What has no claim is not recorded. Nor is it marked, and `read` asks once more after `transaction` did.
fn tell_unclaimed<S: Store>(journal: &Journal, delivery: &mut Delivery, result: &Result<Outcome>) {
    if !std::mem::replace(&mut delivery.told, true) {
        let failure = failure::<S>(delivery, result, &RetryPolicy::default(), &journal.masks);
        journal.failure(delivery, &failure);
    }
}

/// Writes the failure down. If the database is gone the message is still claimed and simply runs again; if it refuses what
/// is written (a constraint on the failed value), the message waits where it can be seen.
pub(crate) async fn park<S: Store>(cx: &mut Context<S>, mut failure: Failure) -> Result<()> {
    let policy = cx.work()?.pool.retry;
    let (store, journal) = (cx.store.clone(), cx.journal.clone());
    let Some(delivery) = cx.batch.only() else { return Ok(()) };
    failure.error = masked(&journal.masks, delivery, &failure.error);
    journal.failure(delivery, &failure);
    delivery.mark = Some(Mark::Faulted);
    let mut for_good = failure.retry_after.is_none();
    let parked = match write(&store, delivery, failure.clone()).await {
        Err(error) if !error.is_fault::<S>() => {
            let error = masked(&journal.masks, delivery, &format!("{error:#}"));
            tracing::error!(
                "cannot record the failure of {}: {error}; it will be retried later",
                delivery.message.id()
            );
            let text = format!("{}; then recording this failure failed: {error}", failure.error);
            for_good = false;
            write(&store, delivery, Failure::waiting(text, failure.failures, policy.max)).await?
        }
        parked => parked?,
    };
    delivery.mark = Some(if parked { Mark::Parked } else { Mark::Lost });
    delivery.failure = Some(failure.clone());
    count_failure(cx, &failure);
    if parked {
        if let (Some(life), Some(wait)) = (&cx.life, failure.retry_after) {
            life.dues.note(cx.clock.now(), wait);
        }
        let count = |meter: &Meter| if failure.is_snooze() { meter.snoozed() } else { meter.failed(for_good) };
        meter(cx, count);
    }
    Ok(())
}

async fn write<S: Store>(store: &S, delivery: &Delivery, failure: Failure) -> Result<bool> {
    let (store, copy) = (store.clone(), delivery.copy());
    run_to_completion(async move { store::park(&store, &copy, &failure).await }).await
}

/// The failure that is committed with what the action has written; none if this one is not. It is for good: what runs again
/// would have its effects twice.
pub(crate) fn committed_failure<S: Store>(cx: &mut Context<S>, result: &Result<Outcome>) -> Option<Failure> {
    let work = cx.work().ok().filter(|work| work.pool.commit_on.commits(result))?;
    let is_fault = matches!(result, Err(error) if error.is_fault::<S>());
    let journal = cx.journal.clone();
    let delivery = cx.batch.only().filter(|delivery| delivery.claim.is_some() && !is_fault)?;
    Some(Failure { retry_after: None, ..failure::<S>(delivery, result, &work.pool.retry, &journal.masks) })
}

/// The failure is recorded, in the transaction that was committed.
pub(crate) fn recorded<S: Store>(cx: &mut Context<S>, failure: &Failure) {
    let journal = cx.journal.clone();
    if let Some(delivery) = cx.batch.only() {
        journal.failure(delivery, failure);
        delivery.mark = Some(Mark::Parked);
        delivery.failure = Some(failure.clone());
    }
    count_failure(cx, failure);
    meter(cx, |meter| meter.failed(failure.retry_after.is_none()));
}

pub(crate) fn failure<S: Store>(
    delivery: &Delivery,
    result: &Result<Outcome>,
    policy: &RetryPolicy,
    masks: &Masks,
) -> Failure {
    let attempt = delivery.attempt;
    let policy = policy.with(delivery.message.attempts);
    let (error, after) = match result {
        Ok(Outcome::Park(reason)) => (reason.clone(), None),
        Ok(Outcome::Retry(Some(after))) => {
            ("the action asked for a retry".into(), policy.wait_after(attempt).map(|_| *after))
        }
        Ok(Outcome::Retry(None)) => ("the action asked for a retry".into(), policy.wait_after(attempt)),
        Ok(Outcome::Snooze(after)) => return Failure::snoozed(attempt - 1, *after),
        Ok(Outcome::Abort(code)) => {
            (format!("the action aborted the process with code {code}"), policy.wait_after(attempt))
        }
        Ok(other) => (format!("the action returned {other:?}"), policy.wait_after(attempt)),
        Err(error) if error.is_fault::<S>() => {
            let error = format!("the database failed {MOST_FAULTS} times in a row: {error:#}");
            return Failure { code: code::<S>(result), ..Failure::dead(masked(masks, delivery, &error), attempt - 1) };
        }
        Err(error) if error.is_hopeless() => (format!("{error:#}"), None),
        Err(error) => {
            (format!("{error:#}"), policy.wait_after(attempt).map(|backoff| error.retry_after().unwrap_or(backoff)))
        }
    };
    let error = masked(masks, delivery, &error);
    Failure { error, failures: attempt, retry_after: after, code: code::<S>(result) }
}

/// What was said about a message, without what must not be seen of it.
fn masked(masks: &Masks, delivery: &Delivery, text: &str) -> String {
    masks.text(text, &delivery.message.payload, &delivery.message.headers)
}

/// The kind of a failure, for traces; none if nothing has failed.
pub(crate) fn failure_code<S: Store>(result: &Result<Outcome>) -> Option<&'static str> {
    let fine = matches!(result, Ok(Outcome::Done | Outcome::Snooze(_) | Outcome::Stop | Outcome::Ended(_)));
    (!fine).then(|| code::<S>(result))
}

/// The kind of a failure, for the monitor.
fn code<S: Store>(result: &Result<Outcome>) -> &'static str {
    match result {
        Ok(Outcome::Park(_)) => "park",
        Ok(Outcome::Retry(_)) => "retry",
        Ok(Outcome::Abort(_)) => "abort",
        Err(Error::Panic(_)) => "panic",
        Err(Error::TimedOut(_)) => "timeout",
        Err(Error::Undecodable(_)) => "undecodable",
        Err(Error::BrokenTransaction(_)) => "broken transaction",
        Err(error) if error.is_fault::<S>() => "database",
        _ => "error",
    }
}

pub(crate) fn count<S: Store>(cx: &Context<S>, messages: usize, what: impl Fn(&Journal) -> &AtomicU64) {
    what(&cx.journal).fetch_add(messages as u64, Ordering::Relaxed);
}

fn count_failure<S: Store>(cx: &Context<S>, failure: &Failure) {
    count(cx, 1, |journal| match failure.retry_after {
        Some(_) if failure.is_snooze() => &journal.snoozed,
        Some(_) => &journal.retried,
        None => &journal.failed,
    });
}

/// Counts for each message that the transaction was about.
fn meter<S: Store>(cx: &Context<S>, count: impl Fn(&Meter)) {
    let Some(life) = &cx.life else { return };
    for delivery in cx.batch.window() {
        if let Some(meter) = life.meters.find(&delivery.message.queue) {
            count(&meter);
        }
    }
}

/// Polls the future with unwinding caught, so that a panic is a failure like any other.
pub(crate) async fn caught<T, E: Into<Error>>(mut run: BoxFuture<'_, Result<T, E>>) -> Result<T> {
    std::future::poll_fn(move |task| {
        let _catching = Catching::begin();
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(task)));
        let polled = polled.map(|polled| polled.map_err(Into::into));
        polled.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Poll::Ready(Err(Error::Panic(match panics::place() {
                Some(place) => format!("{text} ({place})"),
                None => text,
            })))
        })
    })
    .await
}
