//! What is asked of an [`Act`](super::Act), and what it answers.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ichido::{
    MessageId, NewMessage,
    by_hand::Repair,
    inspect::{Parked, ParkedFilter},
    store::{Audited, Cancellable, Cancelled},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Messages to be sent, all or none.
#[derive(Debug, Clone)]
pub struct SendOrder {
    /// A queue or a lane set.
    pub to: String,
    /// The messages.
    pub messages: Vec<NewMessage>,
    /// What makes it safe to ask again.
    pub idempotency: Option<Idempotency>,
}

/// A key that is remembered for a day with what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key, with where it was sent to.
    pub key: String,
    /// What tells the request from others with the same key.
    pub request: String,
}

/// Why a key is refused.
pub(crate) const USED: &str = "this Idempotency-Key was used for another request; nothing was sent";

impl Idempotency {
    /// The key of a request to a queue or a lane set, and what it says.
    #[must_use]
    pub fn new(to: &str, key: &str, request: &[u8]) -> Self {
        Idempotency { key: digest(&[to.as_bytes(), key.as_bytes()]), request: digest(&[request]) }
    }
}

fn digest(parts: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    URL_SAFE_NO_PAD.encode(digest.finalize())
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentAnswer {
    /// The ids of the messages, in their order.
    pub ids: Vec<String>,
    /// It was sent before, with the same key: these are the ids from then.
    #[serde(default)]
    pub replayed: bool,
    /// Why not all of it is at its broker yet; it will be.
    pub unpublished: Option<String>,
}

/// Which messages to cancel.
#[derive(Debug, Clone)]
pub enum Which {
    /// These.
    These(Vec<MessageId>),
    /// All of a queue that are in one of these states.
    All(String, Vec<Cancellable>),
}

/// Messages to be cancelled.
#[derive(Debug, Clone)]
pub struct CancelOrder {
    /// Which.
    pub which: Which,
    /// Only look.
    pub dry_run: bool,
    /// How long messages that run are waited for.
    pub wait: Duration,
    /// No more than so many of a queue; none for all of them.
    pub most: Option<usize>,
}

/// What became of a message that was to be cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CancelLine {
    /// The message.
    pub id: String,
    /// What became of it.
    pub result: Cancelled,
}

/// Failed messages to be retried or discarded.
#[derive(Debug, Clone)]
pub struct RepairOrder {
    /// What to do with them.
    pub verb: Repair,
    /// These; none: those that the filter means.
    pub ids: Vec<MessageId>,
    /// Which, if no ids are given; its `limit` is how many at most.
    pub filter: ParkedFilter,
    /// Only look.
    pub dry_run: bool,
    /// No more than so many per second.
    pub rate: Option<u32>,
}

/// Work at a given rate goes on for so many seconds at most: whoever asked waits for the answer.
pub(crate) const LONGEST_PACED: u32 = 10;

/// How many messages are repaired at a time, of these at most.
pub(crate) fn at_this_rate(rate: Option<u32>, most: u32) -> u32 {
    rate.map_or(most, |rate| rate.saturating_mul(LONGEST_PACED).min(most))
}

/// What became of failed messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairAnswer {
    /// Nothing was changed.
    pub dry_run: bool,
    /// Those that were changed, or would be.
    pub changed: Vec<String>,
    /// Those that were left alone, or would be.
    pub left: Vec<LeftAlone>,
    /// There may be more that the filter means.
    pub more: bool,
    /// What did not go as it should, and hurts nobody.
    pub warning: Option<String>,
}

/// A message that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftAlone {
    /// The message.
    pub id: String,
    /// Why.
    pub why: String,
}

/// What was changed by hand, a page of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditPage {
    /// The newest first.
    pub entries: Vec<Audited>,
    /// Where older ones go on; none if these were all.
    pub next: Option<String>,
}

/// Failed messages that were searched for.
#[derive(Debug, Clone)]
pub struct Searched {
    /// What was found.
    pub messages: Vec<Parked>,
    /// The last one that was looked at, if there are more.
    pub until: Option<String>,
}
