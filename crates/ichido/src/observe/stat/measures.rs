//! What a process knows about itself and its queues at one moment, for monitors: the counters of its workers, its slots, its heartbeat,
//! and what waits in the queues whose chores it does. [`Probe::measures`](crate::process::Probe::measures) reads it, without a query;
//! how it is written for a monitor is `ichido-metrics`' business.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Backlog, Tally};

/// A count older than this is not told: whoever made it cannot reach the database, or does the queue's chores no longer.
const STALE: Duration = Duration::from_mins(1);

/// What a process knows at one moment.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Measures {
    /// The queues that it serves, and those that its actions have sent to.
    pub queues: Vec<QueueMeasures>,
    /// The workers of its actions.
    pub slots: Vec<ActionSlots>,
    /// How long ago it wrote its last heartbeat.
    pub heartbeat_age: Duration,
}

/// What a process knows about one queue. Counters begin with the process, and again if it registers anew after an outage.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueMeasures {
    /// The queue.
    pub queue: Arc<str>,
    /// The level of a lane set that it is.
    pub level: Option<Arc<str>>,
    /// Messages that actions of this process have sent to it and committed.
    pub sent: u64,
    /// Statements that claimed messages, or found none; none if this process does not serve the queue.
    pub claims: Option<u64>,
    /// What happened to its messages here.
    pub tally: Tally,
    /// The sum of all waiting times.
    pub waited: Duration,
    /// The sum of all running times.
    pub ran: Duration,
    /// What waits in it; only if this process does its chores, and at most a minute old.
    pub backlog: Option<Backlog>,
}

/// The workers of an action.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ActionSlots {
    /// The action.
    pub action: Arc<str>,
    /// How many workers it has.
    pub slots: usize,
    /// How many of them are at a message.
    pub busy: usize,
}

impl QueueMeasures {
    pub(crate) fn new(queue: Arc<str>) -> Self {
        QueueMeasures {
            queue,
            level: None,
            sent: 0,
            claims: None,
            tally: Tally::default(),
            waited: Duration::ZERO,
            ran: Duration::ZERO,
            backlog: None,
        }
    }
}

impl ActionSlots {
    pub(crate) fn new(action: Arc<str>, slots: usize, busy: usize) -> Self {
        ActionSlots { action, slots, busy }
    }
}

/// What waits in the queues whose chores this process does, as last counted.
#[derive(Default)]
pub(crate) struct Backlogs(Mutex<BTreeMap<Arc<str>, (Instant, Backlog)>>);

impl Backlogs {
    pub(crate) fn note(&self, queue: &Arc<str>, backlog: Option<Backlog>, now: Instant) {
        match backlog {
            Some(backlog) => drop(self.known().insert(queue.clone(), (now, backlog))),
            None => drop(self.known().remove(queue)),
        }
    }

    /// Only of these queues: another process does the chores of the others.
    pub(crate) fn keep(&self, is_ours: impl Fn(&Arc<str>) -> bool) {
        self.known().retain(|queue, _| is_ours(queue));
    }

    pub(crate) fn of(&self, queue: &str, now: Instant) -> Option<Backlog> {
        let known = self.known();
        let (counted, backlog) = known.get(queue)?;
        (now.saturating_duration_since(*counted) <= STALE).then_some(*backlog)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, (Instant, Backlog)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_told_until_it_is_stale_or_the_queue_is_anothers() {
        let (backlogs, now) = (Backlogs::default(), Instant::now());
        let counted = Backlog { ready: 7, ..Backlog::default() };
        for queue in ["orders", "mail"] {
            backlogs.note(&queue.into(), Some(counted), now);
        }
        assert_eq!(backlogs.of("orders", now + STALE), Some(counted));
        assert_eq!(backlogs.of("orders", now + STALE + Duration::from_millis(1)), None);
        backlogs.keep(|queue| &**queue == "mail");
        assert_eq!((backlogs.of("orders", now), backlogs.of("mail", now)), (None, Some(counted)));
        backlogs.note(&"mail".into(), None, now);
        assert_eq!(backlogs.of("mail", now), None);
    }
}
