//! Rows of `ichido_stat`: which columns they have, and how a [`Stat`] is in them. `verbs::stats` writes and reads them.

use std::time::Duration;

use ichido::{
    error::Result,
    stat::{Lane, Stat, StatRow, Tally},
    store::ProcessId,
};

/// What a row is about: the columns of its key.
pub(crate) const KEY: &str = "minute, queue, level, process";

/// What a row says, in the order in which it is written.
pub(crate) const VALUES: [&str; 14] = [
    "lanes",
    "levels_above",
    "slots",
    "started",
    "done",
    "failed",
    "retried",
    "overtaken",
    "busy_us",
    "duplicates",
    "found_busy",
    "snoozed",
    "waiting",
    "running",
];

/// How many columns that makes.
pub(crate) const COLUMNS: usize = 4 + VALUES.len();

/// Old rows of so many minutes are forgotten at a time.
const MINUTES_AT_A_TIME: i64 = 60;

/// What is written into, or read from, the columns of a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatCells {
    pub(crate) queue: String,
    pub(crate) level: String,
    pub(crate) lanes: String,
    /// The numbers from `levels_above` to `snoozed`.
    pub(crate) numbers: [i64; 11],
    pub(crate) waiting: String,
    pub(crate) running: String,
}

impl StatCells {
    /// A stat as it is written.
    pub(crate) fn of(stat: &Stat) -> Self {
        let Tally { started, done, failed, retried, snoozed, overtaken, duplicates, found_busy, busy, .. } =
            &stat.tally;
        let (lanes, level, above) =
            stat.lane.as_ref().map_or(("", "", 0), |lane| (&*lane.lanes, &*lane.level, lane.rank));
        let busy = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
        let (above, slots) = (above.into(), stat.slots.into());
        let numbers =
            [above, slots, *started, *done, *failed, *retried, *overtaken, busy, *duplicates, *found_busy, *snoozed];
        StatCells {
            queue: stat.queue.to_string(),
            level: level.to_owned(),
            lanes: lanes.to_owned(),
            numbers: numbers.map(|number| i64::try_from(number).unwrap_or(i64::MAX)),
            waiting: stat.tally.waiting.to_string(),
            running: stat.tally.running.to_string(),
        }
    }

    /// The row that was read.
    pub(crate) fn row(self, process: &str, minute: i64, age_seconds: i64) -> Result<StatRow> {
        let [above, slots, started, done, failed, retried, overtaken, busy, duplicates, found_busy, snoozed] =
            self.numbers.map(|number| u64::try_from(number).unwrap_or_default());
        let tally = Tally {
            started,
            done,
            failed,
            retried,
            snoozed,
            overtaken,
            duplicates,
            found_busy,
            busy: Duration::from_micros(busy),
            waiting: self.waiting.parse()?,
            running: self.running.parse()?,
        };
        let rank = u16::try_from(above).unwrap_or(u16::MAX);
        let lane = Lane { lanes: self.lanes.into(), level: self.level.into(), rank };
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let stat = Stat { queue: self.queue.into(), lane: (!lane.level.is_empty()).then_some(lane), slots, tally };
        let age = Duration::from_secs(u64::try_from(age_seconds).unwrap_or_default());
        Ok(StatRow { process: process.parse::<ProcessId>()?, minute, age, stat })
    }
}

/// The minutes before `before` that are forgotten now, if the oldest row is of this minute.
pub(crate) fn pruned_before(oldest: i64, before: i64) -> i64 {
    before.min(oldest.saturating_add(MINUTES_AT_A_TIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let mut tally = Tally { started: 5, done: 2, failed: 1, retried: 1, overtaken: 3, ..Tally::default() };
        tally.busy = Duration::from_micros(123_456_789);
        (tally.duplicates, tally.found_busy, tally.snoozed) = (7, 9, 11);
        tally.waiting.add(Duration::from_secs(3));
        tally.running.add(Duration::from_millis(3));
        let lane = Lane { lanes: "mail".into(), level: "free".into(), rank: 1 };
        for lane in [None, Some(lane)] {
            let stat = Stat { queue: "m".into(), lane, slots: 8, tally: tally.clone() };
            let process = ProcessId::random();
            let row = StatCells::of(&stat).row(&process.to_string(), 7, 61).unwrap();
            assert_eq!(row, StatRow { process, minute: 7, age: Duration::from_secs(61), stat });
        }
    }
}
