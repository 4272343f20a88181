//! The `[lanes.L]` sections: queues ordered by service level, and the policy that shares the slots
//! of an action among them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::ConfigError;
use super::field::Field;
use super::level::{Level, LevelBy};
use super::names;
use super::queue::Queue;
use super::section::Section;

pub(super) const KEYS: [&str; 7] = ["policy", "levels", "look", "borrow", "age_after", "level_by", "auto"];
const POLICIES: [(&str, Policy); 3] =
    [("dedicated", Policy::Dedicated), ("strict", Policy::Strict), ("weighted", Policy::Weighted)];

/// A lane set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneSet {
    /// How the levels share the slots.
    pub policy: Policy,
    /// The levels, highest first.
    pub levels: Vec<Level>,
    /// How soon a higher message is seen; zero: looked for before every start.
    pub look: Duration,
    /// Whether idle slots of a level help the others.
    pub borrow: bool,
    /// After what wait a message is no longer held back by higher levels.
    pub age_after: Option<Duration>,
    /// How the level is read from the message itself.
    pub level_by: Option<LevelBy>,
    /// Whether ichido tunes weights and reserves within their ranges.
    pub auto: bool,
}

/// How levels share the slots of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Each level has its own.
    Dedicated,
    /// The highest level with work gets the next.
    Strict,
    /// Each level gets its weight's share.
    Weighted,
}

/// The queues that are declared, by name.
pub(super) type Queues = BTreeMap<String, Queue>;

impl LaneSet {
    pub(super) fn read(section: Section, queues: &Queues) -> Result<Self, ConfigError> {
        let section = section.allow(&KEYS)?;
        let policy = section.required("policy", |f| f.one_of(&POLICIES))?;
        let levels = section.required("levels", |f| levels(f, policy, queues))?;
        let some_time = |f: &Field| f.duration(Duration::from_millis(1));
        let lanes = Self {
            policy,
            look: section.or("look", Duration::from_millis(20), |f| f.duration(Duration::ZERO))?,
            borrow: section.or("borrow", false, Field::flag)?,
            age_after: section.optional("age_after", some_time)?,
            level_by: section.optional("level_by", |f| LevelBy::read(f, &levels))?,
            auto: section.or("auto", false, Field::flag)?,
            levels,
        };
        lanes.check_age(&section, queues)?;
        Ok(lanes)
    }

    fn check_age(&self, section: &Section, queues: &Queues) -> Result<(), ConfigError> {
        if self.age_after.is_some() && self.policy == Policy::Dedicated && !self.borrow {
            let text = "no effect: with the policy \"dedicated\" levels compete only with `borrow = true`";
            return Err(section.invalid("age_after", text));
        }
        let unknown = |level: &&Level| queues.get(&level.queue).is_some_and(|queue| !queue.knows_sending_time());
        match self.levels.iter().find(unknown) {
            Some(level) if self.age_after.is_some() => Err(section.invalid("age_after", needs_sent_at(&level.queue))),
            _ => Ok(()),
        }
    }

    /// The slots that no other level may take.
    pub(super) fn reserved(&self) -> usize {
        self.levels.iter().map(|level| level.reserve).sum()
    }

    /// Has a level a number of workers that is its own, at least or at most?
    pub(super) fn counts_workers(&self) -> bool {
        self.levels.iter().any(|level| level.reserve > 0 || level.concurrency.is_some())
    }

    /// The slots of an action that works on these lanes.
    pub(crate) fn slots(&self, concurrency: usize) -> usize {
        match self.policy {
            Policy::Dedicated => self.levels.iter().filter_map(|level| level.concurrency).sum(),
            Policy::Strict | Policy::Weighted => concurrency,
        }
    }
}

fn levels(field: &Field, policy: Policy, queues: &Queues) -> Result<Vec<Level>, ConfigError> {
    let levels = field.list(|field| Level::read(field, policy, queues))?;
    if !(2..=16).contains(&levels.len()) {
        let text = format!("found {} levels, expected 2 to 16", levels.len());
        return Err(field.invalid(text));
    }
    names::check_distinct(field, levels.iter().map(|level| level.level.as_str()))?;
    names::check_distinct(field, levels.iter().map(|level| level.queue.as_str()))?;
    Ok(levels)
}

/// Refuses a lane set that has the name of a queue: `from` could mean either.
pub(super) fn check_names(
    root: &Section,
    lanes: &BTreeMap<String, LaneSet>,
    queues: &Queues,
) -> Result<(), ConfigError> {
    match lanes.keys().find(|name| queues.contains_key(*name)) {
        Some(name) => {
            let text = format!("a queue has the name `{name}` too; `from` could mean either");
            root.required("lanes", |field| Err(field.section()?.invalid(name, text)))
        }
        None => Ok(()),
    }
}

pub(super) fn needs_sent_at(queue: &str) -> String {
    format!("waiting times are unknown: the table queue `{queue}` has no `sent_at`")
}
