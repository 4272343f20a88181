//! From the lane sets of the configuration to those of the library.

use ichido::lanes::{LaneSet, Level, Policy};

use crate::{
    config::{self, Config},
    failure::Failure,
};

/// The lane set as the library knows it.
pub(crate) fn lane_set(name: &str, set: &config::LaneSet) -> LaneSet {
    let made = LaneSet::new(name, policy(set.policy, set.borrow)).look(set.look);
    let made = set.levels.iter().map(level).fold(made, LaneSet::level);
    match set.age_after {
        Some(wait) => made.age_after(wait),
        None => made,
    }
}

pub(crate) fn policy(policy: config::Policy, borrow: bool) -> Policy {
    match policy {
        config::Policy::Dedicated => Policy::Dedicated { borrow },
        config::Policy::Strict => Policy::Strict,
        config::Policy::Weighted => Policy::Weighted,
    }
}

fn level(level: &config::Level) -> Level {
    let made = Level::new(level.level.as_str(), level.queue.as_str()).weight(level.weight);
    let made = made.reserve(level.reserve as usize);
    match level.concurrency {
        Some(slots) => made.concurrency(slots as usize),
        None => made,
    }
}

/// A lane set that the configuration does not know.
pub(crate) fn unknown_set(name: &str, config: &Config) -> Failure {
    let known = config.lanes.keys().map(String::as_str);
    let hint = ichido::suggestion(name, known.clone());
    let list = known.collect::<Vec<_>>().join(", ");
    let list = if list.is_empty() { "there is none".into() } else { format!("there are: {list}") };
    Failure::usage(format!("no lane set `{name}` in the configuration{hint}; {list}"))
}

/// A level that a lane set does not have.
pub(crate) fn unknown_level(name: &str, set: &LaneSet) -> Failure {
    let known = || set.levels.iter().map(|level| &*level.name);
    let hint = ichido::suggestion(name, known());
    let list = known().collect::<Vec<_>>().join(", ");
    Failure::usage(format!("the lane set `{}` has no level `{name}`{hint}; it has: {list}", set.name))
}
