//! `ichido messages reschedule` and `run-now`: prints what became of each message, and complains about what was left as it is.

use ichido::{
    Due,
    by_hand::{self, Moved},
};

use super::super::failed::known_id;
use crate::{
    args::Reschedule,
    config::Config,
    failure::{FOUND, Failure},
    open::Backend,
    output, program,
};

pub(super) async fn reschedule<S: Backend>(store: &S, config: &Config, asked: Reschedule) -> Result<u8, Failure> {
    let id = known_id::<S>(config, &asked.id)?;
    let due = match (asked.delay, asked.at) {
        (Some(delay), _) => Due::After(delay),
        (None, Some(at)) => Due::At(at),
        (None, None) => return Err(Failure::usage("one of --delay and --at is needed")),
    };
    let moved = by_hand::reschedule(store, &program::masks(config), &id, due).await;
    tell(&[moved.map_err(|error| Failure::of::<S>(&error))?], asked.json)
}

pub(super) async fn run_now<S: Backend>(store: &S, config: &Config, ids: &[String], json: bool) -> Result<u8, Failure> {
    // All of them are read before the first is changed.
    let ids = ids.iter().map(|id| known_id::<S>(config, id)).collect::<Result<Vec<_>, _>>()?;
    let all = by_hand::run_now(store, &program::masks(config), &ids).await;
    tell(&all.map_err(|error| Failure::of::<S>(&error))?, json)
}

/// Prints what was done, and complains about what was not.
fn tell(all: &[Moved], json: bool) -> Result<u8, Failure> {
    if json {
        output::json(&all)?;
    } else {
        for moved in all {
            if moved.failed {
                output::complain(&format!("ichido: {}", moved.text));
            } else {
                output::print(&moved.text)?;
            }
        }
    }
    Ok(if all.iter().any(|moved| moved.failed) { FOUND } else { 0 })
}
