//! What a message's mutex row, its dead letters and its queue mean together, and what to do about it: the table in
//! docs/contract.md (The doctor), without a database and without a broker. Stores say what a row is ([`MutexRow`]), the
//! command line asks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use serde::Serialize;

use crate::{Key, inspect::ParkedState, store::ProcessId};

/// The mutex row of a message that a broker carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutexRow {
    /// The message.
    pub key: Key,
    /// What its row says.
    pub state: RowState,
    /// Its payload is in the outbox: it can be published again, whatever becomes of its copies at the broker.
    pub kept: bool,
    /// What tells the body that was sent from others, if its sender has written that.
    pub hash: Option<Vec<u8>>,
}

/// What a mutex row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// It is locked, or a process owns it.
    Held,
    /// Its message waits for its due time.
    Waiting,
    /// Its message has failed for good.
    Failed,
    /// It is free, and its message has been due to be published for this long.
    Unsent(Duration),
    /// It is free, and its message was published this long ago.
    Published(Duration),
}

/// Which mutex rows.
#[derive(Debug, Clone, Copy)]
pub enum MutexFilter<'a> {
    /// This many rows after this one, in the order of their ids.
    After(Option<&'a Key>, usize),
    /// These, as far as they exist.
    These(&'a [Key]),
    /// The same, and whether they are locked. Whoever wants one of them at that moment finds it busy.
    Probed(&'a [Key]),
}

/// What the database has of the message whose id and payload a dead letter has. Another payload is another message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Original {
    /// It is done: its id is in the inbox.
    Done,
    /// It is not done, and its payload is in the outbox.
    Kept,
}

/// An unprocessed row whose owner is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The message.
    pub key: Key,
    /// What its owner column holds.
    pub owner: String,
}

impl Orphan {
    /// Was it put aside? Then something must be known about it.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        self.owner.parse() == Ok(ProcessId::NOBODY)
    }

    /// It is none: one of these processes has it, or it was put aside and is known by its key.
    #[must_use]
    pub fn is_known(&self, processes: &BTreeSet<ProcessId>, aside: &BTreeMap<String, ParkedState>) -> bool {
        match self.owner.parse() {
            Ok(ProcessId::NOBODY) => aside.contains_key(&self.key.to_string()),
            Ok(process) => processes.contains(&process),
            Err(_) => false,
        }
    }
}

/// What a store read of a row, before it is judged.
#[derive(Debug, Clone, Copy)]
pub struct RawRow {
    /// Its owner.
    pub owner: Option<ProcessId>,
    /// What is known about its message.
    pub parked: Option<ParkedState>,
    /// Its message is still to be published.
    pub unsent: bool,
    /// For how many milliseconds: since it was due, or was published.
    pub age_ms: i64,
}

impl RawRow {
    /// What the row says; whether it is locked is not known.
    #[must_use]
    pub fn state(self) -> RowState {
        let age = Duration::from_millis(u64::try_from(self.age_ms).unwrap_or_default());
        match (self.owner, self.parked) {
            (None, _) if self.unsent => RowState::Unsent(age),
            (None, _) => RowState::Published(age),
            (Some(ProcessId::NOBODY), Some(ParkedState::Dead | ParkedState::Discarded)) => RowState::Failed,
            (Some(ProcessId::NOBODY), _) => RowState::Waiting,
            (Some(_), _) => RowState::Held,
        }
    }
}

/// Is the message in the queue? A broker cannot be asked for one message without disturbing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InQueue {
    /// There is something, which may be this message.
    NotEmpty,
    /// The queue and its busy queue were seen empty since it was published.
    No,
    /// A message without a row is ready and not taken, although consumers are alive.
    Old,
}

/// All that is known about a message.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    /// Its mutex row.
    pub row: Option<RowState>,
    /// It has a dead letter, and ichido sent it.
    pub dead: bool,
    /// Is it in the queue?
    pub queue: InQueue,
    /// Anything younger than this may be in transit.
    pub young: Duration,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// There is nothing to do.
    Nothing,
    /// Wait: it proceeds by itself.
    Wait,
    /// Run it again.
    Retry,
    /// Publish it.
    Publish,
    /// Delete its dead letter.
    Delete,
    /// An operator must investigate.
    Investigate,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Nothing => "nothing",
            Verdict::Wait => "wait",
            Verdict::Retry => "retry",
            Verdict::Publish => "publish",
            Verdict::Delete => "delete",
            Verdict::Investigate => "investigate",
        })
    }
}

/// What a sighting means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// In words.
    pub meaning: &'static str,
    /// What to do.
    pub verdict: Verdict,
}

impl Sighting {
    /// The table.
    #[must_use]
    pub fn judge(&self) -> Judgement {
        let (meaning, verdict) = match (self.row, self.dead) {
            (Some(row), true) => self.with_both(row),
            (Some(row), false) => self.with_row(row),
            (None, true) => match self.queue {
                InQueue::No => ("a duplicate of a finished message", Verdict::Delete),
                InQueue::NotEmpty | InQueue::Old => (
                    "done; the copy in the DLQ can be deleted, and the queue may hold a stray one too",
                    Verdict::Investigate,
                ),
            },
            (None, false) => match self.queue {
                InQueue::No => ("not found anywhere", Verdict::Nothing),
                InQueue::NotEmpty => ("done, its ack in transit", Verdict::Nothing),
                InQueue::Old => ("done, but still ready although consumers are alive", Verdict::Investigate),
            },
        };
        Judgement { meaning, verdict }
    }

