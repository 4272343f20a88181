//! Where the next claim of a queue begins. Rows that are done stay in the claim index until the server has cleaned up, and a
//! snapshot that somebody holds open keeps all of them there; a claim that begins at the last row that was claimed does not
//! walk over them. Rows before it (late commits, returned messages, random keys) are found by claims without a bound.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A busy queue is claimed from its beginning at least this often.
const WHOLE_LOOK: Duration = Duration::from_secs(2);

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

    /// Notes what a claim found: the order of its last row, whether it found all it wanted, and how long it took.
    pub fn note(&self, start: &Start, last: Option<Vec<String>>, full: bool, took: Duration) {
        let mut state = self.state();
        if *start == Start::First {
            state.whole = Some((Instant::now(), took));
            // Nothing is left before the bound that was known: it still holds.
            if !full && state.last.is_some() {
                if took < CHEAP {
                    state.last = None;
                }
                return;
            }
        }
        if last.is_some() {
            state.last = last;
        }
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

    fn row(value: &str) -> Option<Vec<String>> {
        Some(vec![value.into()])
    }

    #[test]
    fn a_claim_begins_at_the_last_row_once_the_whole_queue_was_looked_at() {
        let bound = LowerBound::default();
        assert_eq!(bound.start(), Start::First);
        bound.note(&Start::First, row("7"), true, Duration::ZERO);
        let at = bound.start();
        assert_eq!(at, Start::At(vec!["7".into()]));
        bound.note(&at, row("9"), true, Duration::ZERO);
        assert_eq!(bound.start(), Start::At(vec!["9".into()]));
    }

    #[test]
    fn a_look_at_the_whole_queue_that_found_the_rest_leaves_the_bound_where_it_was() {
        let bound = LowerBound::default();
        bound.note(&Start::First, row("7"), true, Duration::ZERO);
        bound.note(&Start::First, row("3"), false, CHEAP);
        assert_eq!(bound.start(), Start::At(vec!["7".into()]));
        bound.note(&Start::First, row("4"), true, CHEAP);
        assert_eq!(bound.start(), Start::At(vec!["4".into()]), "there may be more between 4 and 7");
        bound.note(&Start::First, None, false, Duration::ZERO);
        assert_eq!(bound.start(), Start::First, "the queue is empty and a look costs nothing");
    }

    #[test]
    fn looks_that_cost_much_are_rare() {
        let bound = LowerBound::default();
        bound.note(&Start::First, row("7"), true, Duration::ZERO);
        assert!(bound.look_at_whole());
        bound.note(&Start::First, row("7"), true, Duration::from_secs(60));
        assert!(!bound.look_at_whole());
    }

    #[test]
    fn a_queue_is_looked_at_from_its_beginning_again_and_again() {
        let bound = LowerBound::default();
        bound.note(&Start::First, row("7"), true, Duration::ZERO);
        bound.state().whole = Some((Instant::now().checked_sub(WHOLE_LOOK).unwrap(), Duration::ZERO));
        assert_eq!(bound.start(), Start::First);
    }
}
