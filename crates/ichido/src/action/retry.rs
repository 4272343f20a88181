//! When a failed message runs again: exponential backoff with full jitter, up to a number of attempts. Pure; the
//! transaction handler asks it, and the store turns the answer into a due time by the database's clock.

use std::time::Duration;

/// How often and how soon a message is tried again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Runs in all, the first included.
    pub attempts: u32,
    /// Upper bound of the first wait.
    pub first: Duration,
    /// Upper bound of every wait.
    pub max: Duration,
    /// Growth of the bound from wait to wait.
    pub factor: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { attempts: 5, first: Duration::from_secs(1), max: Duration::from_mins(5), factor: 2.0 }
    }
}

impl RetryPolicy {
    /// The wait after the `attempt`-th run failed; none if it was the last one.
    #[must_use]
    pub fn wait_after(&self, attempt: u32) -> Option<Duration> {
        (attempt < self.attempts).then(|| self.bound(attempt).mul_f64(fastrand::f64()))
    }

    /// The same for a message that gets another number of attempts, if it says so.
    #[must_use]
    pub(crate) fn with(self, attempts: Option<u32>) -> Self {
        RetryPolicy { attempts: attempts.unwrap_or(self.attempts), ..self }
    }

    fn bound(&self, attempt: u32) -> Duration {
        let grown = self.first.as_secs_f64() * self.factor.powf(f64::from(attempt.saturating_sub(1)));
        Duration::try_from_secs_f64(grown).unwrap_or(self.max).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_up_to_the_maximum() {
        let policy = RetryPolicy::default();
        let bounds: Vec<_> = [1, 2, 3, 4, 40, u32::MAX].iter().map(|&n| policy.bound(n).as_secs()).collect();
        assert_eq!(bounds, [1, 2, 4, 8, 300, 300]);
    }

    #[test]
    fn the_last_attempt_has_no_wait_and_earlier_ones_stay_within_their_bound() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.wait_after(5), None);
        assert_eq!(policy.wait_after(6), None);
        for _ in 0..1000 {
            assert!(policy.wait_after(3).unwrap() <= Duration::from_secs(4));
        }
    }

    #[test]
    fn the_jitter_spreads_over_the_whole_bound() {
        let policy = RetryPolicy::default();
        let waits: Vec<_> = (0..1000).filter_map(|_| policy.wait_after(1)).collect();
        assert!(waits.iter().any(|wait| *wait < Duration::from_millis(100)));
        assert!(waits.iter().any(|wait| *wait > Duration::from_millis(900)));
    }
}
