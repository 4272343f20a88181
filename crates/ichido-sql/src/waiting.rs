//! How a migration waits for tables that are in use. Whoever waits for a table's lock holds up everybody who comes after, so it
//! waits shortly, gives way for twice that time, and tries again with a longer wait, until it has waited long enough in all.

use std::time::Duration;

/// How long the first try waits for a lock.
const FIRST: Duration = Duration::from_millis(200);

/// No try waits longer: everybody else waits behind it. It is less than PostgreSQL's `deadlock_timeout` of a second, so that in a
/// circle of waits it is always the migration that gives way, and never a message's transaction.
const LONGEST: Duration = Duration::from_millis(800);

/// The time that is left for waiting.
#[derive(Debug)]
pub struct Waiting {
    total: Duration,
    left: Duration,
    next: Duration,
    retries: u32,
}

impl Waiting {
    /// So long in all.
    #[must_use]
    pub fn new(total: Duration) -> Self {
        Waiting { total, left: total, next: FIRST, retries: 0 }
    }

    /// How long the next try may wait for a lock.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.next
    }

    /// The next thing that is waited for: its first try is short again.
    pub fn begin(&mut self) {
        self.next = FIRST;
    }

    /// After a try that failed after this time: how long to give way before the next one; none if there is to be none.
    pub fn again(&mut self, took: Duration) -> Option<Duration> {
        self.next = (self.next * 2).min(LONGEST);
        let pause = self.pause(took, self.next * 2)?;
        self.retries += 1;
        Some(pause)
    }

    /// Takes this time and a pause away, and says how long the pause is; none if no time is left.
    pub fn pause(&mut self, took: Duration, pause: Duration) -> Option<Duration> {
        self.left = self.left.saturating_sub(took);
        let pause = pause.min(self.left);
        self.left -= pause;
        (!pause.is_zero()).then_some(pause)
    }

    /// How often something was tried again.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// How long it may wait in all.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_become_longer_and_come_to_an_end() {
        let mut waiting = Waiting::new(Duration::from_mins(1));
        let (mut limits, mut spent) = (vec![waiting.limit()], waiting.limit());
        while let Some(pause) = waiting.again(waiting.limit()) {
            spent += pause + waiting.limit();
            limits.push(waiting.limit());
        }
        assert!(limits[0] == FIRST && limits.is_sorted() && limits.ends_with(&[LONGEST]), "{limits:?}");
        let last = Duration::from_mins(1) + LONGEST;
        assert!(waiting.retries() >= 8 && spent <= last, "{limits:?} in {spent:?}");
        waiting.begin();
        assert_eq!(waiting.limit(), FIRST);
        assert_eq!(waiting.again(FIRST), None, "the time is for all steps together");
    }
}
