//! The lane sets of the configuration: all of them for senders, and one level alone for `run --level`.

use std::collections::BTreeSet;

use ichido::{
    by_hand::LaneTargets,
    lanes::{LaneSet, Policy, Routes},
};

use crate::{config::Config, failure::Failure};

/// All lane sets, for who sends to them.
pub(crate) fn routes(config: &Config) -> Routes {
    Routes::new(lane_sets(config))
}

pub(crate) fn lane_sets(config: &Config) -> impl Iterator<Item = LaneSet> {
    config.lanes.values().map(|lanes| lanes.set.clone())
}

/// All lane sets with the targets of their levels, for who looks at them.
pub(crate) fn targets(config: &Config) -> Vec<LaneTargets> {
    let of = |lanes: &crate::config::LaneSet| LaneTargets {
        set: lanes.set.clone(),
        targets: lanes.tuning.iter().map(|tuning| tuning.target).collect(),
    };
    config.lanes.values().map(of).collect()
}

/// A lane set that the configuration does not know.
pub(crate) fn unknown_set(name: &str, config: &Config) -> Failure {
    let known = config.lanes.keys().map(String::as_str);
    let hint = ichido::handlers::suggestion(name, known.clone());
    let list = known.collect::<Vec<_>>().join(", ");
    let list = if list.is_empty() { "it has none".into() } else { format!("it has: {list}") };
    Failure::usage(format!("no lane set `{name}` in the configuration ({list}){hint}"))
}

/// For `run --level`: the actions that work on a lane set with this level serve its queue alone, with as many workers as it has
/// slots; the others are left out.
pub(crate) fn only_level(config: &mut Config, name: &str, path: Option<&str>) -> Result<(), Failure> {
    let named = path.map(|path| path.split('/').next().unwrap_or(path));
    if let Some(action) = named.and_then(|named| config.actions.get(named)) {
        let Some(lanes) = config.lanes.get(&action.from) else {
            let text = format!("--level {name}: the action works on the queue `{}`, which has no levels", action.from);
            return Err(Failure::usage(text));
        };
        lanes.set.find(name).map_err(|error| Failure::usage(error.to_string()))?;
    }
    let lanes = &config.lanes;
    config.actions.retain(|_, action| {
        let Some(set) = lanes.get(&action.from).map(|lanes| &lanes.set) else { return false };
        let Some(level) = set.levels.iter().find(|level| &*level.name == name) else { return false };
        action.concurrency = match (set.policy, level.concurrency) {
            (Policy::Dedicated { .. }, Some(own)) => own,
            (_, most) => action.concurrency.min(most.unwrap_or(usize::MAX)),
        };
        action.from = level.queue.to_string();
        true
    });
    if config.actions.is_empty() {
        let levels: BTreeSet<_> =
            config.lanes.values().flat_map(|lanes| &lanes.set.levels).map(|level| &*level.name).collect();
        let hint = ichido::handlers::suggestion(name, levels.iter().copied());
        let list = levels.into_iter().collect::<Vec<_>>().join(", ");
        let list = if list.is_empty() { "there are no lanes".into() } else { format!("levels: {list}") };
        return Err(Failure::usage(format!("--level {name}: no action works on this level ({list}){hint}")));
    }
    Ok(())
}
