//! When what this process has parked for a moment is due. The process that does a queue's chores knows what waits there as of its last look; a
//! retry that comes sooner than the next look only the process knows that has parked it. It returns it itself.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// What waits for longer is seen in time by whoever does the chores.
const SOON: Duration = Duration::from_secs(2);

/// No more times than this are remembered: with so many failures, others are returned with one of them.
const MOST: usize = 1000;

/// When what this process has parked and will return is due.
#[derive(Default)]
pub(crate) struct Dues {
    times: Mutex<BTreeSet<Instant>>,
    /// There is one more.
    pub(crate) sooner: Notify,
}

impl Dues {
    /// A message was parked just now, for so long.
    pub(crate) fn note(&self, now: Instant, wait: Duration) {
        let mut times = self.lock();
        if wait <= SOON && times.len() < MOST {
            times.insert(now + wait);
            self.sooner.notify_one();
        }
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.lock().first().copied()
    }

    /// Is something due by now? Whoever asks returns all of it.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let mut times = self.lock();
        let before = times.len();
        times.retain(|time| *time > now);
        times.len() < before
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Instant>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_time_and_what_waits_long_is_for_others() {
        let (dues, now) = (Dues::default(), Instant::now());
        dues.note(now, Duration::from_mins(1));
        assert_eq!(dues.next(), None);
        dues.note(now, Duration::from_millis(20));
        dues.note(now, Duration::from_millis(10));
        dues.note(now, Duration::from_millis(30));
        let at = now + Duration::from_millis(10);
        assert_eq!(dues.next(), Some(at));
        assert!(!dues.take(now) && dues.take(at) && !dues.take(at));
        assert_eq!(dues.next(), Some(at + Duration::from_millis(10)), "the others are not forgotten");
        assert!(dues.take(at + Duration::from_millis(20)) && dues.next().is_none());
    }
}
