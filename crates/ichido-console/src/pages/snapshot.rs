//! How everything is doing, as of a moment ago: read once for all pages and all browsers that are open. The slower the database answers, the
//! longer an answer is used, and the more there was to count in a queue, the longer its counts are, so that a console left open never costs more
//! than a small part of what work costs; each page says how old its counts are.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ichido::{by_hand::Standing, inspect::QueueCounts};
use tokio::sync::Mutex;

use super::{
    hour::{HOUR, Hour},
    words::seconds,
};
use crate::{Problem, desk::Look};

/// An answer is used at least this long.
const LEAST: Duration = Duration::from_secs(2);

/// And at most this long.
const MOST: Duration = Duration::from_secs(30);

/// An answer is used so many times as long as it took: about a thousandth of the time is spent on reading, which is little beside what workers
/// spend.
const PART: u32 = 1000;

/// The counts of a queue are used for a second for each so many messages that were counted. To count these takes a database about
/// a tenth of a millisecond.
const COUNTED: u64 = 1000;

/// The counts of a queue are used at most this long.
const LONGEST: Duration = Duration::from_mins(5);

/// What all pages begin with.
pub(crate) struct Snapshot {
    pub(super) standing: Standing,
    pub(super) hour: Hour,
    at: Instant,
    took: Duration,
    /// When each queue was counted.
    counted: BTreeMap<String, Instant>,
}

impl Snapshot {
    async fn take(look: &dyn Look, last: Option<&Snapshot>) -> Result<Self, Problem> {
        let at = Instant::now();
        let known = last.map(Snapshot::known).unwrap_or_default();
        let before = known.iter().filter_map(|known| Some((known.queue.clone(), *last?.counted.get(&known.queue)?)));
        let mut counted: BTreeMap<_, _> = before.collect();
        let standing = look.standing_beside(known).await?;
        for queue in &standing.overview.queues {
            counted.entry(queue.queue.clone()).or_insert(at);
        }
        let hour = Hour::of(&look.stats(HOUR).await?);
        Ok(Snapshot { standing, hour, at, took: at.elapsed(), counted })
    }

    fn is_fresh(&self) -> bool {
        self.at.elapsed() < (self.took * PART).clamp(LEAST, MOST)
    }

    /// The counts that need not be taken again yet.
    fn known(&self) -> Vec<QueueCounts> {
        let rests = |queue: &&QueueCounts| {
            self.counted.get(&queue.queue).is_some_and(|counted| counted.elapsed() < used_for(queue))
        };
        self.standing.overview.queues.iter().filter(rests).cloned().collect()
    }

    /// How old the oldest of its counts are, in words.
    pub(super) fn age(&self) -> String {
        let oldest = self.counted.values().min().unwrap_or(&self.at);
        match oldest.elapsed().as_secs() {
            0 => "just now".into(),
            age => format!("{} ago", seconds(i64::try_from(age).unwrap_or(i64::MAX))),
        }
    }
}

/// How long the counts of a queue are used.
fn used_for(counts: &QueueCounts) -> Duration {
    let all = [counts.ready, counts.claimed, counts.waiting, counts.failed];
    let unpublished = counts.outbox.as_ref().map_or(0, |outbox| outbox.unpublished);
    let all = all.iter().map(|count| count.unsigned_abs()).fold(unpublished, u64::saturating_add);
    Duration::from_secs(all / COUNTED).min(LONGEST)
}

/// The last one.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<Option<Arc<Snapshot>>>);

impl Snapshots {
    /// The last one if it is fresh; whoever comes meanwhile waits for the next, and does not ask the database too.
    pub(super) async fn get(&self, look: &dyn Look) -> Result<Arc<Snapshot>, Problem> {
        let mut last = self.0.lock().await;
        if let Some(snapshot) = last.as_ref().filter(|snapshot| snapshot.is_fresh()) {
            return Ok(Arc::clone(snapshot));
        }
        let snapshot = Arc::new(Snapshot::take(look, last.as_deref()).await?);
        *last = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Something was changed: whoever did it sees it.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ready: i64, failed: i64) -> QueueCounts {
        let queue = "orders".to_owned();
        let (claimed, waiting, held_groups) = (0, 0, 0);
        let (recent, oldest_seconds, outbox) = (None, None, None);
        QueueCounts { queue, ready, recent, claimed, waiting, failed, oldest_seconds, held_groups, outbox }
    }

    #[test]
    fn the_more_was_counted_the_longer_it_is_used() {
        assert_eq!(used_for(&counts(3, 5)), Duration::ZERO);
        assert_eq!(used_for(&counts(6000, 4000)), Duration::from_secs(10));
        assert_eq!(used_for(&counts(100_000, 0)), Duration::from_secs(100));
        assert_eq!(used_for(&counts(i64::MAX, 0)), LONGEST);
    }
}
