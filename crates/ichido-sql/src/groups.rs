//! How the groups of a queue are gone through. A claim looks at a bounded number of groups at a time, each one's first row;
//! where there are more, the next claim goes on where this one ended, so that no group waits for another.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::{Conditions, Mapping};

/// So many groups are looked at with one statement.
const WINDOW: u32 = 256;

/// What is known about the groups of a queue; one per queue and process.
#[derive(Debug, Default)]
pub struct Heads {
    /// Where the next look begins.
    after: Mutex<Option<String>>,
    /// Were there messages in groups when last looked?
    there: AtomicBool,
    /// Whose turn it is when there is room for one message only.
    turn: AtomicBool,
}

/// The groups of a queue.
#[derive(Debug)]
pub struct QueueGroups {
    /// What is known about them.
    pub heads: Heads,
    /// Every message is in a group: the column cannot be null.
    pub all: bool,
}

/// The first group of a queue for which this is so, along the index of groups.
#[must_use]
pub fn next_group(mapping: &Mapping, conditions: &Conditions, group: &str, after: &str) -> String {
    let (table, new) = (&mapping.table, &conditions.new);
    format!("select t.{group} from {table} t where {new} and {after} order by t.{group} limit 1")
}

/// A column of the first row of the group `w.g`.
#[must_use]
pub fn group_head(mapping: &Mapping, conditions: &Conditions, group: &str, column: &str) -> String {
    let (table, new, order) = (&mapping.table, &conditions.new, conditions.order_by());
    format!("select t.{column} from {table} t where {new} and t.{group} = w.g order by {order} limit 1")
}

/// One walk around all groups, or until enough was found.
pub struct Walk<'a> {
    heads: &'a Heads,
    from_the_middle: bool,
}

impl Heads {
    /// So many groups are looked at with one statement.
    #[must_use]
    pub fn window() -> u32 {
        WINDOW
    }

    /// How many of these messages may be ones without a group, so that neither kind waits for the other.
    pub fn share_of_ungrouped(&self, count: usize) -> usize {
        match count {
            _ if !self.there.load(Relaxed) => count,
            1 => usize::from(self.turn.fetch_xor(true, Relaxed)),
            _ => count - count / 2,
        }
    }

    /// Notes whether there are messages in groups.
    pub fn note(&self, there: bool) {
        self.there.store(there, Relaxed);
    }

    /// Begins a walk.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        Walk { heads: self, from_the_middle: self.after().is_some() }
    }

    fn after(&self) -> Option<String> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Walk<'_> {
    /// The group after which to look; none: from the first one on.
    #[must_use]
    pub fn after(&self) -> Option<String> {
        self.heads.after()
    }

    /// Notes how many groups were looked at and which was the last; true if there are more to look at.
    pub fn goes_on(&mut self, looked_at: u32, last: Option<String>) -> bool {
        let more = looked_at >= WINDOW;
        *self.heads.after.lock().unwrap_or_else(PoisonError::into_inner) = last.filter(|_| more);
        more || std::mem::take(&mut self.from_the_middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_with_and_without_a_group_share_the_room() {
        let heads = Heads::default();
        assert_eq!(heads.share_of_ungrouped(8), 8);
        heads.note(true);
        assert_eq!(heads.share_of_ungrouped(8), 4);
        assert_eq!(heads.share_of_ungrouped(3), 2);
        assert_eq!(heads.share_of_ungrouped(1) + heads.share_of_ungrouped(1), 1, "they take turns");
    }

    #[test]
    fn a_walk_looks_at_every_group_and_the_next_one_goes_on_where_it_was_left() {
        let heads = Heads::default();
        let mut walk = heads.walk();
        assert_eq!(walk.after(), None);
        assert!(walk.goes_on(WINDOW, Some("m".into())), "there are more");
        let mut walk = heads.walk();
        assert_eq!(walk.after().as_deref(), Some("m"));
        assert!(walk.goes_on(3, Some("p".into())), "what comes before m is still to be looked at");
        assert_eq!(walk.after(), None);
        assert!(!walk.goes_on(200, Some("m".into())));
        assert!(!heads.walk().goes_on(0, None));
    }
}
