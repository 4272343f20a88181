//! What the screen of `status --watch` shows: the tables of `status` and the last errors, as much of each as there is room for, and
//! whether the database still answers.

use std::time::{Duration, Instant};

use ichido::{by_hand::Standing, inspect::Parked};

use super::{order::Order, tables};
use crate::{
    output,
    screen::{Line, Size},
};

/// An answer that is older than this is told to be old.
const OLD: Duration = Duration::from_secs(5);

const KEYS: &str = "q: quit   s, p: sort queues, processes by the next column   S, P: reverse";

/// What was seen, and when.
pub(super) struct Seen {
    pub(super) view: Standing,
    /// The last errors, the newest first.
    pub(super) errors: Vec<Parked>,
    pub(super) at: Instant,
}

/// The page.
pub(super) struct Page {
    title: String,
    seen: Seen,
    order: Order,
    /// Why there is nothing newer.
    trouble: Option<String>,
}

impl Page {
    pub(super) fn new(title: String, seen: Seen) -> Self {
        let mut page = Page { title, seen, order: Order::by_name(), trouble: None };
        page.order.sort(&mut page.seen.view);
        page
    }

    /// The database has answered.
    pub(super) fn show(&mut self, seen: Seen) {
        (self.seen, self.trouble) = (seen, None);
        self.order.sort(&mut self.seen.view);
    }

    /// The database has not answered; what was seen last stays.
    pub(super) fn keep(&mut self, trouble: String) {
        self.trouble = Some(trouble);
    }

    pub(super) fn press(&mut self, key: char) {
        self.order.press(key);
        self.order.sort(&mut self.seen.view);
    }

    /// As many lines as there are rows.
    pub(super) fn lines(&self, size: Size) -> Vec<Line> {
        let mut top = vec![Line::strong(format!("{}   {}", self.title, self.age()))];
        top.extend(self.trouble().map(Line::loud));
        let mut parts = tables::parts(&self.seen.view, &self.order);
        // Of the tables, what has gone wrong is read first.
        if !self.seen.errors.is_empty() {
            parts.insert(1, self.errors());
        }
        let room = size.rows.saturating_sub(top.len() + 1);
        let mut body = fitted(&parts, room);
        body.resize_with(room, || Line::plain(String::new()));
        let mut lines: Vec<_> = top.into_iter().chain(body).collect();
        lines.truncate(size.rows.saturating_sub(1));
        lines.push(Line::strong(KEYS.to_owned()));
        lines
    }

    fn age(&self) -> String {
        format!("as of {} s ago", self.seen.at.elapsed().as_secs())
    }

    fn trouble(&self) -> Option<String> {
        let old = self.seen.at.elapsed() > OLD;
        match &self.trouble {
            Some(why) => Some(format!("no answer from the database, trying again: {why}")),
            None if old => Some("the database has not answered yet".to_owned()),
            None => None,
        }
    }

    fn errors(&self) -> Vec<String> {
        let row = |parked: &Parked| {
            let error = output::shortened(&parked.error, 200);
            let since = parked.parked_at.clone();
            [parked.id.clone(), parked.state.to_string(), parked.attempts.to_string(), since, error]
        };
        let rows: Vec<_> = self.seen.errors.iter().map(row).collect();
        output::lines(["LAST ERRORS", "STATE", "ATTEMPTS", "SINCE", "ERROR"], &rows)
    }
}

/// The parts with an empty line between them; where there is not room for all, each gets its share.
fn fitted(parts: &[Vec<String>], room: usize) -> Vec<Line> {
    let wanted: Vec<_> = parts.iter().map(|part| part.len() + 1).collect();
    let given = shares(&wanted, room + 1); // no empty line after the last part
    let mut lines = Vec::new();
    for (part, given) in parts.iter().zip(given) {
        let Some(given) = given.checked_sub(1).filter(|given| *given > 0) else { continue };
        if !lines.is_empty() {
            lines.push(Line::plain(String::new()));
        }
        let hidden = part.len() - given;
        let shown = if hidden > 0 && given > 1 { given - 1 } else { given };
        for (at, text) in part.iter().take(shown).enumerate() {
            lines.push(if at == 0 { Line::strong(text.clone()) } else { Line::plain(text.clone()) });
        }
        if shown < given {
            lines.push(Line::plain(format!("… {} more", part.len() - shown)));
        }
    }
    lines
}

/// First the headings, each with its empty line; then one after the other gets one row more, until all have what they want or nothing is left.
fn shares(wanted: &[usize], mut room: usize) -> Vec<usize> {
    let mut given = vec![0; wanted.len()];
    for given in given.iter_mut().take(room / 2) {
        *given = 2;
        room -= 2;
    }
    while room > 0 && given.iter().zip(wanted).any(|(given, wanted)| *given > 0 && given < wanted) {
        for (given, wanted) in given.iter_mut().zip(wanted) {
            if *given > 0 && *given < *wanted && room > 0 {
                *given += 1;
                room -= 1;
            }
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, rows: usize) -> Vec<String> {
        std::iter::once(name.to_owned()).chain((1..=rows).map(|row| format!("{name}{row}"))).collect()
    }

    fn fit(room: usize) -> Vec<String> {
        let lines = fitted(&[part("a", 1), part("b", 5)], room);
        assert!(lines.len() <= room, "{} lines in {room} rows", lines.len());
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn what_has_no_room_is_counted() {
        assert_eq!(fit(20), ["a", "a1", "", "b", "b1", "b2", "b3", "b4", "b5"]);
        assert_eq!(fit(9).len(), 9);
        assert_eq!(fit(6), ["a", "a1", "", "b", "b1", "… 4 more"]);
        assert_eq!(fit(5), ["a", "a1", "", "b", "… 5 more"]);
        assert_eq!((fit(3), fit(1)), (vec!["a".into(), String::new(), "b".into()], vec!["a".to_owned()]));
        for room in 0..12 {
            fit(room);
        }
    }
}
