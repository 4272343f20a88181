//! From the lane sets of the configuration to those of the library.

use std::collections::BTreeSet;

use ichido::lanes::{LaneSet, Level, LevelBy, Policy, Routes};

use crate::{
    config::{self, Config},
    failure::Failure,
};

/// The lane set as the library knows it.
pub(crate) fn lane_set(name: &str, set: &config::LaneSet) -> LaneSet {
    let made = LaneSet::new(name, policy(set.policy, set.borrow)).look(set.look);
    let mut made = set.levels.iter().map(level).fold(made, LaneSet::level);
    made.age_after = set.age_after;
    made.level_by = set.level_by.clone().map(|config::LevelBy { field, map, default }| LevelBy { field, map, default });
    made
}

/// All lane sets, for who sends to them.
pub(crate) fn routes(config: &Config) -> Routes {
    Routes::new(lane_sets(config))
}

pub(crate) fn lane_sets(config: &Config) -> impl Iterator<Item = LaneSet> {
    config.lanes.iter().map(|(name, set)| lane_set(name, set))
}

fn policy(policy: config::Policy, borrow: bool) -> Policy {
    match policy {
        config::Policy::Dedicated => Policy::Dedicated { borrow },
        config::Policy::Strict => Policy::Strict,
        config::Policy::Weighted => Policy::Weighted,
    }
}

fn level(level: &config::Level) -> Level {
    let made = Level::new(level.level.as_str(), level.queue.as_str()).weight(level.weight);
    let made = made.reserve(level.reserve);
    match level.concurrency {
        Some(slots) => made.concurrency(slots),
        None => made,
    }
}

/// A lane set that the configuration does not know.
pub(crate) fn unknown_set(name: &str, config: &Config) -> Failure {
    let known = config.lanes.keys().map(String::as_str);
    let hint = ichido::handlers::suggestion(name, known.clone());
    let list = known.collect::<Vec<_>>().join(", ");
    let list = if list.is_empty() { "there is none".into() } else { format!("there are: {list}") };
    Failure::usage(format!("no lane set `{name}` in the configuration{hint}; {list}"))
}

/// For `run --level`: the actions that work on a lane set with this level serve its queue alone, with as many workers as it has
/// slots; the others are left out.
pub(crate) fn only_level(config: &mut Config, name: &str, path: Option<&str>) -> Result<(), Failure> {
    let named = path.map(|path| path.split('/').next().unwrap_or(path));
    if let Some(action) = named.and_then(|named| config.actions.get(named)) {
        let Some(set) = config.lanes.get(&action.from) else {
            let text = format!("--level {name}: the action works on the queue `{}`, which has no levels", action.from);
            return Err(Failure::usage(text));
        };
        lane_set(&action.from, set).find(name).map_err(|error| Failure::usage(error.to_string()))?;
    }
    let lanes = &config.lanes;
    config.actions.retain(|_, action| {
        let level = |set: &config::LaneSet| set.levels.iter().find(|level| level.level == name).cloned();
        let Some((level, set)) = lanes.get(&action.from).and_then(|set| Some((level(set)?, set))) else { return false };
        action.concurrency = match (set.policy, level.concurrency) {
            (config::Policy::Dedicated, Some(own)) => own,
            (_, most) => action.concurrency.min(most.unwrap_or(usize::MAX)),
        };
        action.from = level.queue;
        true
    });
    if config.actions.is_empty() {
        let levels: BTreeSet<_> =
            config.lanes.values().flat_map(|set| &set.levels).map(|level| level.level.as_str()).collect();
        let hint = ichido::handlers::suggestion(name, levels.iter().copied());
        let list = levels.into_iter().collect::<Vec<_>>().join(", ");
        let list = if list.is_empty() { "there are no lanes".into() } else { format!("there are: {list}") };
        return Err(Failure::usage(format!("--level {name}: no action works on such a level{hint}; {list}")));
    }
    Ok(())
}
