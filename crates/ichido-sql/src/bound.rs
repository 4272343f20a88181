//! Where the next claim of a queue begins. Rows that are done stay in the claim index until the server has cleaned up, and a
//! snapshot that somebody holds open keeps all of them there; a claim that begins at the last row that was claimed does not
//! walk over them. Rows before it (late commits, returned messages, random keys) are found by claims without a bound.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A busy queue is claimed from its beginning at least this often: what another process releases must not wait longer.
const WHOLE_LOOK: Duration = Duration::from_millis(500);

/// A look at the whole queue that took longer than this is dear.
const DEAR: Duration = Duration::from_millis(100);

/// Dear looks take at most one part of so many of the time.
const SHARE: u32 = 20;

/// A look at the whole queue that took less than this needs no bound: an idle queue costs one look, not two.
const CHEAP: Duration = Duration::from_millis(20);

/// Where the next claim of a queue begins; one per queue and process.
#[derive(Debug, Default)]
pub struct LowerBound(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The values of the claim order of the last row that was claimed.
    last: Option<Vec<String>>,
    /// When the whole queue was last looked at, and how long that took.
    whole: Option<(Instant, Duration)>,
}

/// Where a claim begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At the first row.
    First,
    /// At the row with these values of the claim order.
    At(Vec<String>),
}

impl LowerBound {
    /// Where to begin now.
    #[must_use]
    pub fn start(&self) -> Start {
        let state = self.state();
        match &state.last {
            Some(last) if state.whole_was_within(WHOLE_LOOK) => Start::At(last.clone()),
            _ => Start::First,
        }
    }

    /// Notes what a claim found: the order of its last row, how many it found of how many it wanted, and how long it took.
    /// A claim that wanted nothing has looked at nothing.
    pub fn note(&self, start: &Start, last: Option<Vec<String>>, (found, wanted): (usize, usize), took: Duration) {
        if wanted == 0 {
            return;
        }
        let (mut state, full) = (self.state(), found >= wanted);
        if *start == Start::First {
            state.whole = Some((Instant::now(), took));
            if !full && took < CHEAP {
                state.last = None;
                return;
            }
            // Nothing is left before the bound that was known: it still holds.
            if !full && state.last.is_some() {
                return;
            }
        }
        if last.is_some() {
            state.last = last;
        }
    }

    /// Does a look at the whole queue cost next to nothing, as far as is known?
    #[must_use]
    pub fn is_cheap(&self) -> bool {
        let state = self.state();
        state.last.is_none() && state.whole.is_none_or(|(_, took)| took < DEAR)
    }

    /// After a claim with a bound that found too little: is it time to look at the whole queue?
    #[must_use]
    pub fn look_at_whole(&self) -> bool {
        !self.state().whole_was_within(Duration::ZERO)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Was the whole queue looked at within this time, or was that too dear to be done again yet?
    fn whole_was_within(&self, time: Duration) -> bool {
        let costs = |took| if took < DEAR { Duration::ZERO } else { took * SHARE };
        self.whole.is_some_and(|(at, took)| at.elapsed() < time.max(costs(took)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: (usize, usize) = (5, 5);
    const SHORT: (usize, usize) = (1, 5);

    fn row(value: &str) -> Vec<String> {
        vec![value.into()]
    }

    #[test]
    fn a_claim_begins_at_the_last_row_once_the_whole_queue_was_looked_at() {
        let bound = LowerBound::default();
        assert_eq!(bound.start(), Start::First);
        bound.note(&Start::First, Some(row("7")), FULL, Duration::ZERO);
        let at = bound.start();
        assert_eq!(at, Start::At(row("7")));
        bound.note(&at, Some(row("9")), FULL, Duration::ZERO);
        assert_eq!(bound.start(), Start::At(row("9")));
    }

    #[test]
    fn a_look_at_the_whole_queue_that_found_the_rest_leaves_the_bound_where_it_was() {
        let bound = LowerBound::default();
        bound.note(&Start::First, Some(row("7")), FULL, Duration::ZERO);
        bound.note(&Start::First, Some(row("3")), SHORT, CHEAP);
        assert_eq!(bound.start(), Start::At(row("7")));
        bound.note(&Start::First, Some(row("4")), FULL, CHEAP);
        assert_eq!(bound.start(), Start::At(row("4")), "there may be more between 4 and 7");
        bound.note(&Start::First, None, SHORT, Duration::ZERO);
        assert_eq!(bound.start(), Start::First, "the queue is empty and a look costs nothing");
    }

    #[test]
    fn a_queue_of_which_all_was_claimed_needs_one_claim_for_the_next_message() {
        let bound = LowerBound::default();
        bound.note(&Start::First, Some(row("7")), SHORT, Duration::ZERO);
        assert_eq!(bound.start(), Start::First);
        bound.note(&Start::First, Some(row("8")), SHORT, CHEAP);
        assert_eq!(bound.start(), Start::At(row("8")), "a look at the whole queue takes long");
    }

    #[test]
    fn a_claim_that_wanted_nothing_is_no_look_at_the_queue() {
        let bound = LowerBound::default();
        bound.note(&Start::First, Some(row("7")), FULL, Duration::ZERO);
        bound.state().whole = Some((Instant::now().checked_sub(WHOLE_LOOK).unwrap(), Duration::ZERO));
        bound.note(&Start::First, None, (0, 0), Duration::ZERO);
        assert_eq!(bound.start(), Start::First);
    }

    #[test]
    fn looks_that_cost_much_are_rare() {
        let bound = LowerBound::default();
        bound.note(&Start::First, Some(row("7")), FULL, Duration::ZERO);
        assert!(bound.look_at_whole());
        bound.note(&Start::First, Some(row("7")), FULL, Duration::from_mins(1));
        assert!(!bound.look_at_whole());
    }

    #[test]
    fn a_queue_is_looked_at_from_its_beginning_again_and_again() {
        let bound = LowerBound::default();
        bound.note(&Start::First, Some(row("7")), FULL, Duration::ZERO);
        bound.state().whole = Some((Instant::now().checked_sub(WHOLE_LOOK).unwrap(), Duration::ZERO));
        assert_eq!(bound.start(), Start::First);
    }
}
