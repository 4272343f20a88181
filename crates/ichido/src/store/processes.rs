//! Processes: how one becomes known, shows that it is alive, polls, and how what a dead one had is rescued. `life` and `upkeep`
//! call it.

use std::collections::BTreeMap;

use crate::MessageId;
use crate::Result;
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

    /// Is there anything to return or to rescue, and what do operators ask of its request ids? One look for all, for a
    /// process that has nothing else to do.
    fn poll(&self, by: &Registration) -> impl Future<Output = Result<Polled>> + Send;

    /// Releases what dead processes had claimed in the queues that this process serves; as suspects what may have begun: what they
    /// ran at their last heartbeat, and as many of each queue's first messages as they had slots ([`Registration::slots`]).
    fn rescue(&self, by: &Registration) -> impl Future<Output = Result<Rescued>> + Send;
}

/// What a poll found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Polled {
    /// There may be parked messages whose time has come.
    pub due: bool,
    /// There may be dead processes.
    pub dead: bool,
    /// There may be messages to publish.
    pub unsent: bool,
    /// The minute that it is, by the database's clock, since 1970.
    pub minute: i64,
    /// What operators ask of the process's request ids; those of which they ask nothing may be missing.
    pub flags: BTreeMap<String, Flags>,
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
