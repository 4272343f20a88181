//! The reader of a lane set: a reader over the readers of its levels. For every free slot it asks the chooser whose turn it
//! is, among the levels that have something at hand; and it never passes over a level that may have something and was not looked
//! at recently enough. It also tells each level how much it may claim.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::{
    Delivery, Reader,
    lanes::{Chooser, LaneSet, LevelState, Pick, Policy},
    process::Clock,
    readers::{
        DynReader, Turn,
        queue_reader::{EmptyLook, Share},
    },
};

/// The messages of a level that stay at hand while it waits to grow old.
const KEPT: usize = 2;

/// How a level stands, as its reader sees it.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent, and asked one by one")]
pub(crate) struct Stance {
    /// It was closed or stopped: nothing is handed out any more.
    pub(crate) ended: bool,
    /// It is drained.
    pub(crate) finished: bool,
    /// It has an error to tell.
    pub(crate) failed: bool,
    /// It has a message that can start now.
    pub(crate) ready: bool,
    /// When that was sent.
    pub(crate) sent: Option<Instant>,
    /// It claims, if it may.
    pub(crate) reads: bool,
    /// So many messages it has claimed, in flight and not, that count against its share.
    pub(crate) held: usize,
    /// How many claims it has begun.
    pub(crate) claims: u64,
    /// The claim after which nothing was left in its queue; none: there may be more.
    pub(crate) emptied: Option<EmptyLook>,
}

/// The reader of one level.
pub(crate) trait LevelReader: DynReader {
    fn stance(&self) -> Stance;

    /// Somebody waits for the result of the claim that is under way; or of another one, after it.
    fn look(&self, again: bool);

    /// From now on it may claim so much.
    fn allow(&self, share: Share);
}

pub(crate) struct LaneReader {
    set: Arc<LaneSet>,
    levels: Vec<Arc<dyn LevelReader>>,
    state: Mutex<State>,
    changed: Arc<Notify>,
    clock: Arc<dyn Clock>,
    /// How many messages a worker takes together, and how many are claimed beyond what the workers have in hand.
    together: usize,
    ahead: usize,
}

struct State {
    chooser: Chooser,
    running: Vec<usize>,
    /// How many claims each level had begun when a message was last handed out.
    claims: Vec<u64>,
}

/// What is known when a worker wants a message.
struct View {
    stances: Vec<Stance>,
    standings: Vec<LevelState>,
    doubts: Vec<Doubt>,
}

/// Whether a level that has nothing at hand may have something all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    /// No: it was looked at.
    None,
    /// No, but it is time to look again.
    Soon,
    /// It was looked at too long ago.
    Stale,
    /// A claim is under way, or is about to be.
    Open,
}

/// What to do for a worker that wants a message.
enum Move {
    Start(Pick),
    Wait,
    Finish,
    /// This level has an error to tell.
    Fail(usize),
}

