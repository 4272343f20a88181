//! `read`: puts the next deliveries into the context, one or up to the commit interval, and settles them on the way out by
//! the marks that `transaction` set. It is the only one that talks to the reader; while it waits, no transaction is open.
//!
//! Scope: worker. In: waits for a delivery, new execution id. Out: settled. On error: a failure that has no mark is recorded, then
//! it passes. It comes after `loop` and `process stop`, and `transaction` after it. Options: `[process] poll` = 1s, `read_ahead`.

use std::{ops::Range, sync::Arc, time::Duration};

use tracing::Instrument;

use crate::{
    Context, Delivery, Error, Handler, Next, Outcome, Store,
    action::slot::run_to_completion,
    error::Result,
    handlers::{About, Scope},
    message::Mark,
    observe::span::message_span,
    process::{
        life::Life,
        record::{caught, failure_code, record},
    },
    readers::{DynReader, Turn},
    store::{self, inspect::DIED_RUNNING},
    trace,
};

/// Reads deliveries and settles them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Read;

impl<S: Store> Handler<S> for Read {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let work = cx.work()?;
        if let Err(error) = settle(cx, &*work.reader).await {
            tracing::warn!(error = %error.in_full(), "cannot settle the messages of a dropped pass; they will be found later");
        }
        let result = match fill(cx, &*work.reader, work.pool.commit_interval).await {
            Ok(true) => run_all(cx, next).await,
            Ok(false) => return Ok(Outcome::Stop),
            Err(error) => Err(error),
        };
        settle(cx, &*work.reader).await?;
        Ok(result?)
    }

    fn about(&self, _: Scope) -> About {
        About::new("read", "next message, new execution id", "settle it", "log the message, pass on the error")
            .only(Scope::Worker)
            .once()
            .after(Scope::Worker, "loop", "a worker would read only one message")
            .after_any(Scope::Worker, "process stop", "it would claim a message only to release it")
    }
}

/// Waits for a delivery and takes what else is at hand; false if there is nothing more to do. A suspect never has company.
async fn fill<S: Store>(cx: &mut Context<S>, reader: &dyn DynReader, most: usize) -> Result<bool> {
    while cx.batch.all().len() < most && !cx.batch.all().last().is_some_and(Delivery::is_suspect) {
        match reader.try_next()? {
            Turn::Delivery(delivery) => {
                count_start(cx, &delivery)?;
                cx.batch.push(*delivery);
            }
            _ if !cx.batch.all().is_empty() => break,
            Turn::Finished => return Ok(false),
            Turn::Empty => tokio::select! {
                () = cx.stop.cancelled() => return Ok(false),
                () = reader.changed() => {}
            },
        }
    }
    Ok(true)
}

fn count_start<S: Store>(cx: &Context<S>, delivery: &Delivery) -> Result<()> {
    let Some(life) = &cx.life else { return Ok(()) };
    let (queue, now, work) = (&delivery.message.queue, cx.clock.now(), cx.work()?);
    let meter = life.meters.of(queue, || work.pool.place(queue));
    life.meters.start(&meter, now, delivery.wait(now));
    Ok(())
}

/// A slot was busy for this time with what the pass was about.
fn count_time<S: Store>(cx: &Context<S>, time: Duration) {
    let (Some(life), window) = (&cx.life, cx.batch.window()) else { return };
    let each = time / u32::try_from(window.len()).unwrap_or(u32::MAX).max(1);
    for delivery in window {
        if let Some(meter) = life.meters.find(&delivery.message.queue) {
            meter.ran(each, matches!(delivery.mark, Some(Mark::Done | Mark::Parked)));
        }
    }
}

/// Releases what is in the context, each delivery with its mark; keeps the first error.
async fn settle<S: Store>(cx: &mut Context<S>, reader: &dyn DynReader) -> Result<()> {
    if cx.batch.all().is_empty() {
        return Ok(());
    }
    // A pass that was dropped further in leaves its transaction here, and settling would wait for it.
    cx.roll_back().await;
    let mut first = Ok(());
    for delivery in cx.batch.take() {
        first = first.and(reader.settle(delivery).await);
    }
    first
}

