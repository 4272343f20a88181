//! What operators see and do: [`Inspect`] only looks, [`Operate`] repairs. The command line and the console use these and
//! the verbs of [`Store`], never a table directly.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{
    MessageId, Result, Store,
    broker::{MutexFilter, MutexRow, Orphan, OutboxState},
    process::{Flag, RequestState},
    stat::StatRow,
    store::{MigrateOptions, Migration},
};

/// Looking, without changing anything.
pub trait Inspect: Store {
    /// How every queue and process is doing.
    fn overview(&self) -> impl Future<Output = Result<Overview>> + Send;

    /// What processes have counted in the last minutes, the newest first. Bounded, and never a look at a queue's table.
    fn stats(&self, last: Duration) -> impl Future<Output = Result<Vec<StatRow>>> + Send;

    /// How every request id is doing that is served, or of which operators ask something.
    fn requests(&self) -> impl Future<Output = Result<Vec<RequestState>>> + Send;

    /// Parked messages, oldest failure first.
    fn parked(&self, filter: &ParkedFilter) -> impl Future<Output = Result<Vec<Parked>>> + Send;

    /// The payload of a message, if it is still there.
    fn payload(&self, id: &MessageId) -> impl Future<Output = Result<Option<String>>> + Send;

    /// The statements that this store runs for its queues.
    fn statements(&self) -> impl Future<Output = Result<Vec<Statement>>> + Send;

    /// What an operator should know: missing indexes, settings under which commits can be lost, old snapshots, messages
    /// that took longer than this lease.
    fn warnings(&self, lease: Duration) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// The columns of a table queue; none for a managed queue.
    fn columns(&self, queue: &str) -> impl Future<Output = Result<Option<Vec<String>>>> + Send;

    /// The mutex rows of a broker's queue.
    fn mutexes(&self, queue: &str, which: MutexFilter<'_>) -> impl Future<Output = Result<Vec<MutexRow>>> + Send;

    /// Rows that are not processed and owned by a process that nobody knows, or put aside without anything known about it.
    fn orphans(&self, queue: &str) -> impl Future<Output = Result<Vec<Orphan>>> + Send;
}

/// Repairing.
pub trait Operate: Inspect {
    /// Creates or upgrades ichido's tables; safe from several processes at once, while others are at work, and again after it was
    /// cut off.
    fn migrate(&self) -> impl Future<Output = Result<Migration>> + Send {
        self.migrate_with(MigrateOptions::default())
    }

    /// The same with other options.
    fn migrate_with(&self, options: MigrateOptions) -> impl Future<Output = Result<Migration>> + Send;

    /// What `migrate` would do.
    fn pending(&self) -> impl Future<Output = Result<Migration>> + Send;

    /// Puts a failed message back into circulation as attempt one; false if it has not failed (any more).
    fn retry(&self, id: &MessageId) -> impl Future<Output = Result<bool>> + Send;

    /// Gives a failed message up for good and keeps a note of it; false if it has not failed (any more).
    fn discard(&self, id: &MessageId) -> impl Future<Output = Result<bool>> + Send;

    /// Frees a row that is owned by nobody who is known; false if that is not so (any more).
    fn give_back(&self, queue: &str, orphan: &Orphan) -> impl Future<Output = Result<bool>> + Send;

    /// Sets a flag of a request id or takes it away; false if it was so already. Nobody need serve the id.
    fn set_flag(&self, request_id: &str, flag: Flag, on: bool) -> impl Future<Output = Result<bool>> + Send;
}

/// How every queue and process is doing.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Overview {
    /// One per configured queue.
    pub queues: Vec<QueueCounts>,
    /// Every process that is known.
    pub processes: Vec<ProcessState>,
    /// Every request id that is served, or of which operators ask something.
    pub requests: Vec<RequestState>,
}

impl Overview {
    /// An overview of these.
    #[must_use]
    pub fn new(queues: Vec<QueueCounts>, processes: Vec<ProcessState>, requests: Vec<RequestState>) -> Self {
        Overview { queues, processes, requests }
    }
}

