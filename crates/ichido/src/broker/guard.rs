//! What the database says about a message that a broker carries: what is found when it is handed out, and what is to be
//! published. Stores find and keep it; [`BrokerReader`](crate::readers::broker_reader) and [`Relay`](crate::Relay) act on it.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    Guarded, Headers, Key,
    broker::{Outgoing, Received},
    message::{ClaimBy, GuardBy},
};
use sha2::{Digest, Sha256};

/// What is found in the database when a broker delivers a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Its row, which is ours now.
    Free(Standing),
    /// No row: it is done, if it was one of ours. With an inbox: it is there, so it is done.
    Nothing,
    /// It is in the inbox, or its row is there, with another payload: two messages have one id.
    Another,
    /// Its row, which another worker holds.
    Busy,
    /// Its row; it waits for its due time, and is published again then.
    Waiting,
    /// Its row; it has failed for good and waits for an operator.
    Failed,
}

/// What is known about a message whose row was free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Runs that failed by themselves.
    pub failures: u32,
    /// A process died while it had claimed it.
    pub suspect: bool,
    /// There is a parked row about it.
    pub parked: bool,
}

/// How a broker's queue is guarded, as its readers must know it.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The name of this database.
    pub origin: Arc<str>,
    /// The largest payload in bytes.
    pub payload_limit: usize,
    /// The rules.
    pub rules: Guarded,
}

impl Guard {
    /// Is a delivery held by a lock of the business transaction? With an inbox it always can be: its row is one of our own.
    pub(crate) fn locks(&self) -> bool {
        self.rules.claim == ClaimBy::Lock || self.rules.by == GuardBy::Inbox
    }

    /// Was it sent from this database to this queue?
    #[must_use]
    pub fn is_own(&self, queue: &str, received: &Received) -> bool {
        received.origin.as_deref() == Some(&*self.origin) && received.queue.as_deref() == Some(queue)
    }

    /// What names a message in the database. With an inbox that is made of who sent it and the id that it was given; what is retried
    /// comes from here, and has that name already.
    ///
    /// # Errors
    /// Why the message has no usable id.
    pub fn key_of(&self, queue: &str, received: &Received) -> Result<Key, String> {
        let id = match self.rules.by {
            GuardBy::Mutex => received.id.clone()?,
            GuardBy::Inbox if self.is_own(queue, received) => received.id.clone()?,
            GuardBy::Inbox => {
                let given = received.id.as_ref().ok().or(received.message_id.as_ref()).cloned();
                let given = given.ok_or("it has no message id, by which an inbox knows it")?;
                let sender = received.origin.as_deref().or(received.sender.as_deref()).unwrap_or_default();
                if given.is_empty() { given } else { inbox_id(queue, sender, &given) }
            }
        };
        match id.len() {
            1..=LONGEST_ID if !id.contains('\0') => Ok(Key::new([id])),
            _ => Err(format!("an id must have 1 to {LONGEST_ID} bytes and no NUL")),
        }
    }
}

/// A message that is to be published.
#[derive(Debug, Clone)]
pub struct Unsent {
    /// Its number in the outbox.
    pub number: i64,
    /// Which of its publications this is: a retry is another one.
    pub edition: i64,
    /// How many attempts to publish it have failed.
    pub attempts: u32,
    /// For how many milliseconds it has waited since it was sent, by the database's clock.
    pub waited: i64,
    /// What is published.
    pub message: Outgoing,
}

/// What is published to an exchange, without a mutex in this database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publication {
    /// Where it is published to.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// Texts beside the payload.
    pub headers: Headers,
    /// The payload.
    pub payload: Vec<u8>,
}

/// The state of a queue's outbox, for operators.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutboxState {
    /// Messages that are committed, due and not known to be with the broker; at most [`crate::inspect::MOST_COUNTED`] are counted.
    pub unpublished: u64,
    /// For how many seconds the oldest of them has waited: since its send, or since it was to be published again.
    pub oldest_seconds: Option<i64>,
    /// The last reason why one of them could not be published.
    pub error: Option<String>,
}

impl OutboxState {
    /// An outbox with this many unpublished messages.
    #[must_use]
    pub fn new(unpublished: u64, oldest_seconds: Option<i64>, error: Option<String>) -> Self {
        OutboxState { unpublished, oldest_seconds: oldest_seconds.map(|seconds| seconds.max(0)), error }
    }
}

/// What tells two payloads apart.
#[must_use]
pub fn payload_hash(payload: &[u8]) -> Vec<u8> {
    Sha256::digest(payload).to_vec()
}

/// Is a row with this hash about this body? If its sender has not written a hash, nobody can tell.
#[must_use]
pub fn is_about(hash: Option<&[u8]>, payload: &[u8]) -> bool {
    hash.is_none_or(|hash| hash == payload_hash(payload))
}

/// Why a message is dead-lettered whose id belongs to another body.
pub const ANOTHER_BODY: &str = "another message has this id";

/// The longest id of a mutex or in an inbox, in bytes.
pub const LONGEST_ID: usize = 255;

/// What names a message in an inbox: the queue, so that each of several gets its own, who sent it, and the id that it was given.
/// As it is, if that is short enough for an index, or else as a hash; compared as bytes.
#[must_use]
pub fn inbox_id(queue: &str, sender: &str, id: &str) -> String {
    // The length keeps `a:b` + `c` and `a` + `b:c` apart; behind the id, because MariaDB ignores spaces at the end of a text.
    let readable = format!("{queue}:{sender}:{id}:{}", sender.len());
    if readable.len() <= LONGEST_ID && !readable.contains('\0') {
        return readable;
    }
    let mut hash = Sha256::new();
    for part in [queue, sender, id] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_any_part_has_another_id() {
        let long = "x".repeat(300);
        let parts = ["a", "a:b", "b", "1:b", "", "A", "a ", &long];
        let mut all = std::collections::BTreeSet::new();
        for queue in ["q", "r"] {
            for sender in parts {
                for id in parts {
                    let made = inbox_id(queue, sender, id);
                    assert!(made.len() <= LONGEST_ID);
                    assert!(all.insert(made), "{queue} {sender} {id}");
                }
            }
        }
    }
}
