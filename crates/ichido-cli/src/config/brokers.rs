//! What broker queues must keep with regard to each other and to the database. `file.rs` asks for the first, the command line
//! for the second, when it knows which database it is.

use std::collections::BTreeMap;

use ichido::message::{ClaimBy, GuardBy};

use super::broker::{MutexRules, RabbitMq, Sqs};
use super::error::ConfigError;
use super::file::Config;
use super::queue::{Queue, QueueKind};
use super::section::Section;
use super::spelling;

impl Config {
    /// The queues that `RabbitMQ` keeps, by name.
    pub fn rabbitmq(&self) -> impl Iterator<Item = (&str, &RabbitMq)> {
        rabbitmq(&self.queues)
    }

    /// The queues that SQS keeps, by name.
    pub fn sqs(&self) -> impl Iterator<Item = (&str, &Sqs)> {
        sqs(&self.queues)
    }

    /// The queues that any broker keeps, by name, with the key that says which kind it is.
    pub fn guarded(&self) -> impl Iterator<Item = (&str, &'static str, &MutexRules)> {
        let rabbitmq = self.rabbitmq().map(|(name, queue)| (name, "rabbitmq", &queue.mutex));
        rabbitmq.chain(self.sqs().map(|(name, queue)| (name, "sqs", &queue.mutex)))
    }

    /// How a row is held: as written, or by a lock where the database has locks on rows.
    #[must_use]
    pub fn claim(&self, rules: &MutexRules) -> ClaimBy {
        rules.claim.unwrap_or(if self.is_sqlite() { ClaimBy::Lease } else { ClaimBy::Lock })
    }

    /// Refuses a claim that the database cannot have; only now, for a flag may have named another database than the file.
    ///
    /// # Errors
    /// Naming the key and the way out.
    pub fn check_claims(&self, file: &str) -> Result<(), ConfigError> {
        let locked = |(_, _, rules): &(&str, &str, &MutexRules)| {
            (rules.claim, rules.guard) == (Some(ClaimBy::Lock), GuardBy::Mutex)
        };
        match self.guarded().find(locked) {
            Some((name, kind, _)) if self.is_sqlite() => Err(ConfigError::Invalid {
                file: file.to_owned(),
                line: None,
                key: format!("{}.{kind}.claim", spelling::key("queues", name)),
                text: "SQLite has no row locks; write claim = \"lease\", or remove this key".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn is_sqlite(&self) -> bool {
        self.database.url.scheme() == "sqlite"
    }
}

/// Refuses queues that are one at their broker, or that would both get what is sent to one of them.
pub(super) fn check_distinct(root: &Section, queues: &BTreeMap<String, Queue>) -> Result<(), ConfigError> {
    let mut before: Vec<(&str, &RabbitMq)> = Vec::new();
    for (name, queue) in rabbitmq(queues) {
        let same_broker = before.iter().filter(|(_, other)| other.url.iter().any(|url| queue.url.contains(url)));
        for (other_name, other) in same_broker {
            if queue.queue == other.queue {
                let text = format!("the queue `{other_name}` already uses this queue at the same broker");
                return Err(at(root, name, "queue", text));
            }
            let fans_out = (&queue.exchange, &queue.routing_key) == (&other.exchange, &other.routing_key);
            if fans_out && [queue, other].iter().any(|queue| queue.mutex.guard == GuardBy::Mutex) {
                let text = format!(
                    "messages with this routing key also reach the queue `{other_name}`, but a mutex guards only one delivery; \
                     use different keys"
                );
                return Err(at(root, name, "routing_key", text));
            }
        }
        before.push((name, queue));
    }
    check_distinct_sqs(root, queues)
}

/// The same for SQS: also no queue may be another one's dead-letter queue.
fn check_distinct_sqs(root: &Section, queues: &BTreeMap<String, Queue>) -> Result<(), ConfigError> {
    let mut before: Vec<(&str, &Sqs)> = Vec::new();
    for (name, queue) in sqs(queues) {
        let place = |queue: &Sqs| (queue.region.clone(), queue.endpoint.clone());
        for (other_name, other) in before.iter().filter(|(_, other)| place(other) == place(queue)) {
            if queue.queue == other.queue {
                let text = format!("the queue `{other_name}` already uses this queue of SQS");
                return Err(at_sqs(root, name, text));
            }
            if queue.queue == other.dead_letters() || queue.dead_letters() == other.queue {
                let text = format!("this queue and `{other_name}`: one is the dead-letter queue of the other");
                return Err(at_sqs(root, name, text));
            }
        }
        before.push((name, queue));
    }
    Ok(())
}

fn at_sqs(root: &Section, queue: &str, text: String) -> ConfigError {
    at_kind(root, (queue, "sqs"), "queue", text)
}

fn sqs(queues: &BTreeMap<String, Queue>) -> impl Iterator<Item = (&str, &Sqs)> {
    queues.iter().filter_map(|(name, queue)| match &queue.kind {
        QueueKind::Sqs(kept) => Some((name.as_str(), &**kept)),
        _ => None,
    })
}

fn rabbitmq(queues: &BTreeMap<String, Queue>) -> impl Iterator<Item = (&str, &RabbitMq)> {
    queues.iter().filter_map(|(name, queue)| match &queue.kind {
        QueueKind::RabbitMq(kept) => Some((name.as_str(), &**kept)),
        _ => None,
    })
}

fn at(root: &Section, queue: &str, key: &str, text: String) -> ConfigError {
    at_kind(root, (queue, "rabbitmq"), key, text)
}

fn at_kind(root: &Section, (queue, kind): (&str, &str), key: &str, text: String) -> ConfigError {
    let found = within(root, "queues").and_then(|queues| within(&queues, queue));
    match found.and_then(|queue| within(&queue, kind)) {
        Some(kept) => kept.invalid(key, text),
        None => root.invalid("queues", text),
    }
}

fn within<'a>(section: &Section<'a>, key: &str) -> Option<Section<'a>> {
    section.field(key)?.section().ok()
}
