//! The rules by which a table's columns and values are guessed. They are few, and each says why it decided; what is not sure
//! is marked, and is never applied without being confirmed.
//!
//! A value means *new* if it is the column's default and sounds like it, else if it is a word for it; *done* and *failed* go by
//! their words, which are in `words`. Digits are guessed to be the classic code 0, 1, 2. Values that the type or a constraint
//! admits count like values in the data. What speaks against a guess is in `doubts`.

use serde::Serialize;

use super::{Column, Counts, Holds, TableLook, UniqueKey, doubts::Doubts, words};
use crate::adopt::words::Meaning;

/// A column with more values than this is no status.
const MOST_STATUSES: usize = 12;

/// The digits of the classic code: new, done, failed, and another failed.
pub(super) const CLASSIC: [&str; 4] = ["0", "1", "2", "9"];

/// Why a value was taken that the user gave.
pub(super) const GIVEN: &str = "given";

/// Why a value was taken that the column has by itself.
pub(super) const DEFAULT: &str = "the column's default";

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

/// The columns whose names sound like a status, in groups; the first group sounds most like it, and 0 is the name itself.
pub(super) fn statuses<'a>(look: &'a TableLook, key: &[String]) -> Vec<(u8, Vec<&'a Column>)> {
    let fits = |column: &&Column| column.holds != Holds::Other && !key.contains(&column.name);
    let of = |rank: u8| {
        let same =
            look.columns.iter().filter(fits).filter(|column| words::sounds_like_status(&column.name) == Some(rank));
        (rank, same.collect::<Vec<_>>())
    };
    [0, 1, 2].map(of).into_iter().filter(|(_, group)| !group.is_empty()).collect()
}

/// The columns whose names sound like an owner and which can be one; the most usual name first.
pub(super) fn owners<'a>(look: &'a TableLook, key: &[String], status: &str) -> Vec<&'a Column> {
    let fits = |column: &&Column| column.fits_owner && column.name != status && !key.contains(&column.name);
    let mut owners: Vec<_> = look.columns.iter().filter(fits).collect();
    owners.retain(|column| words::sounds_like_owner(&column.name).is_some());
    owners.sort_by_key(|column| words::sounds_like_owner(&column.name).map(|known| known.place));
    owners
}

/// Can the name of a column hardly mean anything but the process that has a row?
pub(super) fn is_owner(column: &Column) -> bool {
    words::sounds_like_owner(&column.name).is_some_and(|known| known.plain)
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

/// What the values mean; none if new or done cannot even be guessed. Where new and done are given, failed is not guessed at.
pub(super) fn values(column: &Column, counts: &Counts, given: &Given) -> Option<Values> {
    let all = candidates(column, counts);
    let mut left = all.clone();
    left.retain(|value| ![&given.new, &given.done, &given.failed].into_iter().flatten().any(|taken| taken == value));
    let mut pick = |given: &Option<String>, guess: &dyn Fn(&[String]) -> Option<Guess>| {
        let guess = given.as_ref().map(|value| Guess::sure(value, GIVEN)).or_else(|| guess(&left))?;
        left.retain(|value| *value != guess.value);
        Some(guess)
    };
    let new = pick(&given.new, &|left| new(column, left))?;
    let digits = all.iter().all(|value| CLASSIC.contains(&value.as_str()));
    let classic = column.admits.is_empty() && digits && new.value == "0";
    let done = pick(&given.done, &|left| done(left, classic))?;
    let classic = classic && done.value == "1";
    let failed = pick(&given.failed, &|left| failed(left, classic));
    let doubts = Doubts { column, counts, all: &all, unknown: unknown(&left) };
    let asked = given.new.is_none() || given.done.is_none();
    let failed = failed.map(|guess| doubts.about(guess)).filter(|guess| guess.sure || asked);
    Some(Values { new: doubts.about_new(new), done: doubts.about_done(done), failed })
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

/// The first value that no word tells the meaning of.
fn unknown(values: &[String]) -> Option<&String> {
    values.iter().find(|value| words::meaning(value).is_none())
}

/// The column's default, if it sounds like new, else a word for it, else the default after all.
fn new(column: &Column, left: &[String]) -> Option<Guess> {
    let Some(default) = column.default.as_ref().filter(|default| left.contains(default)) else {
        return by_word(left, Meaning::New);
    };
    let others: Vec<String> = left.iter().filter(|value| *value != default).cloned().collect();
    let other = by_word(&others, Meaning::New);
    let guess = Guess::sure(default, DEFAULT);
    match (words::meaning(default), other) {
        (Some((Meaning::New, _)), None) => Some(guess),
        (Some((Meaning::New, _)), Some(other)) => Some(guess.unsure(&format!("but `{}` may be new too", other.value))),
        (_, Some(word)) => Some(word.unsure(&format!("but the column's default is `{default}`"))),
        (None, None) => Some(guess.unsure("but nothing says that it means new")),
        (Some(_), None) => Some(guess.unsure("which does not sound like new")),
    }
}

fn done(left: &[String], classic: bool) -> Option<Guess> {
    if let Some(guess) = by_word(left, Meaning::Done) {
        return Some(guess);
    }
    if classic {
        return Some(Guess::sure("1", "the usual code"));
    }
    let known = |value: &&String| !matches!(words::meaning(value), Some((Meaning::Failed | Meaning::Other, _)));
    let rest: Vec<_> = left.iter().filter(known).collect();
    let [only] = rest[..] else { return None };
    Some(Guess::sure(only, "the only one left").unsure("but nothing says that it means done"))
}

fn failed(left: &[String], classic: bool) -> Option<Guess> {
    let proposed = || classic.then(|| Guess::sure("2", "the usual code; leave it out if no program may see it"));
    by_word(left, Meaning::Failed).or_else(proposed)
}

/// The most usual word among these for this meaning.
fn by_word(left: &[String], meant: Meaning) -> Option<Guess> {
    let usual =
        |value: &&String| words::meaning(value).filter(|(meaning, _)| *meaning == meant).map(|(_, known)| known.place);
    let mut words: Vec<_> = left.iter().filter(|value| usual(value).is_some()).collect();
    words.sort_by_key(usual);
    let (first, others) = words.split_first()?;
    let guess = Guess::sure(first, "a usual word for it");
    let others: Vec<_> = others.iter().map(|other| format!("`{other}`")).collect();
    Some(if others.is_empty() { guess } else { guess.unsure(&format!("but so is {}", others.join(", "))) })
}

impl Guess {
    pub(super) fn sure(value: &str, why: &str) -> Self {
        Guess { value: value.to_owned(), why: why.to_owned(), sure: true }
    }

    /// The same with a doubt; the first one is enough.
    pub(super) fn unsure(self, doubt: &str) -> Self {
        if !self.sure {
            return self;
        }
        Guess { why: format!("{}, {doubt}", self.why), sure: false, ..self }
    }
}

impl Values {
    /// The values that are only guessed, by what they would mean.
    pub fn unsure(&self) -> impl Iterator<Item = (&'static str, &Guess)> {
        let failed = self.failed.iter().map(|guess| ("failed", guess));
        let all = [("new", &self.new), ("done", &self.done)].into_iter().chain(failed);
        all.filter(|(_, guess)| !guess.sure)
    }

    /// Is nothing only guessed?
    #[must_use]
    pub fn sure(&self) -> bool {
        self.unsure().next().is_none()
    }
}

#[cfg(test)]
#[path = "guess_tests.rs"]
mod tests;
