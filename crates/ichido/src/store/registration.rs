//! What a process tells about itself: its id, what it serves, and where it runs.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::{Error, error::Result};

/// A process, new at each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(Uuid);

impl ProcessId {
    /// The owner of parked messages: no process has it.
    pub const NOBODY: ProcessId = ProcessId(Uuid::nil());

    /// An id that no other process has or had.
    #[must_use]
    pub fn random() -> Self {
        ProcessId(Uuid::now_v7())
    }

    /// Its last digits, which are random: enough to tell processes apart in a log.
    pub(crate) fn short(self) -> String {
        let mut digits = Uuid::encode_buffer();
        self.0.simple().encode_lower(&mut digits)[20..].to_owned()
    }

    /// The id as UUID.
    #[must_use]
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for ProcessId {
    fn from(uuid: Uuid) -> Self {
        ProcessId(uuid)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ProcessId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.trim().parse().map(ProcessId)
    }
}

/// What a process says about itself when it registers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Registration {
    /// Its id.
    pub id: ProcessId,
    /// The request ids it serves.
    pub request_ids: BTreeSet<Arc<str>>,
    /// Those of them that no other live process may serve.
    pub alone: BTreeSet<Arc<str>>,
    /// Without a heartbeat for this long, it is considered dead.
    pub lease: Duration,
    /// The queues it serves, and how often each one's messages may run.
    pub queues: BTreeMap<Arc<str>, u32>,
    /// How many messages of each queue may have begun at once: workers, times the messages of a transaction. Where this is not known,
    /// everything that the process had claimed is a suspect when it dies.
    pub slots: BTreeMap<Arc<str>, u32>,
    /// The queues that it publishes for.
    pub relays: BTreeSet<Arc<str>>,
}

impl Registration {
    /// A process that serves these queues under this request id.
    pub fn new(request_id: impl Into<Arc<str>>, lease: Duration, queues: BTreeMap<Arc<str>, u32>) -> Self {
        Registration::of([request_id.into()].into(), lease, queues)
    }

    /// A process that serves these queues under these request ids.
    #[must_use]
    pub fn of(request_ids: BTreeSet<Arc<str>>, lease: Duration, queues: BTreeMap<Arc<str>, u32>) -> Self {
        Registration {
            id: ProcessId::random(),
            request_ids,
            alone: BTreeSet::new(),
            lease,
            queues,
            slots: BTreeMap::new(),
            relays: BTreeSet::new(),
        }
    }

    /// Its request ids in one text, for operators.
    #[must_use]
    pub fn title(&self) -> String {
        let all: Vec<_> = self.request_ids.iter().map(AsRef::as_ref).collect();
        all.join(",").chars().take(LONGEST_REQUEST_ID).collect()
    }
}

/// The name of this machine, for operators.
#[must_use]
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    name.trim().to_owned()
}

/// The longest request id, in characters.
pub const LONGEST_REQUEST_ID: usize = 255;

/// A request id must be something to type, and something every database can keep.
///
/// # Errors
/// [`Error::Refused`] if it is not.
pub fn refuse_request_id(request_id: &str) -> Result<()> {
    let why = if request_id.trim().is_empty() {
        "is empty"
    } else if request_id.chars().any(char::is_control) {
        "contains a control character"
    } else if request_id.chars().count() > LONGEST_REQUEST_ID {
        "is longer than 255 characters"
    } else {
        return Ok(());
    };
    Err(Error::Refused(format!("the request id {request_id:?} {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_that_no_database_can_keep_is_refused() {
        for bad in ["", " ", "a\nb", "a\0b", &"x".repeat(256)] {
            assert!(matches!(refuse_request_id(bad), Err(Error::Refused(_))), "{bad:?}");
        }
        for good in ["R1", "a/b, c", "依頼", &"é".repeat(255)] {
            refuse_request_id(good).unwrap();
        }
    }
}
