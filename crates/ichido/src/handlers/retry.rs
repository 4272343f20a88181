//! `retry`: when the database is gone, the process waits and runs the rest again, up to a limit. It is about the process;
//! a message that fails never comes here.
//!
//! Scope: process. In and out: nothing. On error: if it is retryable ([`Error::is_retryable`], asked of the whole chain of causes)
//! and the limit allows it, the rest runs again after the interval; else it passes, or the process ends with `exit`. It comes after
//! `global error` and before `dispatch`, which opens new readers. Options (`[process] retry`): `count` = 10 or `time`,
//! `interval` = 5s, `window` = 15m, `exit` = 180.

use std::time::{Duration, Instant};

use crate::{
    Context, Error, Handler, Next, Outcome, Store,
    error::Result,
    handlers::{About, Scope},
    store,
};

/// How often a database that is gone is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// How long a process keeps trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// This many times.
    Count(u32),
    /// For this long.
    Time(Duration),
}

/// Runs the rest again when the process, not a message, is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// When to give up.
    pub limit: Limit,
    /// The wait before each run; shorter if the database did not answer and answers again.
    pub interval: Duration,
    /// After this long the count starts again: a process that runs for weeks may meet many short outages.
    pub window: Duration,
    /// The exit code when the limit is reached.
    pub exit: u8,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { limit: Limit::Count(10), interval: Duration::from_secs(5), window: Duration::from_mins(15), exit: 180 }
    }
}

impl<S: Store> Handler<S> for Retry {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        self.check()?;
        let mut series: Option<Series> = None;
        loop {
            let error = match next.run(cx).await {
                Err(error) if error.is_retryable::<S>() => error,
                result => return result,
            };
            let now = cx.clock.now();
            let current = series.filter(|series| now - series.since <= self.window);
            let done = current.unwrap_or(Series { since: now, retries: 0 });
            if !self.allows(done, now) {
                let reason = format!("gave up after {} retries: {error:#}", done.retries);
                return Err(Error::Ended { status: self.exit.into(), reason }.into());
            }
            series = Some(Series { retries: done.retries + 1, ..done });
            tracing::warn!(retry = done.retries + 1, wait = ?self.interval, "{error:#}");
            if !self.wait(cx).await {
                return Ok(Outcome::Stop);
            }
        }
    }

    fn about(&self, _: Scope) -> About {
        About::new("retry", "", "", "retryable and under the limit: run the rest again")
            .only(Scope::Process)
            .once()
            .after(Scope::Process, "global error", "its exit code would be lost")
    }
}

/// Retries that belong together.
#[derive(Clone, Copy)]
struct Series {
    since: Instant,
    retries: u32,
}

impl Retry {
    /// A window that is too short would forget every retry before the next one, and the handler would never give up.
    fn check(&self) -> Result<()> {
        let longest = match self.limit {
            Limit::Count(count) => self.interval.saturating_mul(count),
            Limit::Time(time) => time,
        };
        if self.window <= longest {
            let (window, longest) = (self.window, longest);
            return Err(Error::Setup(format!(
                "retry: the window ({window:?}) must be longer than all retries together ({longest:?})"
            )));
        }
        if !(100..=199).contains(&self.exit) {
            return Err(Error::Setup(format!("retry: the exit code must be from 100 to 199, not {}", self.exit)));
        }
        Ok(())
    }

    /// Waits for the interval, or until a database that did not answer answers again; false if the process is asked to stop.
    async fn wait<S: Store>(&self, cx: &mut Context<S>) -> bool {
        let (store, clock) = (cx.store.clone(), cx.clock.clone());
        let answers = async {
            let mut gone = false;
            loop {
                clock.sleep(LOOK).await;
                match store::ping(&store).await {
                    Ok(()) if gone => return,
                    Ok(()) => {}
                    Err(_) => gone = true,
                }
            }
        };
        tokio::select! {
            () = cx.stop.cancelled() => false,
            () = cx.clock.sleep(self.interval) => true,
            () = answers => true,
        }
    }

    fn allows(&self, series: Series, now: Instant) -> bool {
        match self.limit {
            Limit::Count(count) => series.retries < count,
            Limit::Time(time) => series.retries == 0 || now - series.since <= time,
        }
    }
}
