//! What speaks against a guess about a status. A guess that has a doubt is told with it, and never applied: a row that is taken
//! for new is processed, and one that is taken for done never is.

use super::{
    Column, Counts,
    guess::{CLASSIC, DEFAULT, GIVEN, Guess},
    words,
};

/// The values of a flag, no and yes.
const NO_YES: [[&str; 2]; 2] = [["n", "y"], ["no", "yes"]];

/// What is known about a status column, to doubt what is guessed about its values.
pub(super) struct Doubts<'a> {
    pub(super) column: &'a Column,
    pub(super) counts: &'a Counts,
    /// Every value that there is or could be.
    pub(super) all: &'a [String],
    /// One that is taken for nothing, and whose meaning nobody knows.
    pub(super) unknown: Option<&'a String>,
}

impl Doubts<'_> {
    /// A value that was taken for new.
    pub(super) fn about_new(&self, guess: Guess) -> Guess {
        let nulls = self.counts.values.iter().any(|(value, _)| value.is_none());
        let nulls = nulls.then(|| "but rows without a status may be new too".to_owned());
        with(self.about(guess), nulls.or_else(|| self.unknown()))
    }

    /// A value that was taken for done.
    pub(super) fn about_done(&self, guess: Guess) -> Guess {
        let seen = self.count(&guess.value) > 0;
        let unseen = (!seen).then(|| "but no row is done yet".to_owned());
        with(self.about(guess), self.unknown().or(unseen))
    }

    /// A value that was taken for anything.
    pub(super) fn about(&self, guess: Guess) -> Guess {
        let value = guess.value.trim().to_owned();
        let known = words::meaning(&value).map(|(_, known)| known);
        let doubt = match () {
            () if self.is_flag() => None,
            () if value.parse::<i64>().is_ok() => Some(self.about_number(&value)),
            () if value.len() == 1 => Some("but a letter can mean anything".to_owned()),
            () if value == "true" || value == "false" => {
                Some(format!("but `{}` does not say what it means", self.column.name))
            }
            // A word that may mean something else is new if rows begin with it.
            () if known.is_some_and(|known| !known.plain) && guess.why != DEFAULT => {
                Some("but it can mean something else".to_owned())
            }
            () => None,
        };
        with(guess, doubt)
    }

    /// What speaks most against a digit of the classic code: other digits beside it, or more failed rows than done ones, as
    /// where 1 means "being processed" and 2 "done".
    fn about_number(&self, value: &str) -> String {
        let is_digit = |value: &&String| value.len() == 1 && value.bytes().all(|byte| byte.is_ascii_digit());
        let other = self.all.iter().filter(is_digit).find(|digit| !CLASSIC.contains(&digit.as_str()));
        match other {
            _ if !CLASSIC.contains(&value) || value == "0" => "but a number can mean anything".to_owned(),
            Some(other) => format!("but there is also {other}"),
            None if self.count("2") > self.count("1") => "but 2 is more frequent than 1".to_owned(),
            None => "but a number can mean anything".to_owned(),
        }
    }

    /// Does the column say yes and no about being done? Then its values mean what they are.
    fn is_flag(&self) -> bool {
        let within = |pair: &[&str]| self.all.iter().all(|value| pair.contains(&value.trim().to_lowercase().as_str()));
        let admits: Vec<&str> = self.column.admits.iter().map(String::as_str).collect();
        let typed = (admits == ["false", "true"] || admits == ["0", "1"]) && within(&admits);
        words::says_done(&self.column.name) && (typed || NO_YES.iter().any(|pair| within(pair)))
    }

    fn unknown(&self) -> Option<String> {
        self.unknown.map(|value| format!("but nothing says what `{value}` means"))
    }

    fn count(&self, value: &str) -> u64 {
        let found = self.counts.values.iter().find(|(known, _)| known.as_deref() == Some(value));
        found.map_or(0, |(_, count)| *count)
    }
}

/// The guess with this doubt; what the user gave is not doubted.
fn with(guess: Guess, doubt: Option<String>) -> Guess {
    match doubt {
        Some(doubt) if guess.why != GIVEN => guess.unsure(&doubt),
        _ => guess,
    }
}
