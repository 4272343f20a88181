//! What the fleet has done since this console was first asked. Processes write what they count for each minute as a whole, and again while the
//! minute lasts; after an hour the rows of all of them become one, and one day they are gone. What stays the same through all of that, and only
//! grows, is the sum over a minute's rows. So a minute counts by how much its sum has grown beyond the largest that was seen of it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ichido::stat::{StatRow, Tally};

/// A minute is written once more some time after its end.
const LATE: Duration = Duration::from_mins(3);

/// A process that could not reach the database writes what it had counted before into the minute in which it last could.
const AFTER_AN_OUTAGE: Duration = Duration::from_hours(1);

/// So often such minutes are looked for.
const LOOK_FOR_OUTAGES: Duration = Duration::from_mins(5);

/// What is older was seen, or never will be.
pub(crate) const LONGEST: Duration = Duration::from_hours(24);

/// Sums are remembered for longer than a look for outages goes back.
const REMEMBERED_MINUTES: i64 = 120;

/// Queue and level.
pub(super) type Of = (String, String);

/// The counters, and what they were made of.
#[derive(Default)]
pub(crate) struct Counters(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    /// When an hour was last read.
    far_at: Option<Instant>,
    /// By minute, and in it by queue and level.
    minutes: BTreeMap<i64, BTreeMap<Of, Tally>>,
    /// Minutes before this one do not count: they were over when this console was first asked, or their sums are forgotten.
    first: i64,
    totals: BTreeMap<Of, Tally>,
}

impl Counters {
    /// So far back must be read, at this moment.
    pub(super) fn unread(&self, now: Instant) -> Duration {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        let lately = since(seen.at).unwrap_or_default() + LATE;
        let far = since(seen.far_at).is_none_or(|since| since >= LOOK_FOR_OUTAGES);
        lately.max(if far { AFTER_AN_OUTAGE } else { Duration::ZERO }).min(LONGEST)
    }

    /// With what was read, so far back, at this moment.
    pub(super) fn add(&self, rows: &[StatRow], back: Duration, now: Instant) -> BTreeMap<Of, Tally> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = seen.at.is_none();
        seen.at = seen.at.max(Some(now));
        if back >= AFTER_AN_OUTAGE {
            seen.far_at = seen.far_at.max(Some(now));
        }
        let minutes = sums(rows);
        if is_first {
            seen.first = minutes.keys().next().copied().unwrap_or_default();
        }
        for (minute, queues) in minutes {
            if minute >= seen.first {
                seen.grow(minute, queues, is_first);
            }
        }
        seen.forget();
        seen.totals.clone()
    }
}

impl Seen {
    /// Counts by how much the sums of a minute have grown. What was there before the first question does not count.
    fn grow(&mut self, minute: i64, queues: BTreeMap<Of, Tally>, is_first: bool) {
        let known = self.minutes.entry(minute).or_default();
        for (of, sum) in queues {
            let known = known.entry(of.clone()).or_default();
            let grown = sum.since(known);
            // Not the sum itself: rows may be missing this time, and must not count again when they are back.
            known.merge(&grown);
            let total = self.totals.entry(of).or_default();
            if !is_first {
                total.merge(&grown);
            }
        }
    }

    fn forget(&mut self) {
        let Some(newest) = self.minutes.keys().next_back() else { return };
        self.first = self.first.max(newest - REMEMBERED_MINUTES);
        self.minutes = self.minutes.split_off(&self.first);
    }
}

