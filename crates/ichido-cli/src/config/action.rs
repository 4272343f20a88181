//! The `[actions.A]` sections: which queue is worked on, with how many workers, and what is done
//! with a message.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action_kind::{self, ActionKind};
use super::error::ConfigError;
use super::field::Field;
use super::handlers;
use super::lanes::{LaneSet, Queues};
use super::section::Section;
use super::spelling::quoted;
use super::units::spelled;
use ichido::{
    RetryPolicy,
    action::{CommitOn, Isolation},
    handlers::{Entry, suggestion},
};

pub(super) const KEYS: [&str; 8] =
    ["from", "concurrency", "retry", "timeout", "isolation", "commit_interval", "commit_on", "handlers"];
const RETRY_KEYS: [&str; 4] = ["attempts", "first", "max", "factor"];
const ISOLATIONS: [(&str, Isolation); 3] = [
    ("read committed", Isolation::ReadCommitted),
    ("repeatable read", Isolation::RepeatableRead),
    ("serializable", Isolation::Serializable),
];

const COMMIT_ON: [(&str, CommitOn); 2] = [("park", CommitOn::Park), ("error", CommitOn::Error)];

/// An action and how it is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// The queue or lane set it works on.
    pub from: String,
    /// How many messages it works on at once.
    pub concurrency: usize,
    /// How a failed message is tried again.
    pub retry: RetryPolicy,
    /// How long one message may take.
    pub timeout: Option<Duration>,
    /// The isolation of the business transaction.
    pub isolation: Isolation,
    /// How many messages share a transaction.
    pub commit_interval: usize,
    /// The failures that commit all the same.
    pub commit_on: Vec<CommitOn>,
    /// Its own handler queue, when it has one.
    pub handlers: Option<Vec<Entry>>,
    /// What is done with a message.
    pub kind: ActionKind,
}

/// The lane sets, by name.
pub(super) type Lanes = BTreeMap<String, LaneSet>;

impl Action {
    pub(super) fn read(section: Section, queues: &Queues, lanes: &Lanes) -> Result<Self, ConfigError> {
        let section = section.allow(&[&KEYS[..], &action_kind::KEYS[..]].concat())?;
        let action = Self {
            from: section.required("from", |f| from(f, queues, lanes))?,
            concurrency: section.or("concurrency", 4, |f| f.whole(1..=1024))?,
            retry: retry(&section)?,
            timeout: section.optional("timeout", |f| f.duration(Duration::from_millis(1)))?,
            isolation: section.or("isolation", Isolation::ReadCommitted, |f| f.one_of(&ISOLATIONS))?,
            commit_interval: section.or("commit_interval", 1, |f| f.whole(1..=10_000))?,
            commit_on: section.or("commit_on", vec![], |f| f.list(|f| f.one_of(&COMMIT_ON)))?,
            handlers: section.optional("handlers", handlers::read)?,
            kind: ActionKind::read(&section)?,
        };
        action.check_lanes(&section, lanes)?;
        Ok(action)
    }

    fn check_lanes(&self, section: &Section, lanes: &Lanes) -> Result<(), ConfigError> {
        let Some(lanes) = lanes.get(&self.from) else {
            return Ok(());
        };
        if self.commit_interval > 1 && lanes.counts_workers() {
            let text = format!(
                "with more than 1, a worker takes messages from all levels at once; set it to 1, or remove `reserve` and \
                 `concurrency` from the levels of `{}`",
                self.from
            );
            return Err(section.invalid("commit_interval", text));
        }
        let (reserved, slots) = (lanes.reserved(), lanes.set.slots(self.concurrency));
        if reserved < slots {
            return Ok(());
        }
        let text = format!(
            "the levels of `{}` reserve {reserved} of {slots} slots; at least one must stay unreserved",
            self.from
        );
        Err(section.invalid("concurrency", text))
    }
}

fn from(field: &Field, queues: &Queues, lanes: &Lanes) -> Result<String, ConfigError> {
    let name = field.text()?;
    if queues.contains_key(name) || lanes.contains_key(name) {
        return Ok(name.to_owned());
    }
    let known = || lanes.keys().chain(queues.keys()).map(String::as_str);
    let near = suggestion(name, known());
    let list = known().collect::<Vec<_>>().join(", ");
    let list = if list.is_empty() { "none; add one with [queues.NAME]" } else { &list };
    Err(field.invalid(format!("no queue or lane set {}{near}\n  known: {list}", quoted(name))))
}

fn retry(action: &Section) -> Result<RetryPolicy, ConfigError> {
    let section = action.section("retry", &RETRY_KEYS)?;
    let usual = RetryPolicy::default();
    let retry = RetryPolicy {
        attempts: section.or("attempts", usual.attempts, |f| f.whole(1..=1_000_000))?,
        first: section.or("first", usual.first, |f| f.duration(Duration::ZERO))?,
        max: section.or("max", usual.max, |f| f.duration(Duration::ZERO))?,
        factor: section.or("factor", usual.factor, |f| f.number(1.0..=1000.0))?,
    };
    if retry.first > retry.max {
        let (first, max) = (spelled(retry.first), spelled(retry.max));
        let text = format!("\"{first}\" is longer than `max`, which is \"{max}\"");
        return Err(section.invalid("first", text));
    }
    Ok(retry)
}
