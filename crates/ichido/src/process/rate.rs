//! A bucket: the first few may come at once, and those that follow only so often. Wake-ups to other processes and looks for due messages
//! have one.

use std::time::{Duration, Instant};

/// How often something may happen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// In the long run, once per this time.
    each: Duration,
    /// So many at once, after a quiet time.
    burst: u32,
    /// When as many are free again.
    full: Option<Instant>,
}

impl Rate {
    pub(crate) const fn new(each: Duration, burst: u32) -> Self {
        Rate { each, burst, full: None }
    }

    /// How long until the next may come.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.until_full(now).saturating_sub(self.each * self.burst.saturating_sub(1))
    }

    /// One comes now.
    pub(crate) fn take(&mut self, now: Instant) {
        self.full = Some(now + self.until_full(now) + self.each);
    }

    /// How long until it is as if nothing had come.
    pub(crate) fn until_full(&self, now: Instant) -> Duration {
        self.full.map(|full| full.saturating_duration_since(now)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_come_at_once_and_the_others_one_by_one() {
        let (mut rate, now) = (Rate::new(Duration::from_millis(10), 3), Instant::now());
        for _ in 0..3 {
            assert_eq!(rate.wait(now), Duration::ZERO);
            rate.take(now);
        }
        assert_eq!(rate.wait(now), Duration::from_millis(10));
        let later = now + Duration::from_millis(10);
        assert_eq!(rate.wait(later), Duration::ZERO);
        rate.take(later);
        assert_eq!(rate.wait(later), Duration::from_millis(10));
        let quiet = later + rate.until_full(later);
        assert_eq!((rate.until_full(later), rate.until_full(quiet)), (Duration::from_millis(30), Duration::ZERO));
    }
}
