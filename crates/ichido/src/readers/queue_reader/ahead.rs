//! How many messages a reader claims beyond those that its workers run. Where nobody has said how many, it begins with one for each worker, and
//! claims more at a time while they are gone within a moment: a claim costs a commit, whatever it brings. What is read ahead is never more than
//! a moment's work, so that no other process waits for it.

use std::time::{Duration, Instant};

use crate::process::MOST_READ_AHEAD;

/// What was claimed is gone within this time: twice as many the next time.
const QUICK: Duration = Duration::from_millis(250);

/// It lasts for longer than this: half as many.
const SLOW: Duration = Duration::from_secs(1);

/// How many messages are read ahead now.
#[derive(Debug)]
pub(crate) struct Ahead {
    least: usize,
    most: usize,
    now: usize,
    /// When the last claim was made that got all that it wanted.
    filled: Option<Instant>,
}

impl Ahead {
    /// Always so many.
    pub(crate) fn fixed(messages: usize) -> Self {
        Ahead { least: messages, most: messages, now: messages, filled: None }
    }

    /// So many at least.
    pub(crate) fn growing(messages: usize) -> Self {
        Ahead { most: messages.max(MOST_READ_AHEAD), ..Ahead::fixed(messages) }
    }

    pub(super) fn get(&self) -> usize {
        self.now
    }

    /// A claim was made, which got all that it wanted, or took all there was.
    pub(super) fn note(&mut self, full: bool, at: Instant) {
        let lasted = self.filled.map(|filled| at.saturating_duration_since(filled));
        self.filled = full.then_some(at);
        self.now = match lasted {
            _ if !full => self.now / 2,
            Some(lasted) if lasted < QUICK => self.now * 2,
            Some(lasted) if lasted > SLOW => self.now / 2,
            _ => self.now,
        };
        self.now = self.now.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_grow_while_what_they_bring_is_soon_gone() {
        let (mut ahead, begun) = (Ahead::growing(2), Instant::now());
        let mut at = begun;
        let mut claim = |ahead: &mut Ahead, full: bool, later: Duration| {
            at += later;
            ahead.note(full, at);
            ahead.get()
        };
        let quick = Duration::from_millis(20);
        assert_eq!(claim(&mut ahead, true, quick), 2, "the first says nothing");
        let grown: Vec<_> = (0..6).map(|_| claim(&mut ahead, true, quick)).collect();
        assert_eq!(grown, [4, 8, 16, 32, 64, 64]);
        assert_eq!(claim(&mut ahead, true, QUICK * 2), 64, "neither quick nor slow");
        assert_eq!(claim(&mut ahead, true, SLOW * 2), 32);
        let empty: Vec<_> = (0..5).map(|_| claim(&mut ahead, false, quick)).collect();
        assert_eq!(empty, [16, 8, 4, 2, 2], "others have nothing to do either");
        assert_eq!(claim(&mut ahead, true, quick), 2);
    }

    #[test]
    fn what_somebody_has_set_stays() {
        let (mut ahead, now) = (Ahead::fixed(0), Instant::now());
        (0..9).for_each(|_| ahead.note(true, now));
        assert_eq!(ahead.get(), 0);
    }
}
