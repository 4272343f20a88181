//! The rules by which a table's columns and values are guessed. They are few, and each says why it decided; what is not sure
//! is marked, and is never applied without being confirmed.
//!
//! A value means *new* if it is the column's default, else if it is a word for it; *done* and *failed* go by their words. The
//! words are in `words`. Digits are the classic code 0, 1, 2, as long as the data do not speak against it. Values that the
//! type or a constraint admits count like values in the data.

use serde::Serialize;

use super::{Column, Counts, Holds, TableLook, UniqueKey, words};
use crate::adopt::words::Meaning;

/// A column with more values than this is no status.
const MOST_STATUSES: usize = 12;

/// The digits of the classic code: new, done, failed, and another failed.
const CLASSIC: [&str; 4] = ["0", "1", "2", "9"];

/// A value, and why it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guess {
    /// The value, as text.
    pub value: String,
    /// Why, in a few words.
    pub why: String,
    /// Is it safe to go on without asking?
    pub sure: bool,
}

/// What the values of a status column mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Values {
    /// Unprocessed rows.
    pub new: Guess,
    /// Done rows.
    pub done: Guess,
    /// Rows that have failed; none if such rows stay new, out of circulation.
    pub failed: Option<Guess>,
}

/// What the user said about the values.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    pub(super) new: Option<String>,
    pub(super) done: Option<String>,
    pub(super) failed: Option<String>,
}

/// The key by which rows are told apart: the primary key, else the shortest unique key that cannot be null.
pub(super) fn key(look: &TableLook) -> Option<&UniqueKey> {
    let usable = look.keys.iter().filter(|key| key.not_null);
    usable.min_by_key(|key| (!key.primary, key.columns.len(), key.columns.clone()))
}

/// The columns whose names sound like a status, in groups; the first group sounds most like it.
pub(super) fn statuses<'a>(look: &'a TableLook, key: &[String]) -> Vec<Vec<&'a Column>> {
    let fits = |column: &&Column| column.holds != Holds::Other && !key.contains(&column.name);
    let of = |rank: u8| {
        let same =
            look.columns.iter().filter(fits).filter(|column| words::sounds_like_status(&column.name) == Some(rank));
        same.collect::<Vec<_>>()
    };
    [0, 1, 2].map(of).into_iter().filter(|group| !group.is_empty()).collect()
}

/// The columns whose names sound like an owner and which can be one; the most usual name first.
pub(super) fn owners<'a>(look: &'a TableLook, key: &[String], status: &str) -> Vec<&'a Column> {
    let fits = |column: &&Column| column.fits_owner && column.name != status && !key.contains(&column.name);
    let mut owners: Vec<_> = look.columns.iter().filter(fits).collect();
    owners.retain(|column| words::sounds_like_owner(&column.name).is_some());
    owners.sort_by_key(|column| words::sounds_like_owner(&column.name));
    owners
}

/// Can a column with these values be a status at all?
pub(super) fn few(counts: &Counts) -> bool {
    counts.values.len() <= MOST_STATUSES
}

/// A value as the column would say it: a flag may be told as a number, and a number as a flag.
pub(super) fn as_held(column: &Column, value: &str) -> String {
    let admits = |values: [&str; 2]| column.admits == values;
    match value {
        "false" | "true" if admits(["0", "1"]) => u8::from(value == "true").to_string(),
        "0" | "1" if admits(["false", "true"]) => (value == "1").to_string(),
        _ => value.to_owned(),
    }
}

/// What the values mean; none if new or done cannot even be guessed.
pub(super) fn values(column: &Column, counts: &Counts, given: &Given) -> Option<Values> {
    let mut left = candidates(column, counts);
    left.retain(|value| ![&given.new, &given.done, &given.failed].into_iter().flatten().any(|taken| taken == value));
    let mut pick = |given: &Option<String>, guess: &dyn Fn(&[String]) -> Option<Guess>| {
        let guess = given.as_ref().map(|value| Guess::sure(value, "given")).or_else(|| guess(&left))?;
        left.retain(|value| *value != guess.value);
        Some(guess)
    };
    let doubt = doubt(column, counts);
    let new = pick(&given.new, &|left| new(column, left))?;
    let digits = candidates(column, counts).iter().all(|value| CLASSIC.contains(&value.as_str()));
    let classic = column.admits.is_empty() && digits && new.value == "0";
    let done = pick(&given.done, &|left| done(column, left, classic))?;
    let classic = classic && done.value == "1";
    let failed = pick(&given.failed, &|left| failed(left, classic));
    let doubtful = |guess: Guess| match &doubt {
        Some(doubt) if CLASSIC.contains(&guess.value.as_str()) && guess.why != "given" => guess.unsure(doubt),
        _ => guess,
    };
    Some(Values { new, done: doubtful(done), failed: failed.map(doubtful) })
}

