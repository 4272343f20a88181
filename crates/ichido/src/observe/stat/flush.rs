//! From the counters of a process to rows of the store. A row holds all that its process has counted in its minute, and is
//! written again as a whole when there is more: a write that is repeated because nobody knows whether it arrived changes nothing.
//! After an hour that is no longer so: the row may have been added up with those of others, and a repeated one would be added to it.

use super::{Meters, Stat, Tally};
use crate::{
    Store,
    error::Result,
    store::{self, ProcessId},
};

/// So many minutes after its own a row may still be written again. Stores add up what is older than an hour; the rest is for a write that
/// takes long.
const REPEATABLE: i64 = 55;

/// What of a process's counts is in the store.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    /// The minute that is being written, by the database's clock, and under which id.
    row: Option<(i64, ProcessId)>,
    /// What had been counted before it began.
    before: Vec<Stat>,
    /// What has been counted and is known to be stored.
    stored: Vec<Stat>,
    /// Nobody knows whether the last write arrived: it is repeated before another minute is begun.
    unsure: bool,
    /// What had been counted when the last write began, until it is known to have arrived.
    tried: Vec<Stat>,
}

impl Flush {
    /// Writes what is new, if anything is, into the row of this minute.
    pub(crate) async fn run<S: Store>(
        &mut self,
        store: &S,
        process: ProcessId,
        minute: i64,
        meters: &Meters,
    ) -> Result<()> {
        let mut counted = meters.read();
        counted.retain(|stat| has_room(&stat.queue) && stat.tally != Tally::default());
        let Some((row, stats)) = self.news(process, minute, &counted) else { return Ok(()) };
        (self.unsure, self.tried) = (true, counted);
        store::note_stats(store, row.1, row.0, &stats).await?;
        self.settle();
        Ok(())
    }

    /// What was tried counts as stored.
    fn settle(&mut self) {
        (self.unsure, self.stored) = (false, std::mem::take(&mut self.tried));
    }

    /// What is to be written, and where.
    fn news(&mut self, process: ProcessId, minute: i64, counted: &[Stat]) -> Option<((i64, ProcessId), Vec<Stat>)> {
        // Too late to repeat it: rather lost than counted twice.
        if self.unsure && self.row.is_some_and(|(written, _)| minute - written > REPEATABLE) {
            self.settle();
        }
        if counted == self.stored && !self.unsure {
            return None;
        }
        let row = match self.row {
            Some(row) if self.unsure || row == (minute, process) => row,
            _ => {
                self.before = self.stored.clone();
                (minute, process)
            }
        };
        self.row = Some(row);
        let fresh = counted.iter().filter(|stat| tally_of(&self.before, stat) != Some(&stat.tally));
        let news = fresh.map(|stat| {
            let before = tally_of(&self.before, stat).cloned().unwrap_or_default();
            Stat { tally: stat.tally.since(&before), ..stat.clone() }
        });
        Some((row, news.collect()))
    }
}

/// Stores keep names of queues as they may be configured; a reader of the user's own calls its messages' queue as it likes.
fn has_room(queue: &str) -> bool {
    queue.len() <= 64 && queue.bytes().all(|byte| byte.is_ascii_graphic())
}

fn tally_of<'a>(stats: &'a [Stat], like: &Stat) -> Option<&'a Tally> {
    stats.iter().find(|stat| stat.queue == like.queue).map(|stat| &stat.tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(done: u64) -> Vec<Stat> {
        let tally = Tally { done, ..Tally::default() };
        vec![Stat { queue: "orders".into(), lane: None, slots: 4, tally }]
    }

    /// What would be written: the minute and the count.
    fn written(flush: &mut Flush, process: ProcessId, minute: i64, done: u64) -> Option<(i64, u64)> {
        let (row, stats) = flush.news(process, minute, &counted(done))?;
        assert_eq!(row.1, process);
        Some((row.0, stats[0].tally.done))
    }

    #[test]
    fn a_minute_is_written_as_a_whole_and_the_next_one_begins_anew() {
        let (mut flush, me) = (Flush::default(), ProcessId::random());
        assert_eq!(written(&mut flush, me, 1, 5), Some((1, 5)));
        flush.stored = counted(5);
        assert_eq!(written(&mut flush, me, 1, 5), None, "nothing is new");
        assert_eq!(written(&mut flush, me, 1, 8), Some((1, 8)));
        flush.stored = counted(8);
        assert_eq!(written(&mut flush, me, 2, 10), Some((2, 2)));
        flush.stored = counted(10);
        let reborn = ProcessId::random();
        assert_eq!(written(&mut flush, reborn, 2, 11), Some((2, 1)), "another id has a row of its own");
    }

    #[test]
    fn a_write_that_may_have_arrived_is_repeated_in_its_own_minute() {
        let (mut flush, me) = (Flush::default(), ProcessId::random());
        assert_eq!(written(&mut flush, me, 1, 5), Some((1, 5)));
        flush.unsure = true;
        assert_eq!(written(&mut flush, me, 2, 7), Some((1, 7)));
        (flush.unsure, flush.stored) = (false, counted(7));
        assert_eq!(written(&mut flush, me, 2, 9), Some((2, 2)));
    }

    #[test]
    fn a_write_that_may_have_been_added_up_is_not_repeated() {
        let (mut flush, me) = (Flush::default(), ProcessId::random());
        assert_eq!(written(&mut flush, me, 1, 5), Some((1, 5)));
        (flush.unsure, flush.tried) = (true, counted(5));
        assert_eq!(written(&mut flush, me, 1 + REPEATABLE, 5), Some((1, 5)), "its row is still its own");
        assert_eq!(written(&mut flush, me, 2 + REPEATABLE, 5), None);
        assert_eq!(written(&mut flush, me, 2 + REPEATABLE, 7), Some((2 + REPEATABLE, 2)), "only what came later");
    }
}