/// The messages of one queue, by state.
#[derive(Debug, Clone, Serialize)]
pub struct QueueCounts {
    /// The queue.
    pub queue: String,
    /// Claimable now; no more than [`crate::inspect::MOST_COUNTED`] are counted.
    pub ready: i64,
    /// Those of them that were sent within [`crate::stat::WINDOW`]; none if nothing tells when a message was sent.
    pub recent: Option<i64>,
    /// Claimed by a process; no more than that are counted.
    pub claimed: i64,
    /// Parked with a due time.
    pub waiting: i64,
    /// Parked for good.
    pub failed: i64,
    /// For how many seconds the oldest claimable message has waited; none if there is none, or nothing tells when it was sent.
    pub oldest_seconds: Option<i64>,
    /// Groups that a failed message holds up until somebody has decided about it.
    pub held_groups: i64,
    /// What waits to be published; none where no broker keeps the queue.
    pub outbox: Option<OutboxState>,
}

/// One process.
#[derive(Debug, Clone, Serialize)]
pub struct ProcessState {
    /// Its id: what the owner column holds.
    pub id: String,
    /// What it serves.
    pub request_id: String,
    /// Where it runs.
    pub host: String,
    /// Its number there.
    pub pid: i64,
    /// Seconds since it started.
    pub age_seconds: i64,
    /// Has it given a sign of life within its lease?
    pub alive: bool,
}

/// Which parked messages.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParkedFilter {
    /// Of this queue only.
    pub queue: Option<String>,
    /// This message only.
    pub id: Option<MessageId>,
    /// Also those that wait for a retry.
    pub waiting: bool,
    /// Only those whose last error contains this text.
    pub error: Option<String>,
    /// Only those that were put aside at least so long ago.
    pub older: Option<Duration>,
    /// At most so many.
    pub limit: u32,
}

impl ParkedFilter {
    /// The age in milliseconds, for the database's clock.
    #[must_use]
    pub fn older_ms(&self) -> i64 {
        self.older.map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 2000))
    }

    /// Keeps what the filter means of what a store has read without looking at errors.
    #[must_use]
    pub fn keep(&self, mut parked: Vec<Parked>) -> Vec<Parked> {
        if let Some(text) = &self.error {
            parked.retain(|parked| parked.error.contains(text));
        }
        parked.truncate(self.limit as usize);
        parked
    }

    /// How many rows a store must read for this filter: an error is looked at only after reading.
    #[must_use]
    pub fn rows(&self) -> u32 {
        if self.error.is_some() { u32::MAX } else { self.limit }
    }
}

impl Default for ParkedFilter {
    fn default() -> Self {
        ParkedFilter { queue: None, id: None, waiting: false, error: None, older: None, limit: 100 }
    }
}

/// One parked message.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Parked {
    /// Its id, `orders/42`.
    pub id: String,
    /// `waiting`, `released`, `dead` or `discarded`.
    pub state: ParkedState,
    /// Runs that failed by themselves.
    pub attempts: i64,
    /// When it runs again, by the database's clock.
    pub due_at: Option<String>,
    /// The last error.
    pub error: String,
    /// The last error without what differs from message to message: numbers, ids, quoted values.
    pub shape: String,
    /// When it was last put aside, by the database's clock.
    pub parked_at: String,
    /// The last failures, newest last.
    pub history: Vec<PastFailure>,
}

/// One failure of a message.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
pub struct PastFailure {
    /// Which run it was.
    pub attempt: u32,
    /// When, by the database's clock.
    pub at: String,
    /// What it said.
    pub error: String,
}

/// How many failures are remembered per message.
pub const HISTORY: usize = 10;

/// Of a long error text this many bytes are kept.
const LONGEST_ERROR: usize = 4096;

/// The error of a message that ran alone when its process died.
pub const DIED_RUNNING: &str = "its process died while running it";

/// A message's history with one more failure, in the JSON that stores keep.
#[must_use]
pub fn history(past: Option<&str>, attempt: u32, at: String, error: &str) -> String {
    let mut history: Vec<PastFailure> = past.and_then(|past| serde_json::from_str(past).ok()).unwrap_or_default();
    let error: String = error.chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect();
    let end = error.floor_char_boundary(LONGEST_ERROR);
    history.push(PastFailure { attempt, at, error: error[..end].to_owned() });
    let kept = history.len().saturating_sub(HISTORY);
    serde_json::to_string(&history[kept..]).unwrap_or_default()
}

