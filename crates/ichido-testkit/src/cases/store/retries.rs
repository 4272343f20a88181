//! The retry handler, with a clock on which only its own pauses pass: how often it runs the rest again, what it asks the error,
//! and with which exit code it gives up.

use std::{
    error::Error as StdError,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use ichido::{
    BoxFuture, CancellationToken, Context, Error, Handler, Next, Outcome, Process, Result, Retryable, Store,
    handlers::{Limit, Retry, Scope},
    process::Clock,
};

use crate::fixture::Fixture;

const INTERVAL: Duration = Duration::from_secs(4);

/// Each pause of the retry handler passes at once, and all others never.
#[derive(Debug, Clone)]
struct Stopwatch(Arc<Mutex<Instant>>);

impl Stopwatch {
    fn pass(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }
}

impl Clock for Stopwatch {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        if time != INTERVAL {
            return Box::pin(std::future::pending());
        }
        let clock = self.clone();
        Box::pin(async move { clock.pass(time) })
    }
}

/// An error whose cause is another one.
#[derive(Debug)]
struct Wrapped(Retryable);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it did not work")
    }
}

impl StdError for Wrapped {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// What stands in the place of everything after `retry`: fails so often, each time in the same way.
struct Failing {
    runs: Arc<AtomicU32>,
    times: u32,
    how: &'static str,
    each: Duration,
    clock: Stopwatch,
    stop: CancellationToken,
}

impl<S: Store> Handler<S> for Failing {
    async fn handle(&self, _: &mut Context<S>, _: Next<'_, S>) -> Result<Outcome> {
        self.clock.pass(self.each);
        if self.runs.fetch_add(1, Ordering::SeqCst) >= self.times {
            return Ok(Outcome::Stop);
        }
        let no_answer = || "no answer".into();
        Err(match self.how {
            "fault" => Error::Unreachable { address: "somewhere".into(), source: no_answer() }.into(),
            "retryable" => Retryable(no_answer()).into(),
            "wrapped" => Wrapped(Retryable(no_answer())).into(),
            "ended" => Error::Ended { status: 409, reason: "a duplicate".into() }.into(),
            "stop" => {
                self.stop.cancel();
                Retryable(no_answer()).into()
            }
            _ => "no answer".into(),
        })
    }
}

/// Runs it, and tells the exit code, how often it ran, and the time that passed.
async fn run<F: Fixture>(retry: Retry, how: &'static str, times: u32, each: Duration) -> (i32, u32, Duration) {
    let fixture = F::fresh().await;
    let (runs, stop, start) = (Arc::new(AtomicU32::new(0)), CancellationToken::new(), Instant::now());
    let clock = Stopwatch(Arc::new(Mutex::new(start)));
    let failing = Failing { runs: runs.clone(), times, how, each, clock: clock.clone(), stop: stop.clone() };
    let process = Process::new(fixture.store()).retry(retry).clock(clock.clone()).stop_on(stop);
    let process = process.handlers(move |queue| queue.after(Scope::Process, "retry", failing));
    let code = process.run().await.unwrap();
    (code, runs.load(Ordering::SeqCst), clock.now() - start)
}

fn count(count: u32) -> Retry {
    Retry { limit: Limit::Count(count), interval: INTERVAL, ..Retry::default() }
}

pub async fn a_limit_by_count_allows_so_many_retries<F: Fixture>() {
    assert_eq!(run::<F>(count(3), "fault", 3, Duration::ZERO).await, (0, 4, INTERVAL * 3));
    assert_eq!(run::<F>(count(3), "fault", 4, Duration::ZERO).await, (180, 4, INTERVAL * 3));
    assert_eq!(run::<F>(count(0), "fault", 1, Duration::ZERO).await, (180, 1, Duration::ZERO));
}

pub async fn a_limit_by_time_allows_the_first_retry_and_those_in_time<F: Fixture>() {
    let time = |seconds| Retry { limit: Limit::Time(Duration::from_secs(seconds)), ..count(0) };
    assert_eq!(run::<F>(time(8), "fault", 9, Duration::ZERO).await, (180, 4, INTERVAL * 3));
    assert_eq!(run::<F>(time(9), "fault", 9, Duration::ZERO).await, (180, 4, INTERVAL * 3));
    assert_eq!(run::<F>(time(7), "fault", 9, Duration::ZERO).await, (180, 3, INTERVAL * 2));
    assert_eq!(run::<F>(time(1), "fault", 1, Duration::ZERO).await, (0, 2, INTERVAL));
}

/// A process that lives for weeks meets more faults than its limit, each long after the other.
pub async fn after_the_window_the_count_starts_anew<F: Fixture>() {
    let retry = Retry { window: Duration::from_secs(20), ..count(2) };
    let (code, runs, _) = run::<F>(retry, "fault", 12, Duration::from_secs(20)).await;
    assert_eq!((code, runs), (0, 13));
    let (code, runs, _) = run::<F>(retry, "fault", 12, Duration::from_secs(1)).await;
    assert_eq!((code, runs), (180, 3));
}

pub async fn it_gives_up_with_its_own_exit_code<F: Fixture>() {
    let retry = Retry { exit: 123, ..count(1) };
    assert_eq!(run::<F>(retry, "fault", 9, Duration::ZERO).await.0, 123);
}

pub async fn whether_to_retry_is_asked_of_the_whole_chain_of_errors<F: Fixture>() {
    for (how, code, runs) in [("retryable", 0, 3), ("wrapped", 0, 3), ("plain", 20, 1), ("ended", 14, 1)] {
        assert_eq!(run::<F>(count(5), how, 2, Duration::ZERO).await, (code, runs, INTERVAL * (runs - 1)), "{how}");
    }
}

pub async fn a_stop_ends_the_pause<F: Fixture>() {
    assert_eq!(run::<F>(count(5), "stop", 9, Duration::ZERO).await.0, 0);
}

pub async fn a_rule_that_would_never_give_up_is_refused<F: Fixture>() {
    let short = Retry { window: INTERVAL * 3, ..count(3) };
    assert_eq!(run::<F>(short, "fault", 9, Duration::ZERO).await.0, 127);
    let long = Retry { limit: Limit::Time(Duration::from_mins(15)), ..count(0) };
    assert_eq!(run::<F>(long, "fault", 9, Duration::ZERO).await.0, 127);
    assert_eq!(run::<F>(Retry { exit: 20, ..count(3) }, "fault", 9, Duration::ZERO).await.0, 127);
}
