//! How everything is doing: queues, processes, what was measured in the last minutes, and what to tune. `ichido status` prints it, the console's
//! overview shows it.

use std::time::Duration;

use serde::Serialize;

use crate::{
    Inspect,
    error::Result,
    inspect::{Overview, QueueCounts},
    lanes::{LaneSet, Policy},
    stat::{self, Advice, Lane, Load, Summary, WINDOW},
};

/// A lane set, and how long a message of each of its levels may wait.
#[derive(Debug, Clone)]
pub struct LaneTargets {
    /// The set.
    pub set: LaneSet,
    /// The target of each of its levels, in their order.
    pub targets: Vec<Option<Duration>>,
}

/// How everything is doing.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Standing {
    /// Queues, processes and request ids.
    #[serde(flatten)]
    pub overview: Overview,
    /// What was measured, by queue.
    pub measured: Vec<Summary>,
    /// What to tune.
    pub advice: Vec<Advice>,
    /// What it was computed from.
    #[serde(skip)]
    pub loads: Vec<Load>,
}

impl Standing {
    /// How everything is doing now.
    ///
    /// # Errors
    /// The database fails.
    pub async fn of<S: Inspect>(store: &S, lanes: &[LaneTargets]) -> Result<Self> {
        Self::beside(store, lanes, &[]).await
    }

    /// The same, but what these queues hold is known already, and not counted again.
    ///
    /// # Errors
    /// The database fails.
    pub async fn beside<S: Inspect>(store: &S, lanes: &[LaneTargets], known: &[QueueCounts]) -> Result<Self> {
        let overview = store.overview_beside(known).await?;
        let mut loads = stat::loads_of(&overview, &store.stats(WINDOW).await?);
        for load in &mut loads {
            name_level(load, lanes);
        }
        let measured = loads.iter().map(Load::summary).collect();
        Ok(Standing { measured, advice: stat::advise(&loads), overview, loads })
    }
}

/// The configuration knows which level a queue is, also before a message of it has run; and only it knows the target.
fn name_level(load: &mut Load, lanes: &[LaneTargets]) {
    for LaneTargets { set, targets } in lanes {
        let levels = (0..).zip(set.levels.iter().zip(targets));
        for (rank, (level, target)) in levels.filter(|(_, (level, _))| *level.queue == *load.queue) {
            load.lane = Some(Lane { lanes: set.name.clone(), level: level.name.clone(), rank });
            load.target = *target;
            load.own_slots = set.policy == Policy::Dedicated { borrow: false };
        }
    }
}
