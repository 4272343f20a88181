//! A lane set as users describe it. The names are those of `[lanes.L]` in `ichido.toml`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::LevelBy;
use crate::{Error, error::Result};

/// The maximum number of levels in a lane set.
pub const MOST_LEVELS: usize = 16;

/// The largest weight of a level.
const LARGEST_WEIGHT: u32 = 1000;

/// How soon a higher message is seen unless the set says otherwise.
const LOOK: Duration = Duration::from_millis(20);

/// Levels, highest first, and how they share the workers of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneSet {
    /// The name that actions and senders use.
    pub name: Arc<str>,
    /// How the levels share the slots.
    pub policy: Policy,
    /// The levels, highest first.
    pub levels: Vec<Level>,
    /// How soon a higher message is seen; zero: looked for before every start.
    pub look: Duration,
    /// After this wait, the oldest message of a level competes one level higher.
    pub age_after: Option<Duration>,
    /// How the level is read from a message whose sender names none.
    pub level_by: Option<LevelBy>,
}

/// How levels share the slots of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Each level has its own; with `borrow`, idle ones help the others.
    Dedicated {
        /// Do idle slots of a level help the others?
        borrow: bool,
    },
    /// The highest level that has something gets the next free slot.
    Strict,
    /// Each level gets the share that its weight says.
    Weighted,
}

/// One level of a lane set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Level {
    /// Its name.
    pub name: Arc<str>,
    /// The queue with its messages.
    pub queue: Arc<str>,
    /// Its share under the policy `weighted`.
    pub weight: u32,
    /// The slots reserved for it.
    pub reserve: usize,
    /// Its own slots under the policy `dedicated`, else the most it may have.
    pub concurrency: Option<usize>,
}

impl LaneSet {
    /// A lane set without levels yet.
    pub fn new(name: impl Into<Arc<str>>, policy: Policy) -> Self {
        LaneSet { name: name.into(), policy, levels: Vec::new(), look: LOOK, age_after: None, level_by: None }
    }

    /// Adds a level below the existing ones.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.levels.push(level);
        self
    }

    /// Another policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How soon a higher message is seen; zero: looked for before every start.
    #[must_use]
    pub fn look(mut self, look: Duration) -> Self {
        self.look = look;
        self
    }

    /// After this wait, the oldest message of a level competes one level higher.
    #[must_use]
    pub fn age_after(mut self, wait: Duration) -> Self {
        self.age_after = Some(wait);
        self
    }

    /// How the level is read from a message whose sender names none.
    #[must_use]
    pub fn level_by(mut self, by: LevelBy) -> Self {
        self.level_by = Some(by);
        self
    }

    /// The slots of an action with this concurrency: with the policy `dedicated` those of its levels together.
    #[must_use]
    pub fn slots(&self, concurrency: usize) -> usize {
        match self.policy {
            Policy::Dedicated { .. } => self.levels.iter().filter_map(|level| level.concurrency).sum(),
            Policy::Strict | Policy::Weighted => concurrency,
        }
    }

    /// Can the levels share this many slots?
    ///
    /// # Errors
    /// [`Error::Setup`] with what is wrong.
    pub fn check(&self, slots: usize) -> Result<()> {
        let refuse = |text: String| Err(Error::Setup(format!("the lane set `{}` {text}", self.name)));
        let count = self.levels.len();
        if !(2..=MOST_LEVELS).contains(&count) {
            return refuse(format!("has {count} levels; it needs 2 to {MOST_LEVELS}"));
        }
        let (names, queues): (BTreeSet<_>, BTreeSet<_>) =
            self.levels.iter().map(|level| (&level.name, &level.queue)).unzip();
        if names.len() < count || queues.len() < count {
            return refuse("has two levels with the same name or the same queue".into());
        }
        for name in self.level_by.iter().flat_map(|by| by.map.values().chain([&by.default])) {
            self.find(name).map_err(|error| Error::Setup(error.to_string()))?;
        }
        for level in &self.levels {
            if level.concurrency == Some(0) || !(1..=LARGEST_WEIGHT).contains(&level.weight) {
                let text = format!("has a level `{}` that never gets a slot; ", level.name);
                return refuse(format!(
                    "{text}`concurrency` must be at least 1, `weight` must be 1 to {LARGEST_WEIGHT}"
                ));
            }
            if level.concurrency.is_none() && matches!(self.policy, Policy::Dedicated { .. }) {
                let name = &level.name;
                return refuse(format!("is dedicated, but its level `{name}` has no `concurrency`"));
            }
        }
        let reserved: usize = self.levels.iter().map(|level| level.reserve).sum();
        if reserved >= slots {
            return refuse(format!("reserves {reserved} of {slots} slots; at least one must stay free"));
        }
        Ok(())
    }
}

impl Level {
    /// A level whose messages wait in this queue.
    pub fn new(name: impl Into<Arc<str>>, queue: impl Into<Arc<str>>) -> Self {
        Level { name: name.into(), queue: queue.into(), weight: 1, reserve: 0, concurrency: None }
    }

    /// Its share under the policy `weighted`, 1 to 1000.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Reserves this many slots for it: other levels never take them.
    #[must_use]
    pub fn reserve(mut self, slots: usize) -> Self {
        self.reserve = slots;
        self
    }

    /// Its own slots under the policy `dedicated`, else the most it may have.
    #[must_use]
    pub fn concurrency(mut self, slots: usize) -> Self {
        self.concurrency = Some(slots);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(policy: Policy) -> LaneSet {
        LaneSet::new("mail", policy).level(Level::new("member", "m")).level(Level::new("free", "f"))
    }

    #[track_caller]
    fn refused(set: &LaneSet, text: &str) {
        let error = set.check(set.slots(4)).unwrap_err().to_string();
        assert!(error.contains("`mail`") && error.contains(text), "{error}");
    }

    #[test]
    fn a_set_that_can_not_work_is_refused_with_the_reason() {
        two(Policy::Strict).check(4).unwrap();
        refused(&LaneSet::new("mail", Policy::Strict).level(Level::new("member", "m")), "has 1 levels");
        refused(&two(Policy::Strict).level(Level::new("free", "g")), "the same name");
        refused(&two(Policy::Strict).level(Level::new("other", "f")), "the same queue");
        refused(&two(Policy::Dedicated { borrow: false }), "`member` has no `concurrency`");
        refused(&two(Policy::Weighted).level(Level::new("never", "n").weight(0)), "`never` that never gets a slot");
        refused(&two(Policy::Strict).level(Level::new("vip", "v").reserve(4)), "reserves 4 of 4 slots");
    }

    #[test]
    fn dedicated_slots_are_those_of_the_levels() {
        let mut set = two(Policy::Dedicated { borrow: true });
        set.levels[0].concurrency = Some(10);
        set.levels[1].concurrency = Some(5);
        assert_eq!(set.slots(4), 15);
    }
}
