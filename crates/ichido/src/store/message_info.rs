//! What operators see of one message: its state, who has it, what it waits for; and the sentence that says why it was left as it is. Stores
//! fill it in ([`Messages`](super::Messages)), the command line prints it.

use std::fmt;

use serde::Serialize;

use super::inspect::{PastFailure, ProcessState};
use crate::{
    Headers,
    message::{ATTEMPTS, GROUP, attempts_in},
};

/// One message, as it was when somebody looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageInfo {
    /// Its id, `orders/42`.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// Where it stands.
    pub state: MessageState,
    /// The group that it is in.
    pub group: Option<String>,
    /// Seconds since it was sent; none if nothing tells when that was.
    pub age_seconds: Option<i64>,
    /// Runs that failed by themselves.
    pub attempts: i64,
    /// How often it was snoozed since it last failed, or was sent.
    pub snoozed: i64,
    /// When it runs, if it waits, by the database's clock.
    pub due_at: Option<String>,
    /// When it was last parked, if it is.
    pub parked_at: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// Who has it.
    pub owner: Option<Owner>,
    /// The last failures, newest last.
    #[serde(skip)]
    pub history: Vec<PastFailure>,
}

/// What a message was sent with beside its payload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentWith {
    /// Its headers, without ichido's own.
    pub headers: Headers,
    /// Its unique key.
    pub unique: Option<String>,
    /// How many attempts it gets, if its sender has said so.
    pub attempts: Option<u32>,
}

impl SentWith {
    /// As it was kept: the headers as they were written, and the unique key.
    #[must_use]
    pub fn read(written: &str, unique: Option<String>) -> Self {
        let mut headers: Headers = serde_json::from_str(written).unwrap_or_default();
        headers.retain(|name, _| name != ATTEMPTS && name != GROUP);
        SentWith { headers, unique, attempts: attempts_in(written) }
    }
}

impl MessageInfo {
    /// A message of which nothing else is known.
    pub fn new(id: impl Into<String>, queue: impl Into<String>, state: MessageState) -> Self {
        MessageInfo {
            id: id.into(),
            queue: queue.into(),
            state,
            group: None,
            age_seconds: None,
            attempts: 0,
            snoozed: 0,
            due_at: None,
            parked_at: None,
            error: None,
            owner: None,
            history: Vec::new(),
        }
    }

    /// Why it cannot be moved in time: what it is, and what to do instead.
    #[must_use]
    pub fn why_left(&self) -> String {
        let id = &self.id;
        match self.state {
            MessageState::Ready => {
                format!("{id} is ready, and somebody has its row locked: it is about to run, or runs; try again")
            }
            MessageState::Waiting => format!("{id} was changed by somebody else meanwhile; try again"),
            MessageState::Claimed => match &self.owner {
                Some(owner) => format!("{id} {owner}"),
                None => format!("{id} is claimed"),
            },
            MessageState::Failed => format!("{id} has failed; `ichido failed retry {id}` runs it again"),
            MessageState::Discarded => format!("{id} has failed and was discarded"),
            MessageState::Done => format!("{id} is done"),
            MessageState::Orphan => format!("{id} is parked without a record of it; `ichido doctor --fix` releases it"),
            MessageState::Other => {
                format!("{id} is not a message now: its row has a status that is not one of the queue's")
            }
        }
    }
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MessageState {
    /// It can be claimed, or is with its broker.
    Ready,
    /// A process has it; it may be running.
    Claimed,
    /// It is parked until it is due.
    Waiting,
    /// It has failed for good, and waits for an operator.
    Failed,
    /// It has failed for good, and nothing waits for anybody.
    Discarded,
    /// It is done, and its row is still there.
    Done,
    /// It is parked, and nothing is known about it.
    Orphan,
    /// Its row is there, and is neither new nor done nor failed.
    Other,
}

impl MessageState {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MessageState::Ready => "ready",
            MessageState::Claimed => "claimed",
            MessageState::Waiting => "waiting",
            MessageState::Failed => "failed",
            MessageState::Discarded => "discarded",
            MessageState::Done => "done",
            MessageState::Orphan => "orphan",
            MessageState::Other => "other",
        }
    }
}

impl fmt::Display for MessageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The process that has a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Owner {
    /// Its id: what the owner column holds.
    pub process: String,
    /// What it serves; none of this is known of a process that has left.
    pub request_id: Option<String>,
    /// Where it runs.
    pub host: Option<String>,
    /// Its number there.
    pub pid: Option<i64>,
    /// Has it sent a heartbeat within its lease?
    pub alive: bool,
    /// Seconds since its last heartbeat.
    pub heartbeat_seconds: Option<i64>,
    /// For how many seconds the message had run then; none if it did not run.
    pub running_seconds: Option<u64>,
}

impl Owner {
    /// A process, of which this is known, as the owner of a message.
    #[must_use]
    pub fn new(process: &str, known: Option<&ProcessState>, message: &str) -> Self {
        let running = known.and_then(|known| known.running.iter().find(|running| running.id == message));
        Owner {
            process: process.to_owned(),
            request_id: known.map(|known| known.request_id.clone()),
            host: known.map(|known| known.host.clone()),
            pid: known.map(|known| known.pid),
            alive: known.is_some_and(|known| known.alive),
            heartbeat_seconds: known.and_then(|known| known.heartbeat_seconds),
            running_seconds: running.map(|running| running.seconds),
        }
    }

    /// Where it runs, `host:pid`; its id if that is not known.
    #[must_use]
    pub fn place(&self) -> String {
        match (&self.host, self.pid) {
            (Some(host), Some(pid)) => format!("{host}:{pid}"),
            _ => self.process.clone(),
        }
    }
}

/// What it does with the message, as the end of a sentence.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.running_seconds.is_some() { "was being run at the last heartbeat" } else { "is claimed" };
        write!(f, "{verb} by the process {}", self.process)?;
        match (&self.request_id, self.alive) {
            (Some(request_id), true) => write!(f, " ({request_id} on {})", self.place()),
            (Some(request_id), false) => {
                write!(f, " ({request_id} on {}), which is dead; others rescue what it had", self.place())
            }
            (None, _) => f.write_str(", which is not known; `ichido doctor` tells more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_as_it_is_says_who_has_it_or_what_to_do() {
        let mut info = MessageInfo::new("orders/42", "orders", MessageState::Failed);
        assert_eq!(info.why_left(), "orders/42 has failed; `ichido failed retry orders/42` runs it again");
        info.state = MessageState::Claimed;
        let mut owner = Owner::new("c0ffee", None, "orders/42");
        info.owner = Some(owner.clone());
        let unknown = "orders/42 is claimed by the process c0ffee, which is not known; `ichido doctor` tells more";
        assert_eq!(info.why_left(), unknown);
        (owner.request_id, owner.host, owner.pid) = (Some("shop".into()), Some("a".into()), Some(7));
        (owner.alive, owner.running_seconds) = (true, Some(3));
        info.owner = Some(owner);
        let runs = "orders/42 was being run at the last heartbeat by the process c0ffee (shop on a:7)";
        assert_eq!(info.why_left(), runs);
    }
}
