//! When what this process has parked for a moment is due. The process that does a queue's chores knows what waits there as of its last look; a
//! retry that comes sooner than the next look only the process knows that has parked it. It returns it itself.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// What waits for longer is seen in time by whoever does the chores.
const SOON: Duration = Duration::from_secs(2);

/// The earliest of what this process has parked and will return.
#[derive(Default)]
pub(crate) struct Dues {
    next: Mutex<Option<Instant>>,
    /// It has become earlier.
    pub(crate) sooner: Notify,
}

impl Dues {
    /// A message was parked just now, for so long.
    pub(crate) fn note(&self, now: Instant, wait: Duration) {
        if wait > SOON {
            return;
        }
        let (at, mut next) = (now + wait, self.lock());
        if next.is_none_or(|next| at < next) {
            *next = Some(at);
            self.sooner.notify_one();
        }
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        *self.lock()
    }

    /// Is something due by now? Whoever asks returns it, and looks what is next.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let mut next = self.lock();
        let due = next.is_some_and(|next| next <= now);
        if due {
            *next = None;
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_counts_and_what_waits_long_is_for_others() {
        let (dues, now) = (Dues::default(), Instant::now());
        dues.note(now, Duration::from_mins(1));
        assert_eq!(dues.next(), None);
        dues.note(now, Duration::from_millis(20));
        dues.note(now, Duration::from_millis(10));
        dues.note(now, Duration::from_millis(30));
        let at = now + Duration::from_millis(10);
        assert_eq!(dues.next(), Some(at));
        assert!(!dues.take(now) && dues.take(at) && !dues.take(at));
    }
}
