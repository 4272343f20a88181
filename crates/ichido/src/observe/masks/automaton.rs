//! Finds many values in a text at once (Aho–Corasick): one step forward per byte, and no more steps back than forward. How many values
//! there are, and how alike they are, makes no difference. `hidden` asks it for what must not be seen.

use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
};

const ROOT: usize = 0;

/// All values in one tree, byte by byte.
#[derive(Debug, Clone)]
pub(super) struct Automaton {
    states: Vec<State>,
    /// The children of a state after its first one.
    branches: HashMap<(usize, u8), usize>,
}

/// A beginning of one or more values.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Its length in bytes.
    depth: usize,
    /// The state of the longest shorter text that ends with it and is a beginning too.
    fallback: usize,
    /// How long the longest value is with which it ends.
    value: usize,
    first: Option<(u8, usize)>,
}

impl Automaton {
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut automaton = Automaton { states: vec![State::default()], branches: HashMap::new() };
        let mut parents = vec![(ROOT, 0)];
        for value in values {
            let mut at = ROOT;
            for byte in value.bytes() {
                at = automaton.child_or_new(at, byte, &mut parents);
            }
            automaton.states[at].value = value.len();
        }
        let mut shortest_first: Vec<_> = (1..automaton.states.len()).collect();
        shortest_first.sort_by_key(|state| automaton.states[*state].depth);
        for state in shortest_first {
            let (parent, byte) = parents[state];
            let fallback = if parent == ROOT { ROOT } else { automaton.step(automaton.states[parent].fallback, byte) };
            let shorter = automaton.states[fallback].value;
            let state = &mut automaton.states[state];
            (state.fallback, state.value) = (fallback, if state.value > 0 { state.value } else { shorter });
        }
        automaton
    }

    fn child_or_new(&mut self, at: usize, byte: u8, parents: &mut Vec<(usize, u8)>) -> usize {
        let new = self.states.len();
        match self.states[at].first {
            Some((first, child)) if first == byte => return child,
            Some(_) => match self.branches.entry((at, byte)) {
                Entry::Occupied(child) => return *child.get(),
                Entry::Vacant(place) => drop(place.insert(new)),
            },
            None => self.states[at].first = Some((byte, new)),
        }
        self.states.push(State { depth: self.states[at].depth + 1, ..State::default() });
        parents.push((at, byte));
        new
    }

    fn child(&self, at: usize, byte: u8) -> Option<usize> {
        match self.states[at].first? {
            (first, child) if first == byte => Some(child),
            _ => self.branches.get(&(at, byte)).copied(),
        }
    }

    /// The state of the longest end of what was read that is the beginning of a value.
    fn step(&self, mut at: usize, byte: u8) -> usize {
        loop {
            match self.child(at, byte) {
                Some(child) => return child,
                None if at == ROOT => return ROOT,
                None => at = self.states[at].fallback,
            }
        }
    }

    /// Where the text has a value, or the beginning of one with at least so many characters; in order, without overlaps.
    pub(super) fn find(&self, text: &str, beginning: usize) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut at = ROOT;
        for (index, byte) in text.bytes().enumerate() {
            at = self.step(at, byte);
            let (end, State { depth, value, .. }) = (index + 1, self.states[at]);
            let length =
                if depth >= beginning && has_chars(&text[end - depth..], beginning, depth) { depth } else { value };
            if length > 0 && text.is_char_boundary(end) {
                add(&mut found, end - length..end);
            }
        }
        found
    }
}

/// Are there so many characters in its first bytes? Looks no further than it must.
fn has_chars(text: &str, count: usize, bytes: usize) -> bool {
    text.char_indices().nth(count - 1).is_some_and(|(at, c)| at + c.len_utf8() <= bytes)
}

/// What it overlaps with is one with it.
fn add(found: &mut Vec<Range<usize>>, new: Range<usize>) {
    let mut start = new.start;
    while let Some(last) = found.last().filter(|last| last.end > new.start) {
        start = start.min(last.start);
        found.pop();
    }
    found.push(start..new.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[&str], text: &str) -> Vec<String> {
        let ranges = Automaton::new(values.iter().copied()).find(text, 16);
        ranges.into_iter().map(|range| text[range].to_owned()).collect()
    }

    #[test]
    fn values_are_found_whole_in_part_and_across_each_other() {
        assert_eq!(found(&["abcd", "bc", "cdef"], "xabcdefbcx"), ["abcdef", "bc"]);
        assert_eq!(found(&["4111-2222-3333-4444"], "is 4111-2222-3333-4 and 4111-2222-3"), ["4111-2222-3333-4"]);
        assert_eq!(found(&["山田", "ö"], "山 山田 söt"), ["山田", "ö"]);
        assert_eq!(found(&["", "a"], "banana"), ["a", "a", "a"]);
        assert_eq!(found(&[], "nothing"), [""; 0]);
    }

    #[test]
    fn it_finds_what_a_plain_search_finds() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let mut word =
                |most| (0..random.usize(1..=most)).map(|_| *random.choice(b"ab").unwrap_or(&b'a') as char).collect();
            let (values, text): (Vec<String>, String) = ((0..4).map(|_| word(5)).collect(), word(30));
            let mut hidden = vec![false; text.len()];
            for value in &values {
                for at in (0..text.len()).filter(|at| text[*at..].starts_with(value)) {
                    hidden[at..at + value.len()].fill(true);
                }
            }
            let ranges = Automaton::new(values.iter().map(String::as_str)).find(&text, 16);
            let is_hidden = |at: usize| ranges.iter().any(|range| range.contains(&at));
            let found: Vec<_> = (0..text.len()).map(is_hidden).collect();
            assert_eq!(found, hidden, "{values:?} in {text}");
        }
    }
}
