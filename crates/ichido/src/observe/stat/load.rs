//! What a queue had to do in the last minutes, and with how many slots: the rows of all processes added up, beside what waits now.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{Histogram, Lane, StatRow, Tally, WINDOW};
use crate::{
    inspect::{MOST_COUNTED, Overview, QueueCounts},
    store::ProcessId,
};

/// A row's minute is this long, and what is in it happened half of it later than it began.
const HALF_A_MINUTE: Duration = Duration::from_secs(30);

/// What waits in a queue now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Messages that can be claimed; at [`MOST_COUNTED`] there may be more.
    pub ready: u64,
    /// Messages that somebody has claimed.
    pub claimed: u64,
    /// Those that can be claimed and were sent in the window; none if nothing tells when a message was sent.
    pub recent: Option<u64>,
    /// For how long the oldest has waited.
    pub oldest: Option<Duration>,
    /// Messages that wait to be published; none where no broker keeps the queue.
    pub unpublished: Option<u64>,
}

impl Backlog {
    /// What a store has counted.
    #[must_use]
    pub fn of(counts: &QueueCounts) -> Self {
        let number = |count: i64| u64::try_from(count).unwrap_or_default();
        Backlog {
            ready: number(counts.ready),
            claimed: number(counts.claimed),
            recent: counts.recent.map(number),
            oldest: counts.oldest_seconds.map(|seconds| Duration::from_secs(number(seconds))),
            unpublished: counts.outbox.as_ref().map(|outbox| outbox.unpublished),
        }
    }

    /// Are there more than were counted?
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.ready >= MOST_COUNTED
    }
}

/// What a queue had to do in the last minutes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Load {
    /// The queue.
    pub queue: String,
    /// Its place in a lane set, if it is in one.
    pub lane: Option<Lane>,
    /// How long it was looked at: the window, or as long as anybody has been there.
    pub span: Duration,
    /// The workers of live processes that ran its messages; levels of a lane set share them.
    pub slots: u32,
    /// What happened.
    pub tally: Tally,
    /// Messages that arrived; none if nothing tells when a message was sent.
    pub arrived: Option<u64>,
    /// The time in which they arrived.
    pub arrived_in: Duration,
    /// What waits now.
    pub backlog: Backlog,
    /// It is a level that shares no slots with the others.
    pub own_slots: bool,
    /// The wait that 95 of 100 messages should not exceed.
    pub target: Option<Duration>,
}

/// Adds up the rows of the last minutes, for each of these queues. `alive` are the live processes and their ages.
#[must_use]
pub fn loads(
    rows: &[StatRow],
    queues: &[(String, Backlog)],
    alive: &BTreeMap<ProcessId, Duration>,
    window: Duration,
) -> Vec<Load> {
    let oldest = rows.iter().map(|row| row.age).chain(alive.values().copied()).max();
    let span = oldest.unwrap_or_default().min(window).max(Duration::from_secs(1));
    let load = |(queue, backlog): &(String, Backlog)| {
        let own: Vec<_> = rows.iter().filter(|row| *row.stat.queue == **queue).collect();
        Load::of(queue.clone(), &own, *backlog, alive, (span, window))
    };
    queues.iter().map(load).collect()
}

/// The same for all queues of an overview.
#[must_use]
pub fn loads_of(overview: &Overview, rows: &[StatRow]) -> Vec<Load> {
    let queues: Vec<_> = overview.queues.iter().map(|counts| (counts.queue.clone(), Backlog::of(counts))).collect();
    let age = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let alive = overview.processes.iter().filter(|process| process.alive);
    let alive = alive.filter_map(|process| Some((process.id.parse().ok()?, age(process.age_seconds))));
    loads(rows, &queues, &alive.collect(), WINDOW)
}

impl Load {
    fn of(
        queue: String,
        rows: &[&StatRow],
        backlog: Backlog,
        alive: &BTreeMap<ProcessId, Duration>,
        (span, window): (Duration, Duration),
    ) -> Self {
        let mut tally = Tally::default();
        let (mut slots, mut arrived) = (BTreeMap::new(), 0);
        for row in rows {
            tally.merge(&row.stat.tally);
            if alive.contains_key(&row.process) {
                slots.insert(row.process, row.stat.slots);
            }
            // What had waited longer when it started was sent before the window.
            let before = row.age.saturating_sub(HALF_A_MINUTE);
            arrived += row.stat.tally.waiting.up_to(window.saturating_sub(before));
        }
        Load {
            queue,
            lane: rows.iter().find_map(|row| row.stat.lane.clone()),
            span,
            slots: slots.values().sum(),
            tally,
            arrived: backlog.recent.map(|recent| recent + arrived),
            arrived_in: span.max(backlog.oldest.unwrap_or_default()).min(window),
            backlog,
            own_slots: false,
            target: None,
        }
    }

