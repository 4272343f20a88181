//! The values of a message that must not be seen, in all the ways in which somebody may write them: what an error, a server or a
//! program repeats of them is replaced.

use super::MASK;
use crate::inspect::shape;

/// So much of a value is enough to find it: servers cut the values that they repeat in their errors.
const SEED: usize = 16;

/// A shorter value is only found as a word of its own.
const SHORT: usize = 4;

/// The values of a message to hide, wherever they are repeated.
#[derive(Debug, Clone, Default)]
pub struct Hidden {
    /// Every value in every spelling, the longest first.
    spelled: Vec<String>,
    everything: bool,
}

impl Hidden {
    pub(super) fn new(secrets: &[String]) -> Self {
        let mut spelled: Vec<_> = secrets.iter().flat_map(|secret| spellings(secret)).collect();
        spelled.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        spelled.dedup();
        Hidden { spelled, everything: false }
    }

    /// Whatever is quoted or a number.
    pub(super) fn everything() -> Self {
        Hidden { spelled: Vec::new(), everything: true }
    }

    /// The text without them.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        if self.everything {
            return shape(text);
        }
        // First where it is whole: its first part may be the same in several spellings.
        let text = self.spelled.iter().fold(text.to_owned(), |text, secret| replaced(text, secret, secret));
        self.spelled.iter().fold(text, |text, secret| replaced(text, secret, seed(secret)))
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
    spelled.extend(secret.lines().map(|line| line.trim().to_owned()).filter(|line| line.chars().count() >= SHORT));
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

fn seed(secret: &str) -> &str {
    secret.char_indices().nth(SEED).map_or(secret, |(at, _)| &secret[..at])
}

/// The text without this value, as far as it goes on from its seed.
fn replaced(text: String, secret: &str, seed: &str) -> String {
    if !text.contains(seed) {
        return text;
    }
    let is_short = secret.chars().count() < SHORT;
    let (mut shown, mut rest) = (String::with_capacity(text.len()), &*text);
    while let Some(at) = rest.find(seed).filter(|_| !seed.is_empty()) {
        let same = rest[at..].chars().zip(secret.chars()).take_while(|(one, other)| one == other);
        let end = at + same.map(|(same, _)| same.len_utf8()).sum::<usize>();
        let inner = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
        let before = rest[..at].chars().next_back().or_else(|| shown.chars().next_back());
        let is_part = is_short && (inner(before) || inner(rest[end..].chars().next()));
        shown.push_str(if is_part { &rest[..end] } else { &rest[..at] });
        shown.push_str(if is_part { "" } else { MASK });
        rest = &rest[end..];
    }
    shown + rest
}
