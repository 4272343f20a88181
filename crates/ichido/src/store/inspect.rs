//! What operators see and do: [`Inspect`] only looks, [`Operate`] repairs, [`Messages`](super::Messages) is about single messages. The
//! command line and the console use these and the verbs of [`Store`], never a table directly.

use std::time::Duration;

use serde::Serialize;

use crate::{
    Key, MessageId, Store,
    broker::{MutexFilter, MutexRow, Original, Orphan, OutboxState},
    error::Result,
    process::{Flag, RequestState},
    stat::StatRow,
    store::{MigrateOptions, Migration},
};

pub use super::{
    failure::{DIED_RUNNING, HISTORY, Parked, ParkedState, PastFailure, history, shape},
    message_info::{MessageInfo, MessageState, Owner, SentWith},
    messages::{Changed, Cursor, Listed, MessageFilter, MessagePage},
    send_sql::{SchemaRange, SendParameter, SendSql, SendStatement},
};

/// Read-only queries for operators.
pub trait Inspect: Store {
    /// How every queue and process is doing.
    fn overview(&self) -> impl Future<Output = Result<Overview>> + Send {
        self.overview_beside(&[])
    }

    /// The same, but what these queues hold is known already, and not counted again.
    fn overview_beside(&self, known: &[QueueCounts]) -> impl Future<Output = Result<Overview>> + Send;

    /// What processes have counted in the last minutes, the newest first. Bounded, and never a look at a queue's table.
    fn stats(&self, last: Duration) -> impl Future<Output = Result<Vec<StatRow>>> + Send;

    /// How every request id is doing that is served, or of which operators ask something.
    fn requests(&self) -> impl Future<Output = Result<Vec<RequestState>>> + Send;

    /// Parked messages of the store's queues, oldest failure first unless the filter says otherwise.
    fn parked(&self, filter: &ParkedFilter) -> impl Future<Output = Result<Vec<Parked>>> + Send;

    /// How many messages of other queues in this database have failed, by queue: those of another configuration. No more than
    /// [`crate::inspect::MOST_COUNTED`] are counted.
    fn failed_elsewhere(&self) -> impl Future<Output = Result<Vec<(String, i64)>>> + Send;

    /// The statements that this store runs for its queues.
    fn statements(&self) -> impl Future<Output = Result<Vec<Statement>>> + Send;

    /// How programs that do not use ichido send to a queue, in plain SQL: to a table queue with these columns, or with all if none is
    /// named.
    fn send_sql(&self, queue: &str, columns: &[String]) -> impl Future<Output = Result<SendSql>> + Send;

    /// What an operator should know: missing indexes, settings under which commits can be lost, old snapshots, messages
    /// that took longer than this lease.
    fn warnings(&self, lease: Duration) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// The columns of a table queue; none for a managed queue.
    fn columns(&self, queue: &str) -> impl Future<Output = Result<Option<Vec<String>>>> + Send;

    /// The mutex rows of a broker's queue.
    fn mutexes(&self, queue: &str, which: MutexFilter<'_>) -> impl Future<Output = Result<Vec<MutexRow>>> + Send;

    /// Of what the dead letters of a broker's queue are copies, each by its key and its payload, in their order; none if of nothing
    /// that is known. What a mutex guarded and is done has left nothing behind.
    fn originals(
        &self,
        queue: &str,
        letters: &[(Key, &[u8])],
    ) -> impl Future<Output = Result<Vec<Option<Original>>>> + Send;

    /// Rows that are not processed and owned by a process that nobody knows, or put aside without anything known about it.
    fn orphans(&self, queue: &str) -> impl Future<Output = Result<Vec<Orphan>>> + Send;
}

/// What operators change.
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

    /// Discards a failed message for good and keeps a record of it; false if it has not failed (any more).
    fn discard(&self, id: &MessageId) -> impl Future<Output = Result<bool>> + Send;

    /// Releases a row whose owner is unknown; false if that is not so (any more).
    fn release_orphan(&self, queue: &str, orphan: &Orphan) -> impl Future<Output = Result<bool>> + Send;

    /// Sets or clears a flag of a request id; false if nothing changed. No process needs to serve the id.
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
    /// Parked with a due time; no more than that are counted.
    pub waiting: i64,
    /// Parked for good; no more than that are counted.
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
    /// Has it sent a heartbeat within its lease?
    pub alive: bool,
    /// The queues it serves; of a dead process, those that nobody has rescued yet.
    pub queues: Vec<String>,
    /// Seconds since its last heartbeat, if it has sent one.
    pub heartbeat_seconds: Option<i64>,
    /// What it ran then, the longest first.
    pub running: Vec<RunningState>,
}

/// A message that a process ran at its last heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningState {
    /// Its id: queue/key.
    pub id: String,
    /// For how many seconds it had run then.
    pub seconds: u64,
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
    /// Only those that were parked at least this long ago.
    pub older: Option<Duration>,
    /// The last failure first, and only what has failed: neither delays nor snoozes.
    pub newest: bool,
    /// Only those after this one, in the order in which they are returned: the next page.
    pub after: Option<Parked>,
    /// Maximum number of messages.
    pub limit: u32,
}

impl ParkedFilter {
    /// The age in milliseconds, for the database's clock.
    #[must_use]
    pub fn older_ms(&self) -> i64 {
        self.older.map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 2000))
    }

    /// Does the last error contain the text? Stores read messages without looking at their errors.
    #[must_use]
    pub fn matches(&self, parked: &Parked) -> bool {
        self.error.as_ref().is_none_or(|text| parked.error.contains(text))
    }
}

impl Default for ParkedFilter {
    fn default() -> Self {
        ParkedFilter {
            queue: None,
            id: None,
            waiting: false,
            error: None,
            older: None,
            newest: false,
            after: None,
            limit: 100,
        }
    }
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

/// A backlog is counted only up to this number, so that `status` never scans all of it.
pub const MOST_COUNTED: u64 = 100_000;