/// All processes together.
fn sums(rows: &[StatRow]) -> BTreeMap<i64, BTreeMap<Of, Tally>> {
    let mut minutes: BTreeMap<i64, BTreeMap<Of, Tally>> = BTreeMap::new();
    for row in rows {
        let level = row.stat.lane.as_ref().map_or_else(String::new, |lane| lane.level.to_string());
        let of = (row.stat.queue.to_string(), level);
        minutes.entry(row.minute).or_default().entry(of).or_default().merge(&row.stat.tally);
    }
    minutes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ichido::{stat::Stat, store::ProcessId};

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn row(process: ProcessId, minute: i64, done: u64) -> StatRow {
        let mut tally = Tally { done, ..Tally::default() };
        (0..done).for_each(|_| tally.running.add(Duration::from_secs(1)));
        let stat = Stat { queue: Arc::from("orders"), lane: None, slots: 1, tally };
        StatRow { process, minute, age: Duration::from_secs(30), stat }
    }

    /// A console that was asked once, when nothing had been counted.
    fn asked() -> Counters {
        let counters = Counters::default();
        assert!(counters.add(&[], HOUR, Instant::now()).is_empty());
        counters
    }

    fn done(counters: &Counters, rows: &[StatRow]) -> u64 {
        let total = counters.add(rows, HOUR, Instant::now())[&("orders".to_owned(), String::new())].clone();
        assert_eq!(total.running.count(), total.done, "histograms are counted likewise");
        total.done
    }

    #[test]
    fn a_row_that_is_written_again_counts_by_what_it_has_grown() {
        let (counters, process) = (asked(), ProcessId::random());
        assert_eq!(done(&counters, &[row(process, 100, 5)]), 5);
        assert_eq!(done(&counters, &[row(process, 100, 5)]), 5, "nothing happened");
        assert_eq!(done(&counters, &[row(process, 100, 7), row(process, 99, 3)]), 10, "the minute before came late");
        assert_eq!(done(&counters, &[row(process, 100, 7), row(ProcessId::random(), 100, 1)]), 11, "another process");
    }

    #[test]
    fn rows_that_are_added_up_count_once() {
        let (counters, one, two) = (asked(), ProcessId::random(), ProcessId::random());
        assert_eq!(done(&counters, &[row(one, 100, 5), row(two, 100, 4)]), 9);
        assert_eq!(done(&counters, &[row(ProcessId::NOBODY, 100, 9)]), 9, "the same counts in one row");
        assert_eq!(done(&counters, &[row(ProcessId::NOBODY, 100, 9), row(one, 100, 2)]), 11, "and a late one");
        assert_eq!(done(&counters, &[row(ProcessId::NOBODY, 100, 11)]), 11, "which is added up too");
    }

    #[test]
    fn rows_that_are_pruned_or_missing_take_nothing_away_and_do_not_count_again() {
        let (counters, one, two) = (asked(), ProcessId::random(), ProcessId::random());
        let rows = [row(one, 100, 5), row(two, 100, 4), row(one, 101, 1)];
        assert_eq!(done(&counters, &rows), 10);
        assert_eq!(done(&counters, &rows[1..]), 10, "a row was left out");
        assert_eq!(done(&counters, &rows), 10, "and is back");
        assert_eq!(done(&counters, &rows[2..]), 10, "a minute was pruned");
        assert_eq!(done(&counters, &[row(one, 100 + 3 * REMEMBERED_MINUTES, 1)]), 11, "its sums are forgotten");
        assert_eq!(done(&counters, &rows), 11, "but never counted again");
    }

    #[test]
    fn what_was_there_before_the_first_question_does_not_count() {
        let (counters, process) = (Counters::default(), ProcessId::random());
        assert_eq!(done(&counters, &[row(process, 100, 5), row(process, 99, 8)]), 0);
        assert_eq!(done(&counters, &[row(process, 100, 6), row(process, 99, 8), row(process, 98, 8)]), 1);
    }

    #[test]
    fn what_was_not_read_yet_is_read_and_now_and_then_an_hour() {
        let (counters, begun) = (Counters::default(), Instant::now());
        assert_eq!(counters.unread(begun), HOUR);
        counters.add(&[], HOUR, begun);
        let at = |minutes| begun + Duration::from_mins(minutes);
        assert_eq!(counters.unread(at(1)), LATE + Duration::from_mins(1));
        counters.add(&[], Duration::from_mins(4), at(4));
        assert_eq!(counters.unread(at(5)), HOUR, "who was cut off may be back");
        assert_eq!(counters.unread(at(304)), LATE + Duration::from_hours(5), "nobody asked for hours");
        assert_eq!(counters.unread(at(10_000)), LONGEST);
    }
}
