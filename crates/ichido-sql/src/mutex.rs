//! What stores of messages that a broker carries have in common.

use std::sync::Arc;

use uuid::Uuid;

pub use ichido::broker::{is_about, payload_hash};

use crate::Past;
use ichido::{
    Error, Queue,
    broker::{Found, Publication},
    error::Result,
    inspect::ParkedState,
    message::Place,
    store::ProcessId,
};

/// An id that no other message has or had.
#[must_use]
pub fn new_id() -> String {
    Uuid::now_v7().to_string()
}

/// Is this the hash that the inbox has? An empty one is of a message that was cancelled before anybody kept what it says: any is.
#[must_use]
pub fn is_hash_of(known: &[u8], hash: &[u8]) -> bool {
    known.is_empty() || known == hash
}

/// A verb that is for brokers' queues only.
#[must_use]
pub fn no_broker(queue: &str) -> Error {
    Error::Setup(format!("`{queue}` is not a broker queue"))
}

/// Those of a store's queues that brokers keep.
#[must_use]
pub fn broker_queues(queues: &[Queue]) -> Vec<Arc<str>> {
    let kept = queues.iter().filter(|queue| matches!(queue.place, Place::Broker(_)));
    kept.map(|queue| queue.name.clone()).collect()
}

/// What a mutex row means that was free or not, with this owner, and what is known about its message.
#[must_use]
pub fn found(free: bool, owner: Option<ProcessId>, state: Option<ParkedState>, past: Option<&Past>) -> Found {
    match owner {
        _ if free => Found::Free(Past::standing(past)),
        Some(ProcessId::NOBODY) => match state {
            Some(ParkedState::Dead | ParkedState::Discarded) => Found::Failed,
            _ => Found::Waiting,
        },
        _ => Found::Busy,
    }
}

/// What cannot be published, before anything is written.
///
/// # Errors
/// [`Error::Refused`] with the reason.
pub fn refuse_publications(queue: &str, limit: usize, messages: &[Publication]) -> Result<()> {
    for Publication { exchange, routing_key, payload, .. } in messages {
        if payload.len() > limit {
            let size = payload.len();
            return Err(Error::Refused(format!("{size} bytes are over the limit of {limit} of the queue `{queue}`")));
        }
        for (what, name) in [("exchange", exchange), ("routing key", routing_key)] {
            if name.len() > 255 || name.contains('\0') {
                return Err(Error::Refused(format!("the {what} is longer than 255 bytes or contains NUL")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ichido::Guarded;

    #[test]
    fn the_queues_of_brokers_are_told_from_others() {
        let broker = |name: &str| Queue::broker(name, Guarded::new("", name));
        let queues = broker_queues(&[broker("paid"), Queue::managed("mail"), broker("refund")]);
        assert_eq!(queues, ["paid".into(), "refund".into()]);
    }
}
