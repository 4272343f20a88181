//! The last hour, minute by minute, from what processes have counted (`ichido_stat`): the series that charts draw. No queue's table is
//! looked at for it.

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    stat::{Histogram, StatRow, Tally},
    store::ProcessId,
};

use super::{
    chart::{Across, Chart, Series, spark},
    scale::{Scale, decimal},
};

/// How many minutes are drawn.
pub(super) const MINUTES: usize = 60;

/// So far back rows are read.
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// A minute that has just begun says little about its rate.
const BEGUN: f64 = 5.0;

const NOTHING: &str = "Processes write what they have done once a minute.";

/// What happened in each minute, by queue; the current minute is the last.
pub(super) struct Hour {
    queues: BTreeMap<String, Vec<Tally>>,
    /// How many seconds of the current minute are over.
    current: f64,
    /// The slots of each process, by the lane set or queue that they are for, and how long ago that was told.
    slots: BTreeMap<(ProcessId, String), (Duration, u32)>,
}

impl Hour {
    /// Adds up what all processes have counted.
    pub(super) fn of(rows: &[StatRow]) -> Self {
        let mut hour = Hour { queues: BTreeMap::new(), current: 60.0, slots: BTreeMap::new() };
        for row in rows {
            let shared = row.stat.lane.as_ref().map_or(&row.stat.queue, |lane| &lane.lanes);
            let told = hour.slots.entry((row.process, shared.to_string())).or_insert((row.age, row.stat.slots));
            if row.age <= told.0 {
                *told = (row.age, row.stat.slots);
            }
            let Some(at) = usize::try_from(row.age.as_secs() / 60).ok().and_then(|ago| (MINUTES - 1).checked_sub(ago))
            else {
                continue;
            };
            let minutes = hour.queues.entry(row.stat.queue.to_string());
            minutes.or_insert_with(|| vec![Tally::default(); MINUTES])[at].merge(&row.stat.tally);
            if at == MINUTES - 1 {
                hour.current = row.age.as_secs_f64();
            }
        }
        hour
    }

    /// How much a count in this minute is per minute.
    fn factor(&self, at: usize) -> f64 {
        if at < MINUTES - 1 {
            1.0
        } else if self.current < BEGUN {
            0.0
        } else {
            60.0 / self.current
        }
    }

    fn counts(&self, queue: &str, of: impl Fn(&Tally) -> u64) -> Vec<f64> {
        let minutes = self.queues.get(queue).map(Vec::as_slice).unwrap_or_default();
        minutes.iter().enumerate().map(|(at, tally)| per_minute(of(tally)) * self.factor(at)).collect()
    }

    fn counted(&self, name: &str, queue: &str, of: impl Fn(&Tally) -> u64) -> Series {
        let mut values: Vec<_> = self.counts(queue, of).into_iter().map(Some).collect();
        values.resize(MINUTES, None);
        Series { name: name.into(), values, target: None }
    }

    fn quantile(&self, name: &str, queue: &str, per_mille: u64, of: impl Fn(&Tally) -> &Histogram) -> Series {
        let minutes = self.queues.get(queue).map(Vec::as_slice).unwrap_or_default();
        let wait = |tally: &Tally| of(tally).quantile(per_mille).map(|time| time.as_secs_f64() * 1000.0);
        let mut values: Vec<_> = minutes.iter().map(wait).collect();
        values.resize(MINUTES, None);
        Series { name: name.into(), values, target: None }
    }

    /// Completed messages per minute, of these queues by these names.
    pub(super) fn throughput(&self, queues: &[Named]) -> Chart {
        let series: Vec<_> = queues.iter().map(|one| self.counted(&one.name, &one.queue, |tally| tally.done)).collect();
        let chart = Chart::columns("Completed per minute", Scale::counts(), &series, &last_hour());
        chart.note("by queue, last hour").or_else(NOTHING)
    }

    /// The wait that 95 of 100 messages did not exceed, of these queues by these names.
    pub(super) fn waits(&self, queues: &[Named]) -> Chart {
        let wait = |one: &Named| {
            let target = one.target.map(|target| target.as_secs_f64() * 1000.0);
            Series { target, ..self.quantile(&one.name, &one.queue, 950, |tally| &tally.waiting) }
        };
        let chart = Chart::lines(
            "Waiting time, p95",
            Scale::times(),
            &queues.iter().map(wait).collect::<Vec<_>>(),
            &last_hour(),
        );
        chart.note("from send to first start, logarithmic").or_else("No message has started in the last hour.")
    }