/// Every value that there is or could be, each once.
fn candidates(column: &Column, counts: &Counts) -> Vec<String> {
    let data = counts.values.iter().filter_map(|(value, _)| value.clone());
    let mut all: Vec<String> = Vec::new();
    for value in column.admits.iter().cloned().chain(data).chain(column.default.clone()) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// What speaks against the classic code, if anything does: other digits beside it, or more failed rows than done ones, as
/// where 1 means "being processed" and 2 "done".
fn doubt(column: &Column, counts: &Counts) -> Option<String> {
    let count = |value: &str| {
        let found = counts.values.iter().find(|(known, _)| known.as_deref() == Some(value));
        found.map_or(0, |(_, count)| *count)
    };
    let is_digit = |value: &&String| value.len() == 1 && value.bytes().all(|byte| byte.is_ascii_digit());
    let all = candidates(column, counts);
    let other = all.iter().filter(is_digit).find(|digit| !CLASSIC.contains(&digit.as_str()));
    match other {
        Some(other) => Some(format!("but there is also {other}")),
        None if count("2") > count("1") => Some("but 2 is more frequent than 1".to_owned()),
        None => None,
    }
}

fn new(column: &Column, left: &[String]) -> Option<Guess> {
    let default = column.default.as_ref().filter(|default| left.contains(default));
    if let Some(default) = default {
        let guess = Guess::sure(default, "the column's default");
        return Some(match words::meaning(default) {
            None | Some((Meaning::New, _)) => guess,
            // A flag that begins as true: `pending`.
            Some(_) if column.admits.len() == 2 => guess,
            Some(_) => guess.unsure("which does not sound like new"),
        });
    }
    by_word(left, Meaning::New)
}

fn done(column: &Column, left: &[String], classic: bool) -> Option<Guess> {
    if let Some(guess) = by_word(left, Meaning::Done) {
        return Some(guess);
    }
    if classic {
        return Some(Guess::sure("1", "the usual code; no row has it yet"));
    }
    let known = |value: &&String| !matches!(words::meaning(value), Some((Meaning::Failed | Meaning::Other, _)));
    let rest: Vec<_> = left.iter().filter(known).collect();
    let [only] = rest[..] else { return None };
    let guess = Guess::sure(only, "the only one left");
    Some(if column.admits.contains(only) { guess } else { guess.unsure("but there may be others") })
}

fn failed(left: &[String], classic: bool) -> Option<Guess> {
    let proposed = || classic.then(|| Guess::sure("2", "the usual code; leave it out if no program may see it"));
    by_word(left, Meaning::Failed).or_else(proposed)
}

/// The most usual word among these for this meaning.
fn by_word(left: &[String], meant: Meaning) -> Option<Guess> {
    let usual =
        |value: &&String| words::meaning(value).filter(|(meaning, _)| *meaning == meant).map(|(_, usual)| usual);
    let mut words: Vec<_> = left.iter().filter(|value| usual(value).is_some()).collect();
    words.sort_by_key(usual);
    let (first, others) = words.split_first()?;
    let guess = Guess::sure(first, "a usual word for it");
    let others: Vec<_> = others.iter().map(|other| format!("`{other}`")).collect();
    Some(if others.is_empty() { guess } else { guess.unsure(&format!("but so is {}", others.join(", "))) })
}

impl Guess {
    fn sure(value: &str, why: &str) -> Self {
        Guess { value: value.to_owned(), why: why.to_owned(), sure: true }
    }

    fn unsure(self, doubt: &str) -> Self {
        Guess { why: format!("{}, {doubt}", self.why), sure: false, ..self }
    }
}

impl Values {
    /// Are new and done sure?
    #[must_use]
    pub fn sure(&self) -> bool {
        self.new.sure && self.done.sure
    }
}

#[cfg(test)]
#[path = "guess_tests.rs"]
mod tests;
