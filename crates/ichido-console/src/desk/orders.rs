//! What is asked of an [`Act`](super::Act), and what it answers.

use std::time::Duration;

use ichido::{
    MessageId, NewMessage,
    by_hand::Repair,
    inspect::ParkedFilter,
    store::{Cancellable, Cancelled},
};
use serde::{Deserialize, Serialize};

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
