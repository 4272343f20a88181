//! Which level starts next. It knows no clock, no queue and no thread: it is told how each level stands and says whose turn it
//! is. The reader of a lane set asks it for every free slot, and the simulation asks it in the same way.
//!
//! A *seat* is a level's place in the order of turns. On it sits the level itself and, beside it, the level below if its
//! oldest message has waited too long; where both have work, they take turns.

use super::{LaneSet, Level, Policy, cycle::cycle, set::MOST_LEVELS};

/// The state of a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelState {
    /// It has a message that can start now.
    pub ready: bool,
    /// How many of its messages are running.
    pub running: usize,
    /// Its oldest message has waited so long that it competes one level higher.
    pub aged: bool,
}

/// A turn that was given to a level; [`Chooser::start`] takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    level: usize,
    /// The place in the cycle.
    at: usize,
    /// The seat that two levels wanted.
    contested: Option<usize>,
}

impl Pick {
    /// The level that starts next, counted from the highest.
    #[must_use]
    pub fn level(self) -> usize {
        self.level
    }
}

/// Decides which level of a lane set starts next.
#[derive(Debug, Clone)]
pub struct Chooser {
    policy: Policy,
    slots: usize,
    levels: Box<[Limits]>,
    /// Whose turn it is under the policy `weighted`, and where we are.
    cycle: Box<[usize]>,
    at: usize,
    /// Of the levels that want a seat, the one that it belongs to is next.
    own_next: Box<[bool]>,
}

#[derive(Debug, Clone)]
struct Limits {
    /// Its own slots.
    own: usize,
    /// It never has more than these.
    most: usize,
    /// Others leave it so many.
    reserve: usize,
}

impl Limits {
    fn of(level: &Level, policy: Policy) -> Self {
        let own = level.concurrency.unwrap_or(usize::MAX);
        let most = if policy == (Policy::Dedicated { borrow: true }) { usize::MAX } else { own };
        Limits { own, most, reserve: level.reserve.min(own) }
    }
}

impl Chooser {
    /// A chooser for this many slots; see [`LaneSet::slots`] and [`LaneSet::check`].
    #[must_use]
    pub fn new(set: &LaneSet, slots: usize) -> Self {
        let levels = &set.levels[..set.levels.len().min(MOST_LEVELS)];
        Chooser {
            policy: set.policy,
            slots,
            levels: levels.iter().map(|level| Limits::of(level, set.policy)).collect(),
            cycle: cycle(&levels.iter().map(|level| level.weight).collect::<Vec<_>>()),
            at: 0,
            own_next: vec![false; levels.len()].into(),
        }
    }

    /// Whose turn it is; none if no level has anything that may start.
    #[must_use]
    pub fn choose(&self, levels: &[LevelState]) -> Option<Pick> {
        let mut may = [false; MOST_LEVELS];
        for (level, may) in may.iter_mut().enumerate().take(self.levels.len()) {
            *may = self.may_start(level, levels);
        }
        match self.policy {
            Policy::Strict => self.highest(levels, &may),
            Policy::Weighted => {
                let places = (self.at..self.cycle.len()).chain(0..self.at);
                places.into_iter().find_map(|at| Some(Pick { at, ..self.on_seat(self.cycle[at], levels, &may)? }))
            }
            Policy::Dedicated { .. } => {
                let in_own = |level: &usize| may[*level] && levels[*level].running < self.levels[*level].own;
                let own = (0..self.levels.len()).find(in_own);
                own.map(|level| Pick { level, at: 0, contested: None }).or_else(|| self.highest(levels, &may))
            }
        }
    }

    /// The level of this pick has started a message.
    pub fn start(&mut self, pick: Pick) {
        self.at = (pick.at + 1) % self.cycle.len().max(1);
        if let Some(seat) = pick.contested {
            self.own_next[seat] = pick.level != seat;
        }
    }

    /// So many messages this level may have in hand now: no more than it may, and the others keep what is reserved for them.
    #[must_use]
    pub fn room(&self, level: usize, levels: &[LevelState]) -> usize {
        let others = self.levels.iter().zip(levels).enumerate().filter(|(at, _)| *at != level);
        let taken: usize = others.map(|(_, (limits, standing))| standing.running.max(limits.reserve)).sum();
        self.slots.saturating_sub(taken).min(self.levels[level].most)
    }

    /// Has this level as many slots as it may ever have?
    #[must_use]
    pub fn is_full(&self, level: usize, standing: LevelState) -> bool {
        standing.running >= self.levels[level].most
    }

    fn may_start(&self, level: usize, levels: &[LevelState]) -> bool {
        levels[level].ready && levels[level].running < self.room(level, levels)
    }

    fn highest(&self, levels: &[LevelState], may: &[bool]) -> Option<Pick> {
        (0..self.levels.len()).find_map(|seat| self.on_seat(seat, levels, may))
    }

    /// Who starts if it is this seat's turn.
    fn on_seat(&self, seat: usize, levels: &[LevelState], may: &[bool]) -> Option<Pick> {
        let below = seat + 1;
        let aged = below < self.levels.len() && levels[below].aged && may[below];
        let contested = (may[seat] && aged).then_some(seat);
        let level = match (may[seat], aged) {
            (false, false) => return None,
            (true, true) => {
                if self.own_next[seat] {
                    seat
                } else {
                    below
                }
            }
            (own, _) => {
                if own {
                    seat
                } else {
                    below
                }
            }
        };
        Some(Pick { level, at: 0, contested })
    }
}
