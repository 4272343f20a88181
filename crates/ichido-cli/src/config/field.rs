//! One written key: turns its value into what the configuration wants, or says what was found and
//! what is allowed. The sections use it through `section.rs`.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::document::{Entry, Node};
use super::error::ConfigError;
use super::spelling;
use super::units;
use super::url::masked;
use ichido::handlers::suggestion;

/// A value of the document, and where it stands.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) file: &'a str,
    pub(super) line: usize,
    pub(super) path: String,
    pub(super) node: &'a Node,
}

impl<'a> Field<'a> {
    /// A text, possibly empty.
    pub(super) fn text(&self) -> Result<&'a str, ConfigError> {
        match self.node {
            // Neither a database nor an operating system takes NUL in a text.
            Node::Text { text, .. } if text.contains('\0') => Err(self.invalid("the value contains a NUL character")),
            Node::Text { text, .. } => Ok(text),
            _ => Err(self.wrong("a string in quotes")),
        }
    }

    /// A text that is not blank.
    pub(super) fn filled(&self) -> Result<String, ConfigError> {
        match self.text()? {
            text if text.trim().is_empty() => Err(self.invalid("the value is empty")),
            text => Ok(text.to_owned()),
        }
    }

    /// A text that `parse` understands.
    pub(super) fn parsed<T>(&self, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, ConfigError> {
        parse(self.text()?).map_err(|text| self.invalid(text))
    }

    /// One of the given words.
    pub(super) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, ConfigError> {
        let words = || choices.iter().map(|(word, _)| *word);
        let quoted: Vec<String> = words().map(|word| format!("{word:?}")).collect();
        let expected = match &quoted[..] {
            [first, second] => format!("{first} or {second}"),
            _ => format!("one of {}", quoted.join(", ")),
        };
        let Node::Text { text, .. } = self.node else {
            return Err(self.wrong(&expected));
        };
        let chosen = choices.iter().find(|(word, _)| word == text).map(|(_, choice)| *choice);
        chosen.ok_or_else(|| self.wrong(&format!("{expected}{}", suggestion(text, words()))))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Result<bool, ConfigError> {
        match self.node {
            Node::Flag(flag) => Some(*flag),
            // A variable is always text: `notify = "${NOTIFY:-true}"` has no other way to be said.
            Node::Text { text, from_variable: true } => text.trim().parse().ok(),
            _ => None,
        }
        .ok_or_else(|| self.wrong("true or false"))
    }

    /// A whole number in the range.
    pub(super) fn whole<N>(&self, range: RangeInclusive<N>) -> Result<N, ConfigError>
    where
        N: TryFrom<i64> + PartialOrd + Display,
    {
        let number = self.integer().and_then(|number| N::try_from(number).ok());
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.wrong(&format!("a whole number from {} to {}", range.start(), range.end())))
    }

    fn integer(&self) -> Option<i64> {
        match self.node {
            Node::Integer(number) => Some(*number),
            Node::Text { text, from_variable: true } => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A number, whole or not, in the range.
    pub(super) fn number(&self, range: RangeInclusive<f64>) -> Result<f64, ConfigError> {
        let number = match self.node {
            Node::Float(number) => Some(*number),
            Node::Text { text, from_variable: true } => text.trim().parse().ok(),
            _ => self.integer().and_then(|n| i32::try_from(n).ok()).map(f64::from),
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.wrong(&format!("a number from {} to {}", range.start(), range.end())))
    }

    /// A duration of at least `least`, written like "30s".
    pub(super) fn duration(&self, least: Duration) -> Result<Duration, ConfigError> {
        let duration = match self.node {
            Node::Integer(0) if least.is_zero() => Duration::ZERO,
            Node::Integer(number) => {
                let hint = format!("{number} has no unit; write it like \"{number}s\"");
                return Err(self.invalid(hint));
            }
            Node::Text { .. } => self.parsed(units::parse_duration)?,
            _ => return Err(self.wrong("a duration like \"30s\"")),
        };
        if duration < least {
            let least = units::spelled(least);
            return Err(self.wrong(&format!("a duration of at least \"{least}\"")));
        }
        Ok(duration)
    }

    /// A size in bytes in the range, written like "256KiB" or as a plain number.
    pub(super) fn size(&self, range: RangeInclusive<u64>) -> Result<u64, ConfigError> {
        let size = match self.integer() {
            Some(number) => u64::try_from(number).unwrap_or(0),
            None if matches!(self.node, Node::Text { .. }) => self.parsed(units::parse_size)?,
            None => return Err(self.wrong("a size like \"256KiB\"")),
        };
        if !range.contains(&size) {
            let (least, most) = (range.start(), units::spelled_size(*range.end()));
            return Err(self.wrong(&format!("a size from {least} byte to {most}")));
        }
        Ok(size)
    }

    /// A text, a whole number or a flag, as text: `0` for both `"0"` and `0`. A column or an option
    /// knows itself what it is.
    pub(super) fn scalar(&self) -> Result<String, ConfigError> {
        match self.node {
            Node::Text { .. } => Ok(self.text()?.to_owned()),
            Node::Integer(number) => Ok(number.to_string()),
            Node::Flag(flag) => Ok(flag.to_string()),
            _ => Err(self.wrong("a string, a whole number, true or false")),
        }
    }

    /// Every element of a list.
    pub(super) fn list<T>(&self, read: impl Fn(&Field<'a>) -> Result<T, ConfigError>) -> Result<Vec<T>, ConfigError> {
        let Node::List(entries) = self.node else {
            return Err(self.wrong("a list in square brackets"));
        };
        let element = |(index, entry): (usize, &'a Entry)| {
            read(&Field {
                file: self.file,
                line: entry.line,
                path: spelling::index(&self.path, index),
                node: &entry.node,
            })
        };
        entries.iter().enumerate().map(element).collect()
    }

    /// Every element of a list that has at least one.
    pub(super) fn filled_list<T>(
        &self,
        read: impl Fn(&Field<'a>) -> Result<T, ConfigError>,
    ) -> Result<Vec<T>, ConfigError> {
        let list = self.list(read)?;
        if list.is_empty() {
            return Err(self.invalid("the list is empty; fill it or remove the key"));
        }
        Ok(list)
    }

    /// An error that says what stands here and what should.
    pub(super) fn wrong(&self, expected: &str) -> ConfigError {
        self.invalid(format!("found {}, expected {expected}", self.found()))
    }

    /// An error at this key.
    pub(super) fn invalid(&self, text: impl Into<String>) -> ConfigError {
        ConfigError::Invalid {
            file: self.file.to_owned(),
            line: Some(self.line),
            key: self.path.clone(),
            text: text.into(),
        }
    }

    /// What stands here, as the user would write it.
    pub(super) fn found(&self) -> String {
        match self.node {
            Node::Text { text, .. } => spelling::quoted(&masked(text)),
            Node::Integer(number) => number.to_string(),
            Node::Float(number) => number.to_string(),
            Node::Flag(flag) => flag.to_string(),
            Node::Date => "a date".to_owned(),
            Node::List(_) => "a list".to_owned(),
            Node::Table(_) => "a table".to_owned(),
        }
    }
}