    /// How the runs of one queue ended, per minute.
    pub(super) fn outcomes(&self, queue: &str) -> Chart {
        let series = vec![
            self.counted("done", queue, |tally| tally.done),
            self.counted("retried", queue, |tally| tally.retried),
            self.counted("snoozed", queue, |tally| tally.snoozed),
            self.counted("failed", queue, |tally| tally.failed),
        ];
        let chart = Chart::columns("Runs per minute", Scale::counts(), &series, &last_hour());
        chart.note("by how they ended, last hour").or_else(NOTHING)
    }

    /// Waiting and running times of one queue.
    pub(super) fn times(&self, queue: &str, target: Option<Duration>) -> Chart {
        let p95 = self.quantile("waited, p95", queue, 950, |tally| &tally.waiting);
        let series = vec![
            Series { target: target.map(|target| target.as_secs_f64() * 1000.0), ..p95 },
            self.quantile("waited, p50", queue, 500, |tally| &tally.waiting),
            self.quantile("ran, p95", queue, 950, |tally| &tally.running),
        ];
        let chart = Chart::lines("Waiting and running time", Scale::times(), &series, &last_hour());
        chart.note("logarithmic").or_else("No message has started in the last hour.")
    }

    /// How many workers a process has, as far as it has told; levels of a lane set share theirs.
    pub(super) fn slots(&self, process: &str) -> Option<u32> {
        let process: ProcessId = process.parse().ok()?;
        let told: Vec<_> =
            self.slots.iter().filter(|((told, _), _)| *told == process).map(|(_, (_, slots))| *slots).collect();
        (!told.is_empty()).then(|| told.iter().sum())
    }

    /// A small line of what was completed.
    pub(super) fn spark(&self, queue: &str) -> Option<String> {
        let counts = self.counts(queue, |tally| tally.done);
        // The current minute is not over.
        spark(counts.split_last().map_or(&[][..], |(_, over)| over))
    }
}

/// A queue and the name by which a chart tells it from others.
pub(super) struct Named {
    pub(super) queue: String,
    pub(super) name: String,
    pub(super) target: Option<Duration>,
}

fn per_minute(count: u64) -> f64 {
    decimal(usize::try_from(count).unwrap_or(usize::MAX))
}

fn last_hour() -> Across {
    let names = (0..MINUTES).map(|at| match MINUTES - 1 - at {
        0 => "now".to_owned(),
        ago => format!("{ago} min ago"),
    });
    let labels = [(0, "1 h ago"), (15, "45 min"), (30, "30 min"), (45, "15 min"), (60, "now")];
    let labels = labels.into_iter().map(|(at, text)| (at, text.to_owned())).collect();
    Across { name: "When", names: names.collect(), labels }
}

#[cfg(test)]
mod tests {
    use ichido::stat::Stat;

    use super::*;

    fn row(seconds: u64, done: u64, waited: u64) -> StatRow {
        let mut tally = Tally { done, ..Tally::default() };
        tally.waiting.add(Duration::from_secs(waited));
        let stat = Stat { queue: "orders".into(), lane: None, slots: 1, tally };
        StatRow { process: ProcessId::random(), minute: 0, age: Duration::from_secs(seconds), stat }
    }

    #[test]
    fn rows_of_all_processes_are_added_up_minute_by_minute() {
        let hour = Hour::of(&[row(30, 10, 1), row(30, 20, 1), row(90, 7, 2), row(4000, 99, 9)]);
        let counts = hour.counts("orders", |tally| tally.done);
        assert_eq!(counts.len(), MINUTES);
        assert_eq!(counts[MINUTES - 2..].iter().map(|count| count.round()).collect::<Vec<_>>(), [7.0, 60.0]);
        assert!(counts[0] == 0.0, "what is older than an hour is not drawn");
    }

    #[test]
    fn a_minute_that_has_just_begun_has_no_rate() {
        let hour = Hour::of(&[row(2, 10, 1)]);
        assert!(hour.throughput(&[named()]).is_empty());
        assert!(!hour.waits(&[named()]).is_empty());
    }

    fn named() -> Named {
        Named { queue: "orders".into(), name: "orders".into(), target: Some(Duration::from_secs(5)) }
    }
}
