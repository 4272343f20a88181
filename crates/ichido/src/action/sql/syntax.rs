//! What each database takes for strings, quoted names and comments. A `:name` in them is none; one that is read differently here and on
//! the server would be bound where nothing asks for it, or be left as text where something does. `template` asks it.

/// Whose SQL a statement is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax(Of);

/// Not public: a variant that is called as a store is would make the compiler spell out the store's path in every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Sqlite,
    Postgres,
    MySql,
}

use Of::{MySql, Postgres, Sqlite};

impl Syntax {
    /// SQLite: names also in brackets, comments that need not end.
    pub const SQLITE: Syntax = Syntax(Sqlite);

    /// PostgreSQL, with `standard_conforming_strings`: `E'…'`, dollar quotes, comments that nest.
    pub const POSTGRES: Syntax = Syntax(Postgres);

    /// MySQL and MariaDB, without `NO_BACKSLASH_ESCAPES`: backslashes in strings, `#`, comments that are run.
    pub const MYSQL: Syntax = Syntax(MySql);
}

/// Passes over what holds no names.
pub(super) struct Lexer {
    pub(super) syntax: Syntax,
    /// In a comment of MySQL's that is run: `/*!50110 … */`.
    pub(super) in_run_comment: bool,
}

impl Lexer {
    /// How much to pass over here: a string, a quoted name, a comment, a dollar quote, a word, or `::`.
    pub(super) fn passed_over(&mut self, rest: &str) -> Result<Option<usize>, &'static str> {
        let ended_by = |end: &str, from: usize, what| {
            rest.get(from..).and_then(|inner| inner.find(end)).map(|found| Some(from + found + end.len())).ok_or(what)
        };
        let syntax = self.syntax.0;
        match rest.as_bytes() {
            [quote @ (b'\'' | b'"'), ..] if syntax == MySql => escaped(rest, 1, *quote).map(Some).ok_or("string"),
            [b'E' | b'e', b'\'', ..] if syntax == Postgres => escaped(rest, 2, b'\'').map(Some).ok_or("string"),
            [b'\'', ..] => ended_by("'", 1, "string"),
            [b'"', ..] => ended_by("\"", 1, "quoted name"),
            [b'`', ..] if syntax != Postgres => ended_by("`", 1, "quoted name"),
            [b'[', ..] if syntax == Sqlite => ended_by("]", 1, "quoted name"),
            [b'#', ..] if syntax == MySql => Ok(Some(line(rest))),
            [b'-', b'-', after @ ..] if syntax != MySql || begins_blank(after) => Ok(Some(line(rest))),
            [b'/', b'*', ..] | [b'*', b'/', ..] => self.comment(rest),
            [b':', b':' | b'=', ..] => Ok(Some(2)),
            [b'$', ..] if syntax == Postgres => match dollar_tag(rest) {
                Some(tag) => ended_by(tag, tag.len(), "dollar quote"),
                None => Ok(None),
            },
            [first, ..] if is_word(*first) => Ok(Some(word(rest))),
            _ => Ok(None),
        }
    }

    fn comment(&mut self, rest: &str) -> Result<Option<usize>, &'static str> {
        let plain = || rest.get(2..).and_then(|inner| inner.find("*/")).map(|found| found + 4);
        match (self.syntax.0, rest.as_bytes()) {
            (_, [b'*', ..]) => {
                let ends = std::mem::take(&mut self.in_run_comment);
                Ok(ends.then_some(2))
            }
            (MySql, [_, _, b'!', ..] | [_, _, b'M', b'!', ..]) => {
                self.in_run_comment = true;
                Ok(Some(2))
            }
            (Sqlite, _) => Ok(Some(plain().unwrap_or(rest.len()))),
            (Postgres, _) => nested_comment(rest).map(Some).ok_or("comment"),
            (MySql, _) => plain().map(Some).ok_or("comment"),
        }
    }
}

fn line(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// MySQL's `--` is a comment only before a blank: `5--1` is 6.
fn begins_blank(after: &[u8]) -> bool {
    after.first().is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
}

fn nested_comment(rest: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(pair) = rest.as_bytes().get(at..at + 2) {
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A string where a backslash takes the next character with it.
fn escaped(rest: &str, mut at: usize, quote: u8) -> Option<usize> {
    loop {
        match rest.as_bytes().get(at)? {
            b'\\' => at += 2,
            byte if *byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// A word is passed over whole, so that `a$b` holds no dollar quote. A `:` right behind one is an array slice or a cast,
/// unless a name follows it.
fn word(rest: &str) -> usize {
    rest.bytes().position(|byte| !is_word(byte) && byte != b'$').unwrap_or(rest.len())
}

fn dollar_tag(rest: &str) -> Option<&str> {
    let inner = rest[1..].find('$')?;
    let tag = &rest[1..=inner];
    let digit_first = tag.as_bytes().first().is_some_and(u8::is_ascii_digit);
    (tag.bytes().all(is_word) && !digit_first).then(|| &rest[..inner + 2])
}

/// `:name`, or `:"name"` for one that is no word; and its length. `:1` is the end of an array slice.
pub(super) fn name_at(rest: &str) -> Option<(String, usize)> {
    let name = rest.strip_prefix(':')?;
    if let Some(quoted) = name.strip_prefix('"') {
        return quoted_name(quoted).map(|(name, length)| (name, length + 2));
    }
    let word = &name[..name.bytes().position(|byte| !is_word(byte)).unwrap_or(name.len())];
    is_name(word).then(|| (word.to_owned(), word.len() + 1))
}

/// What is before the quote that ends it, where two quotes are one; and its length with that quote.
fn quoted_name(rest: &str) -> Option<(String, usize)> {
    let mut at = 0;
    loop {
        at += rest.get(at..)?.find('"')? + 1;
        if !rest[at..].starts_with('"') {
            let name = rest[..at - 1].replace("\"\"", "\"");
            return (!name.is_empty()).then_some((name, at));
        }
        at += 1;
    }
}

/// A field's name as a statement has it: `:name`, or `:"first name"`.
#[must_use]
pub fn placeholder(name: &str) -> String {
    if is_name(name) { format!(":{name}") } else { format!(":\"{}\"", name.replace('"', "\"\"")) }
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(is_word) && !word.as_bytes()[0].is_ascii_digit()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}