    /// The name that operators know it by.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lane.as_ref().map_or(&self.queue, |lane| &lane.level)
    }

    /// Messages that arrive in a second.
    #[must_use]
    pub fn arrivals(&self) -> Option<f64> {
        self.arrived.map(|arrived| number(arrived) / self.arrived_in.as_secs_f64())
    }

    /// The slot time that a run takes on average; none if none has ended.
    #[must_use]
    pub fn service(&self) -> Option<Duration> {
        let ended = u32::try_from(self.tally.ended()).ok().filter(|ended| *ended > 0)?;
        Some((self.tally.busy / ended).max(Duration::from_micros(1)))
    }

    /// Runs per second that its slots are good for, if they do nothing else.
    #[must_use]
    pub fn capacity(&self) -> Option<f64> {
        self.service().map(|service| f64::from(self.slots) / service.as_secs_f64())
    }

    /// The number of slots that what arrives, and what is repeated, keeps busy on average.
    #[must_use]
    pub fn offered(&self) -> Option<f64> {
        let repeated = number(self.tally.retried + self.tally.snoozed) / self.span.as_secs_f64();
        Some((self.arrivals()? + repeated) * self.service()?.as_secs_f64())
    }

    /// The part of its slots' time that it had, 0 to 1.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let all = f64::from(self.slots) * self.span.as_secs_f64();
        (self.slots > 0).then(|| (self.tally.busy.as_secs_f64() / all).min(1.0))
    }

    /// The same in numbers, for programs.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let per_minute = |count: u64, time: Duration| number(count) / time.as_secs_f64() * 60.0;
        Summary {
            queue: self.queue.clone(),
            lanes: self.lane.as_ref().map(|lane| lane.lanes.to_string()),
            level: self.lane.as_ref().map(|lane| lane.level.to_string()),
            seconds: self.span.as_secs(),
            slots: self.slots,
            share_of_slots: self.share(),
            started: self.tally.started,
            done: self.tally.done,
            failed: self.tally.failed,
            retried: self.tally.retried,
            snoozed: self.tally.snoozed,
            overtaken: self.tally.overtaken,
            duplicates: self.tally.duplicates,
            found_busy: self.tally.found_busy,
            in_per_minute: self.arrived.map(|arrived| per_minute(arrived, self.arrived_in)),
            out_per_minute: per_minute(self.tally.done, self.span),
            waiting_ms: Quantiles::of(&self.tally.waiting),
            running_ms: Quantiles::of(&self.tally.running),
            target_ms: self.target.map(milliseconds),
        }
    }
}

/// A [`Load`] in numbers. What is unknown is null.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names are those of Load and Tally")]
#[non_exhaustive]
pub struct Summary {
    pub queue: String,
    pub lanes: Option<String>,
    pub level: Option<String>,
    pub seconds: u64,
    pub slots: u32,
    pub share_of_slots: Option<f64>,
    pub started: u64,
    pub done: u64,
    pub failed: u64,
    pub retried: u64,
    pub snoozed: u64,
    pub overtaken: u64,
    pub duplicates: u64,
    pub found_busy: u64,
    pub in_per_minute: Option<f64>,
    pub out_per_minute: f64,
    pub waiting_ms: Option<Quantiles>,
    pub running_ms: Option<Quantiles>,
    pub target_ms: Option<f64>,
}

/// In milliseconds; up to [`super::ERROR`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs, reason = "they say what they are")]
pub struct Quantiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

impl Quantiles {
    fn of(histogram: &Histogram) -> Option<Self> {
        let at = |per_mille| histogram.quantile(per_mille).map(milliseconds);
        Some(Quantiles { p50: at(500)?, p95: at(950)?, p99: at(990)? })
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "rates are for people, and counts far below 2^52")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::Stat;

    const MINUTE: Duration = Duration::from_mins(1);

    fn row(process: ProcessId, age: Duration, waits: &[u64], done: u64, busy: Duration) -> StatRow {
        let mut tally = Tally { started: done, done, busy, ..Tally::default() };
        for seconds in waits {
            tally.waiting.add(Duration::from_secs(*seconds));
        }
        StatRow { process, minute: 0, age, stat: Stat { queue: "orders".into(), lane: None, slots: 2, tally } }
    }

    #[test]
    fn rows_of_two_processes_are_added_up_and_only_live_slots_count() {
        let (one, two, dead) = (ProcessId::random(), ProcessId::random(), ProcessId::random());
        let rows = [
            row(one, MINUTE, &[1, 2], 2, MINUTE),
            row(one, MINUTE * 2, &[1], 1, Duration::from_secs(30)),
            row(two, MINUTE * 2, &[], 3, Duration::from_secs(30)),
            row(dead, MINUTE * 2, &[], 4, Duration::ZERO),
        ];
        let alive = [(one, MINUTE * 60), (two, MINUTE)].into();
        let backlog =
            Backlog { ready: 7, claimed: 0, recent: Some(5), oldest: Some(Duration::from_secs(9)), unpublished: None };
        let found = loads(&rows, &[("orders".into(), backlog)], &alive, MINUTE * 5);
        let [load] = &found[..] else { panic!("one queue") };
        assert_eq!((load.span, load.slots, load.tally.done), (MINUTE * 5, 4, 10));
        assert_eq!(load.arrived, Some(8), "three started, five still wait");
        assert_eq!(load.share(), Some(0.1), "two minutes of four times five");
        assert_eq!(load.service(), Some(Duration::from_secs(12)));
    }

    #[test]
    fn what_was_sent_before_the_window_has_not_arrived_in_it() {
        let me = ProcessId::random();
        // In the second row it had started four minutes ago, and only one of the two was sent in the last five.
        let rows =
            [row(me, MINUTE, &[1, 500], 2, Duration::ZERO), row(me, MINUTE * 4 + HALF_A_MINUTE, &[50, 70], 2, MINUTE)];
        let backlog = Backlog { recent: Some(0), ..Backlog::default() };
        let found = loads(&rows, &[("orders".into(), backlog)], &[(me, MINUTE)].into(), MINUTE * 5);
        assert_eq!((found[0].arrived, found[0].span), (Some(2), MINUTE * 4 + HALF_A_MINUTE));
        let unknown = loads(&rows, &[("orders".into(), Backlog::default())], &BTreeMap::new(), MINUTE * 5);
        assert_eq!((unknown[0].arrived, unknown[0].slots, unknown[0].share()), (None, 0, None));
    }
}
