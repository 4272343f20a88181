//! `concurrency`: runs the rest of the queue in N workers, each with a copy of the context, and waits for all of them.
//!
//! Scope: process; what comes after it is in worker scope. In: what is open is committed, the action's `initialize` runs, N workers
//! start. Out: waits for all, `terminate`. On error: stops all, waits, `error`, `terminate`, passes the first cause on. It comes after `dispatch`. Options: `concurrency` = 4 of the action,
//! `[process] grace` = 25s for running messages after a stop.

use std::{pin::pin, time::Duration};

use tokio::task::{JoinError, JoinHandle};

use super::CONCURRENCY;
use crate::{
    Context, Error, Handler, Next, Outcome, Store,
    action::callbacks::{self, commit_open},
    error::Result,
    handlers::{About, Scope},
    process::tasks::spawn_in_span,
};

/// Runs the rest in N workers.
#[derive(Debug, Clone, Copy)]
pub struct Concurrency {
    grace: Duration,
}

impl Concurrency {
    /// Running messages get this much time after a stop.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Concurrency { grace }
    }
}

impl<S: Store> Handler<S> for Concurrency {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        commit_open(cx).await?;
        next.start(cx).await?;
        callbacks::initialize(cx).await?;
        let result = self.run_workers(cx, next).await;
        Ok(callbacks::ended(cx, result).await?)
    }

    fn about(&self, _: Scope) -> About {
        About::new(CONCURRENCY, "start N workers for the rest", "wait for all", "stop all, wait, pass on the cause")
            .only(Scope::Process)
            .once()
            .after(Scope::Process, "dispatch", "there would be no action to start workers for")
    }
}

impl Concurrency {
    async fn run_workers<S: Store>(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        // A stop of its own, so that `retry` can run the rest again after a fault stopped the workers.
        let stop = cx.stop.child_token();
        let _stop_if_dropped = stop.clone().drop_guard();
        let life = cx.life.clone();
        let mut workers: Vec<_> = (0..cx.work()?.pool.workers())
            .map(|_| {
                let (mut cx, rest) = (cx.fork(stop.clone()), next.detach());
                cx.in_worker = true;
                let work = async move {
                    // Unless this worker ends well, and also if it panics, the others stop too.
                    let stop_others = cx.stop.clone().drop_guard();
                    let result = rest.next().pass(&mut cx).await;
                    if matches!(result, Ok(Outcome::Done | Outcome::Stop)) {
                        stop_others.disarm();
                    }
                    result
                };
                match &life {
                    Some(life) => spawn_in_span(life.signs.watch("a worker", work)),
                    None => spawn_in_span(work),
                }
            })
            .collect();
        let mut out_of_time = pin!(async {
            stop.cancelled().await;
            cx.clock.sleep(self.grace).await;
        });
        let mut first = Ok(Outcome::Done);
        let mut abandoned = false;
        for at in 0..workers.len() {
            let ended = tokio::select! {
                ended = &mut workers[at] => ended,
                () = &mut out_of_time, if !abandoned => {
                    abandoned = true;
                    abandon(&workers[at..]);
                    (&mut workers[at]).await
                }
            };
            first = first_of(first, ended);
        }
        first
    }
}

/// A dropped action only borrows its transaction, and begin and commit run in tasks of their own: nothing is torn.
fn abandon(workers: &[JoinHandle<Result<Outcome>>]) {
    tracing::warn!("grace period over; rolling back and releasing the running messages");
    for worker in workers {
        worker.abort();
    }
}

fn first_of(first: Result<Outcome>, ended: Result<Result<Outcome>, JoinError>) -> Result<Outcome> {
    let ended = match ended {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Ok(Outcome::Stop),
        Err(error) => Err(Error::Panic(error.to_string())),
    };
    match (&first, &ended) {
        (Ok(Outcome::Done | Outcome::Stop), _) => ended,
        (_, Err(error)) => {
            tracing::debug!(error = %error.in_full(), "another worker failed too");
            first
        }
        _ => first,
    }
}