impl LaneReader {
    pub(crate) fn new(
        set: Arc<LaneSet>,
        slots: usize,
        (together, ahead): (usize, usize),
        levels: Vec<Arc<dyn LevelReader>>,
        changed: Arc<Notify>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let state =
            State { chooser: Chooser::new(&set, slots), running: vec![0; levels.len()], claims: vec![0; levels.len()] };
        LaneReader { set, levels, state: Mutex::new(state), changed, clock, together, ahead }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at all levels, and tells each of them how much it may claim: under the policy `strict` nothing while a higher one has
    /// work, or may have some, and could still use a slot.
    fn view(&self, state: &State) -> View {
        let stances: Vec<_> = self.levels.iter().map(|level| level.stance()).collect();
        let (now, age_after) = (self.clock.now(), self.set.age_after.unwrap_or(Duration::MAX));
        let aged = |sent: Instant| now.saturating_duration_since(sent) >= age_after;
        let standing = |(stance, running): (&Stance, &usize)| LevelState {
            ready: stance.ready,
            running: *running,
            aged: stance.sent.is_some_and(aged),
        };
        let standings: Vec<_> = stances.iter().zip(&state.running).map(standing).collect();
        let (mut doubts, mut blocked) = (Vec::new(), false);
        for (at, level) in self.levels.iter().enumerate() {
            // A level is emptied more slowly than a queue alone, and so claims with more left: it may have more, or its claims
            // would be smaller and come more often.
            let share = state.chooser.room(at, &standings) + self.ahead + self.ahead.div_ceil(4);
            let share = if blocked { self.behind(state.running[at]) } else { Share::of(share) };
            level.allow(share);
            let doubt = self.doubt(state.claims[at], &stances[at], share);
            let wants = stances[at].ready || doubt == Doubt::Open;
            blocked |= self.set.policy == Policy::Strict && wants && !state.chooser.is_full(at, standings[at]);
            doubts.push(doubt);
        }
        View { stances, standings, doubts }
    }

    /// What a level may claim while a higher one has work. If old messages compete one level higher, some are kept at hand, so that
    /// their age is known.
    fn behind(&self, running: usize) -> Share {
        match self.set.age_after {
            Some(_) => Share { claimed: running + KEPT.max(self.together), ready: KEPT.max(self.together) },
            None => Share::NOTHING,
        }
    }

    /// May this level have something that we do not know of? It had begun so many claims before the last start.
    fn doubt(&self, before: u64, level: &Stance, share: Share) -> Doubt {
        if level.ready || !level.reads || share.claimed < level.held + self.together {
            return Doubt::None;
        }
        let Some(emptied) = level.emptied else { return Doubt::Open };
        if self.set.policy != Policy::Strict {
            return Doubt::None;
        }
        let (now, look) = (self.clock.now(), self.set.look);
        // Where a look itself takes longer than that, lower messages must have a moment in which they may start.
        let fresh = now <= (emptied.began + look).max(emptied.ended + look / 2);
        match look {
            Duration::ZERO if emptied.number <= before => Doubt::Stale,
            Duration::ZERO => Doubt::None,
            _ if !fresh => Doubt::Stale,
            _ if now > emptied.began + look / 2 => Doubt::Soon,
            _ => Doubt::None,
        }
    }

    fn next_move(&self, state: &State, mut view: View) -> Move {
        if let Some(level) = view.stances.iter().position(|level| level.failed) {
            return Move::Fail(level);
        }
        // A level that has found itself drained has found all queues of the process drained.
        if view.stances.iter().any(|level| level.ended || level.finished) {
            return Move::Finish;
        }
        let Some(pick) = state.chooser.choose(&view.standings) else {
            // Who claims tells also when it has found nothing, as it may be another's turn to claim then.
            self.look_where(&view, |doubt| doubt == Doubt::Open);
            return Move::Wait;
        };
        if matches!(self.set.policy, Policy::Dedicated { .. }) {
            return Move::Start(pick);
        }
        // Whose turn would it be if all that may have something had something?
        for (standing, doubt) in view.standings.iter_mut().zip(&view.doubts) {
            standing.ready |= matches!(doubt, Doubt::Open | Doubt::Stale);
        }
        let first = state.chooser.choose(&view.standings).map_or(pick.level(), Pick::level);
        if matches!(view.doubts[first], Doubt::Open | Doubt::Stale) {
            self.levels[first].look(view.doubts[first] == Doubt::Stale);
            return Move::Wait;
        }
        view.doubts.truncate(pick.level());
        self.look_where(&view, |doubt| doubt == Doubt::Soon);
        Move::Start(pick)
    }

    fn look_where(&self, view: &View, which: impl Fn(Doubt) -> bool) {
        for (level, doubt) in self.levels.iter().zip(&view.doubts) {
            if which(*doubt) {
                level.look(*doubt != Doubt::Open);
            }
        }
    }
}

impl State {
    fn started(&mut self, pick: Pick, levels: &[Arc<dyn LevelReader>]) {
        self.chooser.start(pick);
        self.running[pick.level()] += 1;
        self.claims = levels.iter().map(|level| level.stance().claims).collect();
    }

    fn ended(&mut self, level: usize) {
        self.running[level] = self.running[level].saturating_sub(1);
    }
}

impl Reader for LaneReader {
    fn try_next(&self) -> crate::Result<Turn> {
        let mut state = self.state();
        // Somebody else may take what was at hand when we looked, a suspect for example; then it is another's turn.
        for _ in 0..=self.levels.len() {
            match self.next_move(&state, self.view(&state)) {
                Move::Wait => return Ok(Turn::Empty),
                Move::Finish => {
                    self.changed.notify_one();
                    return Ok(Turn::Finished);
                }
                Move::Fail(level) => return Ok(self.levels[level].try_next()?),
                Move::Start(pick) => {
                    let turn = self.levels[pick.level()].try_next()?;
                    if let Turn::Empty = turn {
                        continue;
                    }
                    if let Turn::Delivery(_) = turn {
                        state.started(pick, &self.levels);
                        // Another worker may find something too.
                        if let Move::Start(_) = self.next_move(&state, self.view(&state)) {
                            self.changed.notify_one();
                        }
                    }
                    return Ok(turn);
                }
            }
        }
        self.changed.notify_one();
        Ok(Turn::Empty)
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn settle(&self, delivery: Delivery) -> crate::Result<()> {
        let Some(level) = self.set.levels.iter().position(|level| level.queue == delivery.message.queue) else {
            return Err("the message belongs to another lane set".into());
        };
        self.state().ended(level);
        let settled = self.levels[level].settle(delivery).await;
        // Another worker may be allowed now what it was not.
        self.changed.notify_one();
        Ok(settled?)
    }

    async fn close(&self) -> crate::Result<()> {
        let mut first = Ok(());
        for level in &self.levels {
            let closed = level.close().await;
            first = first.and(closed);
        }
        Ok(first?)
    }
}

#[cfg(test)]
mod tests;
