//! The `[queues.Q]` sections: where messages wait. What is peculiar to a table is in `table.rs`, to
//! a broker in `broker.rs`; lanes and actions refer to queues by name.

use ichido::Table;

use super::broker::{RabbitMq, Sqs};
use super::error::ConfigError;
use super::field::Field;
use super::section::Section;
use super::table;

/// The keys that every queue may have, those of a table queue follow them.
pub(super) const KEYS: [&str; 3] = ["rabbitmq", "sqs", "payload_limit"];
const KINDS: [&str; 3] = ["table", "rabbitmq", "sqs"];

const PAYLOAD_LIMIT: u64 = 256 << 10;
const MOST_PAYLOAD: u64 = 16 << 20;

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// What the queue is made of.
    pub kind: QueueKind,
    /// The largest payload in bytes; a larger one is parked.
    pub payload_limit: u64,
}

/// What a queue is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueKind {
    /// ichido's own message table.
    Managed,
    /// A table of the user's own.
    Table(Box<Table>),
    /// A `RabbitMQ` queue.
    RabbitMq(Box<RabbitMq>),
    /// An SQS queue.
    Sqs(Box<Sqs>),
}

impl Queue {
    /// A queue of ichido's own, which is what an undeclared one of a lane is.
    pub(super) fn managed() -> Self {
        Self { kind: QueueKind::Managed, payload_limit: PAYLOAD_LIMIT }
    }

    pub(super) fn read(section: Section) -> Result<Self, ConfigError> {
        let section = section.allow(&[&table::KEYS[..], &KEYS[..]].concat())?;
        let limit = |field: &Field| field.size(1..=MOST_PAYLOAD);
        Ok(Self { kind: QueueKind::read(&section)?, payload_limit: section.or("payload_limit", PAYLOAD_LIMIT, limit)? })
    }

    /// Whether it is known when a message was sent, so that waiting times are known too.
    pub(super) fn knows_sending_time(&self) -> bool {
        match &self.kind {
            QueueKind::Table(table) => table.sent_at.is_some(),
            QueueKind::Managed | QueueKind::RabbitMq(_) | QueueKind::Sqs(_) => true,
        }
    }
}

impl QueueKind {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let written = KINDS.iter().filter(|kind| section.field(kind).is_some());
        if let [_, second, ..] = written.collect::<Vec<_>>()[..] {
            let text = "a queue can have only one of `table`, `rabbitmq` and `sqs`";
            return Err(section.invalid(second, text));
        }
        if section.field("table").is_some() {
            return table::read(section).map(|table| Self::Table(Box::new(table)));
        }
        if let Some(key) = table::KEYS.iter().find(|key| section.field(key).is_some()) {
            let text = "only table queues have this key; add `table = \"…\"`";
            return Err(section.invalid(key, text));
        }
        if let Some(field) = section.field("rabbitmq") {
            return RabbitMq::read(&field).map(|queue| Self::RabbitMq(Box::new(queue)));
        }
        match section.field("sqs") {
            Some(field) => Sqs::read(&field).map(|queue| Self::Sqs(Box::new(queue))),
            None => Ok(Self::Managed),
        }
    }
}
