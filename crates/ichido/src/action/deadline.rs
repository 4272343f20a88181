//! How long an action may take. What it waits for its transaction to begin does not count: on SQLite, and where all
//! connections are taken, that is the time of others, and one slow message must not spend its neighbours' attempts.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{Error, error::Result, process::Clock};

/// Whoever still waits is asked again after this time at the earliest.
const SOON: Duration = Duration::from_millis(1);

/// The time that was spent waiting for a transaction, shared by who waits and who counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waited(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    past: Duration,
}

impl Waited {
    pub(crate) fn begin(&self, now: Instant) {
        self.state().since = Some(now);
    }

    pub(crate) fn end(&self, now: Instant) {
        let mut state = self.state();
        if let Some(since) = state.since.take() {
            state.past += now - since;
        }
    }

    fn reset(&self) {
        *self.state() = State::default();
    }

    /// What has not been counted yet.
    fn take(&self, now: Instant) -> Duration {
        let mut state = self.state();
        let current = state.since.map_or(Duration::ZERO, |since| (now - since).max(SOON));
        state.since = state.since.map(|_| now);
        std::mem::take(&mut state.past) + current
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs something that may take so long, and drops it when it is out of time.
pub(crate) async fn within<T>(
    limit: Duration,
    clock: &dyn Clock,
    waited: &Waited,
    mut run: crate::BoxFuture<'_, Result<T>>,
) -> Result<T> {
    waited.reset();
    let mut left = limit;
    while left > Duration::ZERO {
        tokio::select! {
            biased;
            () = clock.sleep(left) => left = waited.take(clock.now()),
            result = &mut run => return result,
        }
    }
    Err(Error::TimedOut(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_waited_is_counted_once() {
        let (waited, start) = (Waited::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        waited.begin(at(0));
        assert_eq!(waited.take(at(30)).as_millis(), 30);
        assert_eq!(waited.take(at(30)), SOON, "who still waits has not begun");
        waited.end(at(50));
        waited.begin(at(60));
        waited.end(at(65));
        assert_eq!(waited.take(at(70)).as_millis(), 25);
        assert_eq!(waited.take(at(80)), Duration::ZERO);
    }
}
