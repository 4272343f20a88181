//! One level of a lane set, and the rule that reads a message's level from its fields.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::ConfigError;
use super::field::Field;
use super::lanes::{Queues, needs_sent_at};
use super::names;
use super::spelling::quoted;
use ichido::{
    handlers::suggestion,
    lanes::{Level, LevelBy, Policy},
};

const KEYS: [&str; 8] =
    ["level", "queue", "weight", "reserve", "concurrency", "target", "weight_range", "reserve_range"];
const LEVEL_BY_KEYS: [&str; 3] = ["field", "map", "default"];

const WEIGHTS: RangeInclusive<u32> = 1..=1000;
const SLOTS: RangeInclusive<usize> = 0..=1024;

/// What is written about a level that its workers do not ask for: what is hoped for, and within
/// what `auto` may tune it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    /// The waiting time that is hoped for.
    pub target: Option<Duration>,
    /// The weights that `auto` may choose from.
    pub weight_range: Option<RangeInclusive<u32>>,
    /// The reserves that `auto` may choose from.
    pub reserve_range: Option<RangeInclusive<usize>>,
}

pub(super) fn read(field: &Field, policy: Policy, queues: &Queues) -> Result<(Level, Tuning), ConfigError> {
    let section = field.section()?.allow(&KEYS)?;
    let mut level = Level::new(section.required("level", name)?, section.required("queue", name)?);
    level.weight = section.or("weight", level.weight, |f| f.whole(WEIGHTS))?;
    level.reserve = section.or("reserve", level.reserve, |f| f.whole(SLOTS))?;
    level.concurrency = section.optional("concurrency", |f| f.whole(1..=*SLOTS.end()))?;
    let tuning = Tuning {
        target: section.optional("target", |f| f.duration(Duration::from_millis(1)))?,
        weight_range: section.optional("weight_range", |f| range(f, WEIGHTS))?,
        reserve_range: section.optional("reserve_range", |f| range(f, SLOTS))?,
    };
    if matches!(policy, Policy::Dedicated { .. }) && level.concurrency.is_none() {
        let text = "missing; with the policy \"dedicated\", every level requires it";
        return Err(section.invalid("concurrency", text));
    }
    let queue = queues.get(&*level.queue);
    if tuning.target.is_some() && queue.is_some_and(|queue| !queue.knows_sending_time()) {
        return Err(section.invalid("target", needs_sent_at(&level.queue)));
    }
    Ok((level, tuning))
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
pub(super) fn level_by(field: &Field, levels: &[Level]) -> Result<LevelBy, ConfigError> {
    let section = field.section()?.allow(&LEVEL_BY_KEYS)?;
    let known = |field: &Field| known_level(field, levels);
    let entry = |(value, field): (&str, Field)| Ok((value.to_owned(), known(&field)?));
    Ok(LevelBy {
        field: section.required("field", names::column)?,
        map: section.required("map", |f| f.entries()?.into_iter().map(entry).collect())?,
        default: section.required("default", known)?,
    })
}

fn known_level(field: &Field, levels: &[Level]) -> Result<String, ConfigError> {
    let known = || levels.iter().map(|level| &*level.name);
    let text = field.text()?;
    if known().any(|level| level == text) {
        return Ok(text.to_owned());
    }
    let near = suggestion(text, known());
    let list = known().collect::<Vec<_>>().join(", ");
    Err(field.invalid(format!("no level {}{near}\n  known: {list}", quoted(text))))
}
