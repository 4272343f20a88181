//! The values of a message that must not be seen, in all the ways in which somebody may write them: what an error, a server or a
//! program repeats of them is replaced. It costs as much as the text and the values are long, whatever is in them.

use std::{collections::HashSet, ops::Range};

use super::{MASK, automaton::Automaton};
use crate::inspect::shape;

/// So much of a value is enough to find it: servers cut the values that they repeat in their errors.
const SEED: usize = 16;

/// A shorter value is only found as a word of its own.
const SHORT: usize = 4;

/// The values of a message, in all their spellings, are looked for up to this many bytes.
const LARGEST: usize = 1 << 20;

/// The values of a message to hide, wherever they are repeated.
#[derive(Debug, Clone, Default)]
pub struct Hidden(What);

#[derive(Debug, Clone, Default)]
enum What {
    #[default]
    Nothing,
    Values {
        long: Automaton,
        short: HashSet<String>,
    },
    /// Whatever is quoted or a number.
    Quoted,
    /// There is more to hide than can be looked for.
    Everything,
}

impl Hidden {
    pub(super) fn new(secrets: &[String]) -> Self {
        let (mut spelled, mut bytes) = (HashSet::new(), 0);
        for spelling in secrets.iter().flat_map(|secret| spellings(secret)) {
            let length = spelling.len();
            bytes += if spelled.insert(spelling) { length } else { 0 };
            if bytes > LARGEST {
                return Hidden(What::Everything);
            }
        }
        spelled.remove("");
        if spelled.is_empty() {
            return Hidden::default();
        }
        let (short, long): (HashSet<_>, HashSet<_>) = spelled.into_iter().partition(|value| is_short(value));
        Hidden(What::Values { long: Automaton::new(long.iter().map(String::as_str)), short })
    }

    /// Whatever is quoted or a number.
    pub(super) fn quoted() -> Self {
        Hidden(What::Quoted)
    }

    /// The text without them.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        match &self.0 {
            What::Nothing => text.to_owned(),
            What::Quoted => shape(text),
            What::Everything => MASK.to_owned(),
            What::Values { long, short } => {
                let mut found = long.find(text, SEED);
                found.extend(words(text, short));
                found.sort_unstable_by_key(|range| range.start);
                replaced(text, found)
            }
        }
    }
}

/// A value as others may write it: as it is, escaped as by Rust or in JSON, on one line, and line by line.
fn spellings(secret: &str) -> Vec<String> {
    let unquoted = |quoted: &str| quoted[1..quoted.len() - 1].to_owned();
    let json = unquoted(&serde_json::json!(secret).to_string());
    let words = secret.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut spelled = vec![
        secret.to_owned(),
        unquoted(&format!("{secret:?}")),
        words.collect::<Vec<_>>().join(" "),
        in_ascii(&json, |unit| format!("\\u{unit:04x}")),
        in_ascii(&json, |unit| format!("\\u{unit:04X}")),
        json,
    ];
    spelled.extend(secret.lines().map(|line| line.trim().to_owned()).filter(|line| !is_short(line)));
    spelled
}

/// JSON as most programs write it, in ASCII.
fn in_ascii(json: &str, escaped: impl Fn(u16) -> String) -> String {
    let spelled = |c: char| match c {
        ' '..='~' => c.to_string(),
        _ => c.encode_utf16(&mut [0; 2]).iter().map(|unit| escaped(*unit)).collect(),
    };
    json.chars().map(spelled).collect()
}

fn is_short(value: &str) -> bool {
    value.chars().nth(SHORT - 1).is_none()
}

/// Where one of these short values is a word of its own.
fn words<'a>(text: &'a str, short: &'a HashSet<String>) -> impl Iterator<Item = Range<usize>> + 'a {
    let ends =
        |start: usize| text[start..].char_indices().take(SHORT - 1).map(move |(at, c)| start + at + c.len_utf8());
    let ranges = text.char_indices().flat_map(move |(start, _)| ends(start).map(move |end| start..end));
    let is_inner = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
    ranges.filter(move |range| {
        short.contains(&text[range.clone()])
            && !is_inner(text[..range.start].chars().next_back())
            && !is_inner(text[range.end..].chars().next())
    })
}

/// The text with a mask in each of these places, which come in order.
fn replaced(text: &str, places: Vec<Range<usize>>) -> String {
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for place in places {
        if place.start >= end {
            shown.push_str(&text[end..place.start]);
            shown.push_str(MASK);
        }
        end = end.max(place.end);
    }
    shown + &text[end..]
}
