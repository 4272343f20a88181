//! What stores of messages that a broker carries have in common.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::Past;
use ichido::{
    Error, Queue, Result,
    broker::{Found, Publication},
    inspect::ParkedState,
    message::Place,
    store::ProcessId,
};

/// An id that no other message has or had.
#[must_use]
pub fn new_id() -> String {
    Uuid::now_v7().to_string()
}

/// What tells two payloads apart.
#[must_use]
pub fn payload_hash(payload: &[u8]) -> Vec<u8> {
    Sha256::digest(payload).to_vec()
}

/// A verb that is for brokers' queues only.
#[must_use]
pub fn no_broker(queue: &str) -> Error {
    Error::Setup(format!("no broker keeps the queue `{queue}`"))
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
                return Err(Error::Refused(format!("the {what} has more than 255 bytes, or a NUL")));
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
    fn the_only_broker_or_the_one_that_was_named_publishes() {
        let (paid, refund) =
            (Queue::broker("paid", Guarded::new("", "paid")), Queue::broker("refund", Guarded::new("", "r")));
        let only = broker_queues(&[Queue::managed("mail"), paid.clone()]);
        assert_eq!(&*broker_for(None, &only).unwrap(), "paid");
        let both = broker_queues(&[paid, Queue::managed("mail"), refund]);
        assert_eq!(&*broker_for(Some("refund"), &both).unwrap(), "refund");
        let error = |named, queues| broker_for(named, queues).unwrap_err().to_string();
        assert!(error(None, &both).contains("`through`: `paid`, `refund`"), "{}", error(None, &both));
        assert!(error(Some("mail"), &both).contains("`mail`; publish through one of `paid`, `refund`"));
        assert!(error(None, &broker_queues(&[Queue::managed("mail")])).contains("no queue"));
    }
}