    fn with_both(&self, row: RowState) -> (&'static str, Verdict) {
        match row {
            RowState::Held => ("a duplicate; the original is being processed", Verdict::Wait),
            RowState::Waiting => ("a duplicate; the original waits for its due time", Verdict::Wait),
            RowState::Failed => ("failed", Verdict::Retry),
            RowState::Unsent(age) if age < self.young => ("about to be published again", Verdict::Wait),
            RowState::Unsent(_) => ("due to be published again, but no relay does it", Verdict::Publish),
            RowState::Published(_) if self.queue != InQueue::No => {
                ("a duplicate; the original waits in the queue", Verdict::Wait)
            }
            RowState::Published(age) if age < self.young => ("a duplicate; the original is on its way", Verdict::Wait),
            RowState::Published(_) => ("its only copy is in the DLQ", Verdict::Retry),
        }
    }

    fn with_row(&self, row: RowState) -> (&'static str, Verdict) {
        match row {
            RowState::Held => ("being processed", Verdict::Wait),
            RowState::Waiting => ("waits for its due time", Verdict::Wait),
            RowState::Failed => ("failed, without a copy in the DLQ", Verdict::Retry),
            RowState::Unsent(age) if age < self.young => ("committed, about to be published", Verdict::Wait),
            RowState::Unsent(_) => ("committed but not published", Verdict::Publish),
            RowState::Published(_) if self.queue != InQueue::No => ("waits in the queue", Verdict::Wait),
            RowState::Published(age) if age < self.young => ("just published", Verdict::Wait),
            RowState::Published(_) => ("published, but lost by the broker", Verdict::Publish),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YOUNG: Duration = Duration::from_secs(1);
    const OLD: Duration = Duration::from_mins(1);

    fn judge(row: Option<RowState>, dead: bool, queue: InQueue) -> Verdict {
        Sighting { row, dead, queue, young: Duration::from_secs(10) }.judge().verdict
    }

    #[test]
    fn the_table_of_the_contract() {
        let free = Some(RowState::Published(OLD));
        let table = [
            (free, true, InQueue::NotEmpty, Verdict::Wait),
            (free, true, InQueue::No, Verdict::Retry),
            (free, false, InQueue::NotEmpty, Verdict::Wait),
            (free, false, InQueue::No, Verdict::Publish),
            (None, true, InQueue::NotEmpty, Verdict::Investigate),
            (None, true, InQueue::No, Verdict::Delete),
            (None, false, InQueue::NotEmpty, Verdict::Nothing),
            (None, false, InQueue::No, Verdict::Nothing),
        ];
        for (row, dead, queue, verdict) in table {
            assert_eq!(judge(row, dead, queue), verdict, "{row:?}, dead letter {dead}, queue {queue:?}");
        }
    }

    #[test]
    fn what_is_held_or_waits_for_its_time_is_left_alone_whatever_else_is_there() {
        for row in [RowState::Held, RowState::Waiting] {
            for dead in [false, true] {
                for queue in [InQueue::No, InQueue::NotEmpty, InQueue::Old] {
                    assert_eq!(judge(Some(row), dead, queue), Verdict::Wait, "{row:?} {dead} {queue:?}");
                }
            }
        }
    }

    #[test]
    fn what_has_failed_is_retried_also_while_others_are_in_the_queue() {
        for dead in [false, true] {
            for queue in [InQueue::No, InQueue::NotEmpty] {
                assert_eq!(judge(Some(RowState::Failed), dead, queue), Verdict::Retry);
            }
        }
    }

    #[test]
    fn what_is_young_is_on_its_way() {
        for row in [RowState::Unsent(YOUNG), RowState::Published(YOUNG)] {
            for dead in [false, true] {
                assert_eq!(judge(Some(row), dead, InQueue::No), Verdict::Wait, "{row:?} {dead}");
            }
        }
        for dead in [false, true] {
            assert_eq!(judge(Some(RowState::Unsent(OLD)), dead, InQueue::NotEmpty), Verdict::Publish);
        }
    }

    #[test]
    fn what_stays_ready_without_a_row_is_for_somebody_to_look_at() {
        assert_eq!(judge(None, false, InQueue::Old), Verdict::Investigate);
    }

    #[test]
    fn a_row_says_by_its_owner_and_its_past_what_it_is() {
        let raw = |owner, parked, unsent| RawRow { owner, parked, unsent, age_ms: 1000 }.state();
        let nobody = Some(ProcessId::NOBODY);
        assert_eq!(raw(None, None, true), RowState::Unsent(YOUNG));
        assert_eq!(raw(None, Some(ParkedState::Released), false), RowState::Published(YOUNG));
        assert_eq!(raw(nobody, Some(ParkedState::Waiting), false), RowState::Waiting);
        assert_eq!(raw(nobody, Some(ParkedState::Dead), false), RowState::Failed);
        assert_eq!(raw(Some(ProcessId::random()), None, false), RowState::Held);
        assert_eq!(
            RawRow { owner: None, parked: None, unsent: true, age_ms: -5 }.state(),
            RowState::Unsent(Duration::ZERO)
        );
    }
}