/// What a parked message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParkedState {
    /// For its due time.
    Waiting,
    /// For nothing: it is back in circulation, its past is kept.
    Released,
    /// For an operator.
    Dead,
    /// For nothing any more: an operator gave it up.
    Discarded,
}

impl ParkedState {
    /// As it is written in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ParkedState::Waiting => "waiting",
            ParkedState::Released => "released",
            ParkedState::Dead => "dead",
            ParkedState::Discarded => "discarded",
        }
    }

    /// Reads what [`ParkedState::as_str`] wrote; anything else is taken for dead, so that somebody looks at it.
    #[must_use]
    pub fn read(text: &str) -> Self {
        match text {
            "waiting" => ParkedState::Waiting,
            "released" => ParkedState::Released,
            "discarded" => ParkedState::Discarded,
            _ => ParkedState::Dead,
        }
    }
}

impl fmt::Display for ParkedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Parked {
    /// A parked message as a store read it; `history` is the JSON that the store keeps.
    #[must_use]
    pub fn new(
        id: String,
        state: &str,
        attempts: i64,
        due_at: Option<String>,
        parked_at: String,
        history: &str,
    ) -> Self {
        let history: Vec<PastFailure> = serde_json::from_str(history).unwrap_or_default();
        let error = history.last().map(|failure| failure.error.clone()).unwrap_or_default();
        let shape = shape(&error);
        Parked { id, state: ParkedState::read(state), attempts, due_at, error, shape, parked_at, history }
    }
}

/// What many errors have in common: numbers, ids and what stands in quotes become `…`.
#[must_use]
pub fn shape(error: &str) -> String {
    let mut shape = String::with_capacity(error.len());
    let mut quote = None;
    for word in error.split_inclusive(|c: char| !c.is_alphanumeric() && c != '-') {
        let (body, end) = match word.char_indices().next_back() {
            Some((at, last)) if !last.is_alphanumeric() && last != '-' => (&word[..at], Some(last)),
            _ => (word, None),
        };
        let differs = body.chars().any(|c| c.is_ascii_digit());
        if quote.is_none() {
            shape.push_str(if differs { "…" } else { body });
        }
        match (quote, end) {
            (Some(open), Some(end)) if end == open => {
                shape.push('…');
                shape.push(end);
                quote = None;
            }
            (None, Some(end @ ('\'' | '"' | '`'))) if body.is_empty() || end != '\'' => {
                shape.push(end);
                quote = Some(end);
            }
            (None, Some(end)) => shape.push(end),
            _ => {}
        }
    }
    shape
}

/// One statement that a store runs for a queue.
#[derive(Debug, Clone, Serialize)]
pub struct Statement {
    /// The queue.
    pub queue: String,
    /// What it does: claim, complete, release, park, …
    pub verb: &'static str,
    /// Its text.
    pub sql: String,
}

/// A backlog is counted up to here: for a progress line that is enough.
pub const MOST_COUNTED: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_kind_have_one_shape() {
        let one = shape("duplicate entry '42' for key \"order_7\" at line 664");
        assert_eq!(one, "duplicate entry '…' for key \"…\" at line …");
        assert_eq!(one, shape("duplicate entry 'it is 7' for key \"x\" at line 1"));
        assert_eq!(shape("customer 01a1ddd9-86cd-77ec is gone"), "customer … is gone");
        assert_eq!(shape("it's not there"), "it's not there");
        assert_ne!(shape("timeout"), shape("no such customer"));
    }

    #[test]
    fn the_history_keeps_the_last_ten_failures_and_nothing_a_database_refuses() {
        let mut kept = String::new();
        for attempt in 1..=12 {
            kept = history(Some(&kept), attempt, "now".into(), &format!("a\0b {}", "é".repeat(4000)));
        }
        let read: Vec<PastFailure> = serde_json::from_str(&kept).unwrap();
        assert_eq!(read.iter().map(|failure| failure.attempt).collect::<Vec<_>>(), (3..=12).collect::<Vec<_>>());
        assert!(read.iter().all(|failure| failure.error.len() <= LONGEST_ERROR && !failure.error.contains('\0')));
    }
}
