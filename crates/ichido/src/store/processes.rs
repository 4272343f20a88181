//! Processes: how one becomes known, shows that it is alive, polls, and how what a dead one had is rescued; and which of them
//! does a queue's chores. `life` and `upkeep` call it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::MessageId;
use crate::error::Result;
use crate::process::Flags;
use crate::store::Database;
use crate::store::ProcessId;
use crate::store::Registration;
use crate::store::Running;

/// Running processes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Processes: Database {
    /// Makes a process known, with its queues and request ids.
    ///
    /// [`crate::Error::Duplicate`] if another live process serves one that it must serve alone; of two that register at
    /// the same moment one is refused.
    fn register(&self, process: &Registration) -> impl Future<Output = Result<()>> + Send;

    /// A heartbeat, with what the process runs now, the longest first; false if it has been declared dead. No statement more than
    /// without it.
    fn heartbeat(&self, process: ProcessId, running: &[Running]) -> impl Future<Output = Result<bool>> + Send;

    /// Before a suspect runs: the durable mark that spends its attempt if the process dies. `None` takes it away.
    fn mark_running(&self, process: ProcessId, suspect: Option<&MessageId>) -> impl Future<Output = Result<()>> + Send;

    /// Releases what the process has claimed and deletes its record; nothing counts as an attempt.
    fn deregister(&self, process: ProcessId) -> impl Future<Output = Result<()>> + Send;

    /// The process no longer serves this request id.
    fn quit(&self, process: ProcessId, request_id: &str) -> impl Future<Output = Result<()>> + Send;

    /// Is there anybody to rescue, are chores nobody's, and what do operators ask of its request ids and messages? One look for all, for a
    /// process that has nothing else to do. It comes with the heartbeat, so it reads only what does not grow with the queues.
    fn poll(&self, by: &Registration) -> impl Future<Output = Result<Polled>> + Send;

    /// Releases what dead processes had claimed in the queues that this process serves; as suspects what may have begun: what they
    /// ran at their last heartbeat, and as many of each queue's first messages as they had slots ([`Registration::slots`]).
    ///
    /// A dead process whose queues this process does not serve costs nothing: it is left to one that does.
    fn rescue(&self, by: &Registration) -> impl Future<Output = Result<Rescued>> + Send;

    /// Deletes the records of dead processes that own nothing in any queue; how many. Nobody may be left to rescue them.
    fn prune_dead(&self, by: &Registration) -> impl Future<Output = Result<u64>> + Send;

    /// The lease to do the chores of a queue, or of [`WHOLE_DATABASE`], for so long from now on: one process at a time does what grows with a
    /// table. Says where the tidying had stopped; none if another process has the lease. Deregistering and rescue release it.
    fn take_chore_lease(
        &self,
        process: ProcessId,
        queue: &str,
        lasts: Duration,
    ) -> impl Future<Output = Result<Option<String>>> + Send;

    /// Keeps a chore lease for so long from now on, and notes how far the queue is tidied; false if another process has taken it.
    fn keep_chore_lease(
        &self,
        process: ProcessId,
        queue: &str,
        lasts: Duration,
        tidied: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Releases a chore lease, if this process has it.
    fn release_chore_lease(&self, process: ProcessId, queue: &str) -> impl Future<Output = Result<()>> + Send;
}

/// The name under which the chores of the whole database have their lease: no queue has it.
pub const WHOLE_DATABASE: &str = "";

/// What a poll found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Polled {
    /// There may be dead processes whose queues this one serves.
    pub dead: bool,
    /// A chore lease is free: of a queue that it serves, or of [`WHOLE_DATABASE`].
    pub free: bool,
    /// The minute that it is, by the database's clock, since 1970.
    pub minute: i64,
    /// How many processes have registered.
    pub processes: u32,
    /// What operators ask of the process's request ids; those of which they ask nothing may be missing.
    pub flags: BTreeMap<String, Flags>,
    /// Messages that were cancelled while this process had them claimed, or that whoever runs them is asked to drop.
    pub cancelled: BTreeSet<MessageId>,
}

/// What a rescue did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Processes found dead.
    pub processes: u64,
    /// Messages freed, as suspects or not.
    pub messages: u64,
    /// Messages parked because they killed their process once too often.
    pub parked: u64,
}
