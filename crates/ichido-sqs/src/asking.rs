//! What SQS was asked for one queue, and what its answers tell about the queue: whether it has more. It is asked by `subscription`. SQS itself
//! does not say so. It may bring fewer than were asked for, or nothing at all, although there is more; only a long poll that has waited for all of
//! its time has found the queue empty.

use std::time::{Duration, Instant};

/// What SQS has is here so soon after it was asked, if it does not usually take longer; a long poll that lasts longer has found nothing yet.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

/// The same after an answer with fewer than were asked for: then there is probably no more, and the levels below do not wait so long.
const PROBABLY_NOT: Duration = Duration::from_millis(20);

/// At most, and before the first answer.
const LONGEST_WAY: Duration = Duration::from_secs(1);

/// Receives and their answers.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Receives under way, and for how many messages.
    pub(crate) receives: usize,
    pub(crate) messages: usize,
    /// When the latest of them began.
    pub(crate) since: Option<Instant>,
    /// The queue had something when it was last known; none before the first answer.
    pub(crate) some: Option<bool>,
    /// The last one brought as many as were asked for.
    pub(crate) full: bool,
    /// How long those take that bring something at once.
    usual: Duration,
    /// Receives that failed in a row, and why the last one did.
    pub(crate) failures: u32,
    pub(crate) why_not: Option<String>,
}

impl Asking {
    /// A receive that might have waited so long has brought so many of those it asked for.
    pub(crate) fn heard(&mut self, [brought, asked]: [usize; 2], took: Duration, wait: Duration) {
        let waited = took > self.way();
        self.full = brought >= asked;
        (self.failures, self.why_not) = (0, None);
        if brought > 0 {
            // What had to be waited for had just been sent: there was nothing before it.
            self.some = Some(self.full || !waited);
            if took < 2 * LONGEST_WAY {
                self.usual = (self.usual * 3 + took) / 4;
            }
        } else if self.some.is_none() || took >= wait {
            self.some = Some(false);
        }
    }

    /// Would it have an answer by now if the queue had something?
    pub(crate) fn is_late(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= self.way())
    }

    fn way(&self) -> Duration {
        match (self.some, self.full) {
            (None, _) => LONGEST_WAY,
            (Some(_), true) => (self.usual * 4).clamp(ON_ITS_WAY, LONGEST_WAY),
            (Some(_), false) => (self.usual * 2).clamp(PROBABLY_NOT, ON_ITS_WAY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(20);
    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn only_a_long_poll_that_has_waited_finds_a_queue_empty() {
        let mut asking = Asking::default();
        asking.heard([3, 10], SOON, WAIT);
        assert_eq!((asking.some, asking.full), (Some(true), false), "fewer than were asked for");
        asking.heard([0, 10], SOON, WAIT);
        assert_eq!(asking.some, Some(true), "empty, but it has not waited");
        asking.heard([0, 10], WAIT, WAIT);
        assert_eq!(asking.some, Some(false));
        asking.heard([1, 1], WAIT / 2, WAIT);
        assert_eq!((asking.some, asking.full), (Some(true), true));
    }

    /// Ten a second, say: the levels below go on between two of them.
    #[test]
    fn a_message_that_was_waited_for_does_not_say_that_there_are_more() {
        let mut asking = Asking::default();
        asking.heard([1, 10], SOON, WAIT);
        assert_eq!(asking.some, Some(true), "it was there");
        asking.heard([1, 10], ON_ITS_WAY, WAIT);
        assert_eq!(asking.some, Some(false), "it came later");
    }

    #[test]
    fn a_slow_service_is_given_more_time() {
        let mut asking =
            Asking { some: Some(true), full: true, since: Instant::now().checked_sub(ON_ITS_WAY), ..Asking::default() };
        assert!(asking.is_late());
        (0..10).for_each(|_| asking.heard([10, 10], ON_ITS_WAY, WAIT));
        assert!(!asking.is_late());
    }
}
