//! What happened to the messages of a queue in some time, as stores keep it: one row per minute, queue, level and process.

use std::{sync::Arc, time::Duration};

use super::Histogram;
use crate::store::ProcessId;

/// What happened to the messages of a queue in some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages handed to a worker, each time one was.
    pub started: u64,
    /// Messages completed and committed.
    pub done: u64,
    /// Messages that failed for good.
    pub failed: u64,
    /// Runs that failed and are repeated.
    pub retried: u64,
    /// Runs that ended with a snooze, and are repeated.
    pub snoozed: u64,
    /// Messages that started after one of a lower level that was sent later, as far as one process can tell.
    pub overtaken: u64,
    /// Deliveries of a broker whose message was done already.
    pub duplicates: u64,
    /// Deliveries of a broker whose message somebody else was at.
    pub found_busy: u64,
    /// The time that slots were busy with them.
    pub busy: Duration,
    /// From send to first start, where it is known when a message was sent. What was delayed, retried or rescued is not in it.
    pub waiting: Histogram,
    /// Of each run that ended; messages that share a transaction share its time.
    pub running: Histogram,
}

impl Tally {
    /// Adds another one.
    pub fn merge(&mut self, other: &Tally) {
        self.started += other.started;
        self.done += other.done;
        self.failed += other.failed;
        self.retried += other.retried;
        self.snoozed += other.snoozed;
        self.overtaken += other.overtaken;
        self.duplicates += other.duplicates;
        self.found_busy += other.found_busy;
        self.busy += other.busy;
        self.waiting.merge(&other.waiting);
        self.running.merge(&other.running);
    }

    /// What happened since an earlier state of the same tally.
    #[must_use]
    pub fn since(&self, earlier: &Tally) -> Self {
        Tally {
            started: self.started.saturating_sub(earlier.started),
            done: self.done.saturating_sub(earlier.done),
            failed: self.failed.saturating_sub(earlier.failed),
            retried: self.retried.saturating_sub(earlier.retried),
            snoozed: self.snoozed.saturating_sub(earlier.snoozed),
            overtaken: self.overtaken.saturating_sub(earlier.overtaken),
            duplicates: self.duplicates.saturating_sub(earlier.duplicates),
            found_busy: self.found_busy.saturating_sub(earlier.found_busy),
            busy: self.busy.saturating_sub(earlier.busy),
            waiting: self.waiting.since(&earlier.waiting),
            running: self.running.since(&earlier.running),
        }
    }

    /// Runs that came to an end of their own.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.done + self.failed + self.retried + self.snoozed
    }
}

/// The place of a queue in a lane set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// The lane set.
    pub lanes: Arc<str>,
    /// The level.
    pub level: Arc<str>,
    /// How many levels are above it.
    pub rank: u16,
}

/// What one process has counted about one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The queue.
    pub queue: Arc<str>,
    /// Its place in a lane set, if it is in one.
    pub lane: Option<Lane>,
    /// The workers that run its messages; levels of a lane set share them.
    pub slots: u32,
    /// What happened.
    pub tally: Tally,
}

/// A stored minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatRow {
    /// Who counted; nobody, where the counts of all processes are added up.
    pub process: ProcessId,
    /// The minute, by the database's clock: which one it is, whenever it is read.
    pub minute: i64,
    /// How long ago the minute began, by the database's clock.
    pub age: Duration,
    /// What was counted.
    pub stat: Stat,
}
