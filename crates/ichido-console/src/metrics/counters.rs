//! What the fleet has done since this console was first asked. Processes write what they count for each minute as a whole, and write it again while
//! the minute lasts; so each row counts by how much it has grown since it was last seen.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ichido::stat::{StatRow, Tally};

/// A minute is written once more some time after its end.
const LATE: Duration = Duration::from_mins(3);

/// What is older was seen, or never will be.
const LONGEST: Duration = Duration::from_hours(1);

/// Queue and level.
pub(super) type Of = (String, String);

/// The counters, and what they were made of.
#[derive(Default)]
pub(crate) struct Counters(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    at: Option<SystemTime>,
    /// By process, queue and minute.
    rows: BTreeMap<(String, String, u64), Tally>,
    totals: BTreeMap<Of, Tally>,
    /// What this host's clock and the database's differ by within a minute.
    offset: Option<u64>,
}

impl Counters {
    /// So far back must be read.
    pub(super) fn unread(&self) -> Duration {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = seen.at.and_then(|at| at.elapsed().ok()).unwrap_or_default();
        (since + LATE).min(LONGEST)
    }

    /// With what was read now.
    pub(super) fn add(&self, rows: &[StatRow]) -> BTreeMap<Of, Tally> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        seen.at = Some(SystemTime::now());
        for row in rows {
            let began = now.saturating_sub(row.age.as_secs());
            let offset = *seen.offset.get_or_insert(began % 60);
            let minute = (began + 90 - offset) / 60;
            let key = (row.process.to_string(), row.stat.queue.to_string(), minute);
            let level = row.stat.lane.as_ref().map_or_else(String::new, |lane| lane.level.to_string());
            let grown = match seen.rows.get(&key) {
                Some(before) => row.stat.tally.since(before),
                None => row.stat.tally.clone(),
            };
            seen.totals.entry((row.stat.queue.to_string(), level)).or_default().merge(&grown);
            seen.rows.insert(key, row.stat.tally.clone());
        }
        let oldest = (now + 90).saturating_sub(2 * LONGEST.as_secs()) / 60;
        seen.rows.retain(|(_, _, minute), _| *minute >= oldest);
        seen.totals.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ichido::{stat::Stat, store::ProcessId};

    use super::*;

    fn row(process: ProcessId, age: u64, done: u64) -> StatRow {
        let tally = Tally { done, ..Tally::default() };
        StatRow {
            process,
            age: Duration::from_secs(age),
            stat: Stat { queue: Arc::from("orders"), lane: None, slots: 1, tally },
        }
    }

    #[test]
    fn a_row_that_is_written_again_counts_by_what_it_has_grown() {
        let (counters, process) = (Counters::default(), ProcessId::random());
        let done = |rows: &[StatRow]| counters.add(rows)[&("orders".to_owned(), String::new())].done;
        assert_eq!(done(&[row(process, 30, 5)]), 5);
        assert_eq!(done(&[row(process, 30, 5)]), 5, "nothing happened");
        assert_eq!(done(&[row(process, 31, 7), row(process, 91, 3)]), 10, "and the minute before came late");
        assert_eq!(done(&[row(ProcessId::random(), 31, 1)]), 11, "another process");
    }
}
