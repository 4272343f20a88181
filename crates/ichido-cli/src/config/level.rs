//! One level of a lane set, and the rule that reads a message's level from its fields.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::ConfigError;
use super::field::Field;
use super::lanes::{Policy, Queues, needs_sent_at};
use super::names;
use super::section::Section;
use super::spelling::quoted;
use ichido::handlers::suggestion;

const KEYS: [&str; 8] =
    ["level", "queue", "weight", "reserve", "concurrency", "target", "weight_range", "reserve_range"];
const LEVEL_BY_KEYS: [&str; 3] = ["field", "map", "default"];

const WEIGHTS: RangeInclusive<u32> = 1..=1000;
const SLOTS: RangeInclusive<usize> = 0..=1024;

/// A level of a lane set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The level's name.
    pub level: String,
    /// The queue with its messages.
    pub queue: String,
    /// Its share under the policy `weighted`.
    pub weight: u32,
    /// The slots kept for it.
    pub reserve: usize,
    /// Its own slots under the policy `dedicated`, else the most it may have.
    pub concurrency: Option<usize>,
    /// The waiting time that is hoped for.
    pub target: Option<Duration>,
    /// The weights that `auto` may choose from.
    pub weight_range: Option<RangeInclusive<u32>>,
    /// The reserves that `auto` may choose from.
    pub reserve_range: Option<RangeInclusive<usize>>,
}

impl Level {
    pub(super) fn read(field: &Field, policy: Policy, queues: &Queues) -> Result<Self, ConfigError> {
        let section = field.section()?.allow(&KEYS)?;
        let level = Self {
            level: section.required("level", name)?,
            queue: section.required("queue", name)?,
            weight: section.or("weight", 1, |f| f.whole(WEIGHTS))?,
            reserve: section.or("reserve", 0, |f| f.whole(SLOTS))?,
            concurrency: section.optional("concurrency", |f| f.whole(1..=*SLOTS.end()))?,
            target: section.optional("target", |f| f.duration(Duration::from_millis(1)))?,
            weight_range: section.optional("weight_range", |f| range(f, WEIGHTS))?,
            reserve_range: section.optional("reserve_range", |f| range(f, SLOTS))?,
        };
        level.check(&section, policy, queues)?;
        Ok(level)
    }

    fn check(&self, section: &Section, policy: Policy, queues: &Queues) -> Result<(), ConfigError> {
        if policy == Policy::Dedicated && self.concurrency.is_none() {
            let text = "missing; with the policy \"dedicated\" every level needs it";
            return Err(section.invalid("concurrency", text));
        }
        let queue = queues.get(&self.queue);
        if self.target.is_some() && queue.is_some_and(|queue| !queue.knows_sending_time()) {
            return Err(section.invalid("target", needs_sent_at(&self.queue)));
        }
        Ok(())
    }
}

fn name(field: &Field) -> Result<String, ConfigError> {
    field.parsed(|text| names::check_name(text).map(|()| text.to_owned()))
}

/// A range, written `[least, most]`.
fn range<N>(field: &Field, allowed: RangeInclusive<N>) -> Result<RangeInclusive<N>, ConfigError>
where
    N: TryFrom<i64> + PartialOrd + Display + Copy,
{
    match field.list(|f| f.whole(allowed.clone()))?[..] {
        [least, most] if least <= most => Ok(least..=most),
        _ => Err(field.invalid("expected two numbers, the smaller first, like [1, 5]")),
    }
}

/// How the level of a message is read from the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelBy {
    /// The column or JSON field.
    pub field: String,
    /// The level for each of its values.
    pub map: BTreeMap<String, String>,
    /// The level for every other value.
    pub default: String,
}

impl LevelBy {
    pub(super) fn read(field: &Field, levels: &[Level]) -> Result<Self, ConfigError> {
        let section = field.section()?.allow(&LEVEL_BY_KEYS)?;
        let known = |field: &Field| known_level(field, levels);
        let entry = |(value, field): (&str, Field)| Ok((value.to_owned(), known(&field)?));
        Ok(Self {
            field: section.required("field", names::column)?,
            map: section.required("map", |f| f.entries()?.into_iter().map(entry).collect())?,
            default: section.required("default", known)?,
        })
    }
}

fn known_level(field: &Field, levels: &[Level]) -> Result<String, ConfigError> {
    let known = || levels.iter().map(|level| level.level.as_str());
    let text = field.text()?;
    if known().any(|level| level == text) {
        return Ok(text.to_owned());
    }
    let near = suggestion(text, known());
    let list = known().collect::<Vec<_>>().join(", ");
    Err(field.invalid(format!("no level {}{near}\n  known: {list}", quoted(text))))
}
