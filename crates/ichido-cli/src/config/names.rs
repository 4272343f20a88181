//! The rules for names: those of queues, lane sets and actions, and those of tables and columns.
//! The stores quote what passed here; nothing else from a file reaches SQL.

use std::collections::BTreeSet;

use ichido::adopt::unquoted;

use super::error::ConfigError;
use super::field::Field;
use super::spelling::quoted;

const LONGEST_NAME: usize = 64;
/// PostgreSQL cuts longer identifiers silently.
const LONGEST_IDENTIFIER: usize = 63;

/// Checks the name of a queue, lane set, level or action.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let all = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if first && all && name.len() <= LONGEST_NAME {
        return Ok(());
    }
    Err(format!(
        "{} is not a valid name; a name has 1 to {LONGEST_NAME} letters, digits, `_`, `.` or `-` \
         and starts with a letter or `_`",
        quoted(name)
    ))
}

/// Checks a column, or one part of a table's name.
pub(super) fn check_identifier(text: &str) -> Result<(), String> {
    let why = if text.is_empty() {
        "is empty"
    } else if text.chars().any(char::is_control) {
        "contains a control character"
    } else if text.len() > LONGEST_IDENTIFIER {
        "is longer than 63 bytes"
    } else {
        return Ok(());
    };
    Err(format!("the identifier {} {why}", quoted(text)))
}

/// A column's name.
pub(super) fn column(field: &Field) -> Result<String, ConfigError> {
    field.parsed(|text| check_identifier(text).map(|()| text.to_owned()))
}

/// Refuses a text that is in the list twice.
pub(super) fn check_distinct<'a>(field: &Field, texts: impl IntoIterator<Item = &'a str>) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    match texts.into_iter().find(|text| !seen.insert(*text)) {
        Some(text) => Err(field.invalid(format!("{} is used twice", quoted(text)))),
        None => Ok(()),
    }
}

/// A table's name, with or without its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The schema, when one is written.
    pub schema: Option<String>,
    /// The name of the table itself.
    pub name: String,
}

impl TableName {
    /// Reads `name`, `schema.name` or, when a part contains a dot, `"odd.schema".name`.
    ///
    /// # Errors
    /// A text that says which part is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (first, rest) = part(text)?;
        let Some(rest) = rest else {
            return Ok(Self { schema: None, name: first });
        };
        match part(rest)? {
            (name, None) => Ok(Self { schema: Some(first), name }),
            (_, Some(_)) => Err(format!(
                "{} has more than two parts; write \"schema.name\", \
                 with a part that contains a dot in double quotes",
                quoted(text)
            )),
        }
    }
}

/// The first part of a dotted name, and what follows its dot.
fn part(text: &str) -> Result<(String, Option<&str>), String> {
    let (part, rest) = if text.starts_with('"') {
        quoted_part(text).ok_or_else(|| format!("{} has a misplaced double quote", quoted(text)))?
    } else {
        let (part, rest) = text.split_once('.').map_or((text, None), |(part, rest)| (part, Some(rest)));
        (part.to_owned(), rest)
    };
    check_identifier(&part)?;
    Ok((part, rest))
}

/// A part in double quotes, and what follows its dot.
fn quoted_part(text: &str) -> Option<(String, Option<&str>)> {
    let (part, rest) = unquoted(text, '"')?;
    if rest.is_empty() {
        return Some((part, None));
    }
    rest.strip_prefix('.').map(|rest| (part, Some(rest)))
}
