//! The `[lanes.L]` sections: queues ordered by service level, and the policy that shares the slots
//! of an action among them.

use std::collections::BTreeMap;
use std::time::Duration;

use ichido::lanes::{Level, Policy};

use super::error::ConfigError;
use super::field::Field;
use super::level::{self, Tuning};
use super::names;
use super::queue::Queue;
use super::section::Section;

pub(super) const KEYS: [&str; 7] = ["policy", "levels", "look", "borrow", "age_after", "level_by", "auto"];
const POLICIES: [(&str, Policy); 3] =
    [("dedicated", Policy::Dedicated { borrow: false }), ("strict", Policy::Strict), ("weighted", Policy::Weighted)];

/// A lane set, and what is written about it that workers and senders do not ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneSet {
    /// The set itself.
    pub set: ichido::lanes::LaneSet,
    /// What else is written about each of its levels, in their order.
    pub tuning: Vec<Tuning>,
    /// Whether idle slots of a level help the others, also where the policy is not `dedicated`: a
    /// simulation may ask how it would be.
    pub borrow: bool,
    /// Whether ichido tunes weights and reserves within their ranges.
    pub auto: bool,
}

/// The queues that are declared, by name.
pub(super) type Queues = BTreeMap<String, Queue>;

impl LaneSet {
    pub(super) fn read(name: &str, section: Section, queues: &Queues) -> Result<Self, ConfigError> {
        let section = section.allow(&KEYS)?;
        let policy = section.required("policy", |f| f.one_of(&POLICIES))?;
        let (levels, tuning) = section.required("levels", |f| levels(f, policy, queues))?;
        let mut set = ichido::lanes::LaneSet::new(name, policy);
        set.levels = levels;
        set.look = section.or("look", set.look, |f| f.duration(Duration::ZERO))?;
        let borrow = section.or("borrow", false, Field::flag)?;
        if matches!(policy, Policy::Dedicated { .. }) {
            set.policy = Policy::Dedicated { borrow };
        }
        set.age_after = section.optional("age_after", |f| f.duration(Duration::from_millis(1)))?;
        set.level_by = section.optional("level_by", |f| level::level_by(f, &set.levels))?;
        let auto = section.or("auto", false, Field::flag)?;
        check_age(&set, &section, queues)?;
        Ok(Self { set, tuning, borrow, auto })
    }

    /// The slots that no other level may take.
    pub(super) fn reserved(&self) -> usize {
        self.set.levels.iter().map(|level| level.reserve).sum()
    }

    /// Has a level a number of workers that is its own, at least or at most?
    pub(super) fn counts_workers(&self) -> bool {
        self.set.levels.iter().any(|level| level.reserve > 0 || level.concurrency.is_some())
    }
}

fn check_age(set: &ichido::lanes::LaneSet, section: &Section, queues: &Queues) -> Result<(), ConfigError> {
    if set.age_after.is_some() && set.policy == (Policy::Dedicated { borrow: false }) {
        let text = "has no effect: with the policy \"dedicated\", levels compete only if `borrow = true`";
        return Err(section.invalid("age_after", text));
    }
    let unknown = |level: &&Level| queues.get(&*level.queue).is_some_and(|queue| !queue.knows_sending_time());
    match set.levels.iter().find(unknown) {
        Some(level) if set.age_after.is_some() => Err(section.invalid("age_after", needs_sent_at(&level.queue))),
        _ => Ok(()),
    }
}

fn levels(field: &Field, policy: Policy, queues: &Queues) -> Result<(Vec<Level>, Vec<Tuning>), ConfigError> {
    let levels = field.list(|field| level::read(field, policy, queues))?;
    let (levels, tuning): (Vec<_>, Vec<_>) = levels.into_iter().unzip();
    if !(2..=16).contains(&levels.len()) {
        let text = format!("found {} levels, expected 2 to 16", levels.len());
        return Err(field.invalid(text));
    }
    names::check_distinct(field, levels.iter().map(|level| &*level.name))?;
    names::check_distinct(field, levels.iter().map(|level| &*level.queue))?;
    Ok((levels, tuning))
}

/// Refuses a lane set that has the name of a queue: `from` could mean either.
pub(super) fn check_names(
    root: &Section,
    lanes: &BTreeMap<String, LaneSet>,
    queues: &Queues,
) -> Result<(), ConfigError> {
    match lanes.keys().find(|name| queues.contains_key(*name)) {
        Some(name) => {
            let text = format!("a queue is also named `{name}`, so `from` would be ambiguous; rename one of them");
            root.required("lanes", |field| Err(field.section()?.invalid(name, text)))
        }
        None => Ok(()),
    }
}

pub(super) fn needs_sent_at(queue: &str) -> String {
    format!("waiting times are unknown: the table queue `{queue}` has no `sent_at`; set it")
}