/// Runs the rest for all of them together; and, if they were not done, for each of them alone. Only a pass about one message
/// says whose failure it is, so only that is written down.
async fn run_all<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    let together = cx.batch.all().iter().take_while(|delivery| !delivery.is_suspect()).count();
    let mut result = Ok(Outcome::Done);
    if together > 1 {
        result = pass(cx, next, 0..together).await;
        match &result {
            Ok(Outcome::Stop | Outcome::Ended(_)) | Err(Error::Setup(_) | Error::Ended { .. }) => return result,
            // No handler has run them, and none says that it failed: they are released.
            Ok(Outcome::Done) if cx.batch.all().len() == together => return result,
            Err(Error::Unreachable { .. }) => cx.batch.mark_from(0, Mark::Faulted),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(
                    error = %cx.masked(&format!("{error:#}")), together,
                    "batch not completed; running each message alone"
                );
            }
        }
    }
    for at in 0..cx.batch.all().len() {
        if cx.batch.all()[at].mark.is_some() {
            continue;
        }
        if (at > 0 || together > 1) && cx.stopping() {
            break;
        }
        result = pass(cx, next, at..at + 1).await;
        match &result {
            Ok(Outcome::Stop | Outcome::Ended(_) | Outcome::Abort(_)) | Err(Error::Setup(_) | Error::Ended { .. }) => {
                break;
            }
            // The loop decides how soon the others are tried again.
            Err(fault) if fault.is_fault::<S>() => cx.batch.mark_from(at + 1, Mark::Faulted),
            _ => {}
        }
    }
    result
}

/// One pass through the rest, about these deliveries.
async fn pass<S: Store>(cx: &mut Context<S>, next: Next<'_, S>, window: Range<usize>) -> Result<Outcome> {
    cx.batch.look_at(window);
    cx.next_execution();
    let (queue, begun) = (cx.message()?.queue.clone(), cx.clock.now());
    let span = message_span(cx)?;
    let (work, window) = (cx.work()?, cx.batch.window());
    let told = |life: &Arc<Life>| life.passes.begin(&work.pool.name, window, work.pool.timeout, begun);
    let running = cx.life.as_ref().map(told);
    cx.cancelled = running.as_ref().map(|running| running.cancelled.clone()).unwrap_or_default();
    let result = run(cx, next).instrument(span.clone()).await;
    trace::fail(&span, failure_code::<S>(&result));
    drop(running);
    let time = cx.clock.now() - begun;
    count_time(cx, time);
    if let Some(life) = &cx.life {
        life.took(&queue, time);
    }
    result
}

/// Runs the rest for what is in hand. What failed further out than `transaction` has no mark yet and is recorded here.
async fn run<S: Store>(cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
    let suspect = cx.delivery()?.is_suspect();
    if suspect {
        Box::pin(mark(cx, true)).await?;
    }
    let result = if spent(cx.delivery()?) { Ok(Outcome::park(DIED_RUNNING)) } else { caught(next.run(cx)).await };
    cx.roll_back().await;
    if suspect && let Err(error) = Box::pin(mark(cx, false)).await {
        tracing::warn!(error = %error.in_full(), "cannot clear the mark of a suspect; a crash now would cost it an attempt");
    }
    let unmarked = cx.batch.only().is_some_and(|delivery| delivery.mark.is_none());
    if unmarked && !matches!(result, Ok(Outcome::Done)) { Box::pin(record(cx, result)).await } else { result }
}

/// Has a message killed its process as often as its sender allows? Rescue knows it of what is kept in the database; of what only a broker
/// has, the message itself says it when it comes again.
fn spent(delivery: &Delivery) -> bool {
    delivery.is_suspect() && delivery.message.attempts.is_some_and(|attempts| delivery.attempt > attempts)
}

/// A suspect runs after a durable mark, so that its attempt is spent if the process dies.
async fn mark<S: Store>(cx: &mut Context<S>, begins: bool) -> Result<()> {
    let delivery = cx.delivery()?;
    let (store, id, Some(owner)) = (cx.store.clone(), delivery.message.id(), delivery.owner()) else { return Ok(()) };
    run_to_completion(async move { store::mark_running(&store, owner, begins.then_some(&id)).await }).await
}
