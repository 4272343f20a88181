//! The line that tells how far a process has come: what it has done, how fast, what is left and how long that will take. Upkeep
//! writes it, with one look at each queue per line; while very many messages are left, not with every line.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use crate::{
    Store,
    inspect::MOST_COUNTED,
    observe::journal::Journal,
    store::{self, Registration},
};

/// A count that reached its bound is not made again before this many times as long as it took: all processes of a fleet count the same queues.
const REST: u32 = 200;

/// What was told last.
pub(crate) struct Progress {
    every: Duration,
    since: Instant,
    ended: u64,
    /// When the queues may be counted again.
    counts_from: Instant,
}

/// What waits in all queues together, as far as it was counted.
#[derive(Default)]
struct Left {
    left: Option<u64>,
    /// There may be more than that.
    more: Option<bool>,
}

impl Progress {
    /// From now on. The journal is older where the process has begun anew after a fault.
    pub(crate) fn new(every: Duration, now: Instant, journal: &Journal) -> Self {
        let ended = journal.done.load(Ordering::Relaxed) + journal.failed.load(Ordering::Relaxed);
        Progress { every, since: now, ended, counts_from: now }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.every.is_zero() && now - self.since >= self.every
    }

    /// Tells, unless nothing has happened and nothing waits.
    pub(crate) async fn tell<S: Store>(&mut self, store: &S, by: &Registration, journal: &Journal, now: Instant) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let Left { left, more } =
            if now < self.counts_from { Left::default() } else { self.count(store, by, now).await };
        let [done, failed, retried, snoozed] = [&journal.done, &journal.failed, &journal.retried, &journal.snoozed]
            .map(|count| count.load(Ordering::Relaxed));
        let (ended, elapsed) = (done + failed, now - self.since);
        let rate = rate(ended - self.ended, elapsed);
        if ended > self.ended || left > Some(0) {
            let seconds_left = left.filter(|left| *left > 0).and_then(|left| seconds(left, rate));
            tracing::info!(done, failed, retried, snoozed, per_second = rate, left, more, seconds_left, "progress");
        }
        (self.since, self.ended) = (now, ended);
    }

    async fn count<S: Store>(&mut self, store: &S, by: &Registration, now: Instant) -> Left {
        let (mut all, began) = (Left::default(), Instant::now());
        for queue in by.queues.keys() {
            match store::backlog(store, queue, MOST_COUNTED).await {
                Ok(Some(waiting)) => {
                    all.left = Some(all.left.unwrap_or(0) + waiting);
                    all.more = all.more.or((waiting >= MOST_COUNTED).then_some(true));
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(error = %error.in_full(), "cannot count the messages left"),
            }
        }
        if all.more.is_some() {
            self.counts_from = now + began.elapsed() * REST;
        }
        all
    }
}

/// Messages per second, to a tenth.
#[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
fn rate(messages: u64, time: Duration) -> f64 {
    (messages as f64 / time.as_secs_f64().max(0.001) * 10.0).round() / 10.0
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate for people to read"
)]
fn seconds(messages: u64, rate: f64) -> Option<u64> {
    (rate > 0.0).then(|| (messages as f64 / rate).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Masks;

    #[test]
    fn what_was_done_before_an_outage_does_not_count_as_done_since() {
        let now = Instant::now();
        let journal = Journal::new(Masks::default(), String::new(), now);
        journal.done.store(5000, Ordering::Relaxed);
        journal.failed.store(3, Ordering::Relaxed);
        assert_eq!(Progress::new(Duration::from_secs(10), now, &journal).ended, 5003);
    }

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done() {
        assert_eq!(rate(1234, Duration::from_secs(10)).to_string(), "123.4");
        assert_eq!(seconds(1000, 123.4), Some(9));
        assert_eq!(seconds(1000, 0.0), None, "nobody can tell");
    }
}
