//! May this process declare others dead? Only if it was awake and reached the database for long enough: after an outage, or after a
//! sleep of the whole machine, others have had no better chance to send their heartbeats than this one. The heartbeat writes it, rescue asks.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long this process has been alive without a gap.
pub(super) struct Steady {
    lease: Duration,
    /// So long it must have been.
    after: Duration,
    times: Mutex<Times>,
}

struct Times {
    /// The last heartbeat that was written.
    beat: Instant,
    /// No gap and no failure since then.
    since: Instant,
}

impl Steady {
    pub(super) fn new(lease: Duration, after: Duration, now: Instant) -> Self {
        Steady { lease, after, times: Mutex::new(Times { beat: now, since: now }) }
    }

    /// A heartbeat was written.
    pub(super) fn beat(&self, now: Instant) {
        let gap = self.has_gap(now);
        let mut times = self.times();
        if gap {
            times.since = now;
        }
        times.beat = now;
    }

    /// Something failed: others may have been cut off as well, and have time to come back before anybody declares them dead.
    pub(super) fn doubt(&self, now: Instant) {
        self.times().since = now;
    }

    /// The process has begun anew.
    pub(super) fn restart(&self, now: Instant) {
        *self.times() = Times { beat: now, since: now };
    }

    /// Is the last heartbeat so long ago that this process itself may count as dead soon?
    pub(super) fn has_gap(&self, now: Instant) -> bool {
        now - self.times().beat > self.lease / 2
    }

    /// May it declare others dead? Also now, when it may just have been asleep.
    pub(super) fn is_steady(&self, now: Instant) -> bool {
        !self.has_gap(now) && now - self.times().since >= self.after
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
