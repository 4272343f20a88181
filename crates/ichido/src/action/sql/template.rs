//! Finds `:name` in a statement. Strings, quoted names, comments, dollar quotes and `::casts` are left alone, for the
//! dialects of all stores at once.

use std::{collections::BTreeSet, sync::Arc};

use crate::{Error, error::Result};

/// A statement with its names found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: Arc<str>,
    parts: Vec<Part>,
}

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Plain SQL.
    Text(String),
    /// `:name`.
    Name(String),
}

impl Template {
    /// Finds the names in a statement.
    ///
    /// # Errors
    /// [`Error::Setup`] if a string, a comment or a quoted name does not end.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut plain = 0;
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            if let Some(length) = passed_over(rest).map_err(|what| unended(text, what))? {
                at += length;
            } else if let Some(name) = name_at(rest) {
                parts.push(Part::Text(text[plain..at].into()));
                parts.push(Part::Name(name.into()));
                at += 1 + name.len();
                plain = at;
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        parts.push(Part::Text(text[plain..].into()));
        Ok(Template { text: text.into(), parts })
    }

    /// The statement as it was written.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The pieces, in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Every name, once each, in alphabetical order.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&str> {
        let names = self.parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        });
        names.collect()
    }

    /// The statement with each name written by `placeholder`, which gets the name and its place among the distinct ones,
    /// beginning with 1.
    pub fn render(&self, mut placeholder: impl FnMut(&str, usize) -> String) -> String {
        let names: Vec<_> = self.names().into_iter().collect();
        let mut sql = String::with_capacity(self.text.len());
        for part in &self.parts {
            match part {
                Part::Text(text) => sql.push_str(text),
                Part::Name(name) => {
                    let place = names.iter().position(|known| known == name).unwrap_or_default();
                    sql.push_str(&placeholder(name, place + 1));
                }
            }
        }
        sql
    }
}

fn unended(text: &str, what: &str) -> Error {
    Error::Setup(format!("unterminated {what} in the statement `{text}`"))
}

/// How much to pass over here: a string, a quoted name, a comment, a dollar quote, or `::`.
fn passed_over(rest: &str) -> Result<Option<usize>, &'static str> {
    let ended_by = |end: &str, from: usize, what| {
        rest.get(from..).and_then(|inner| inner.find(end)).map(|found| Some(from + found + end.len())).ok_or(what)
    };
    match rest.as_bytes() {
        [b'\'', ..] => ended_by("'", 1, "string"),
        [b'"', ..] => ended_by("\"", 1, "quoted name"),
        [b'`', ..] => ended_by("`", 1, "quoted name"),
        [b'-', b'-', ..] => Ok(Some(rest.find('\n').unwrap_or(rest.len()))),
        [b'/', b'*', ..] => nested_comment(rest).map(Some).ok_or("comment"),
        [b'E' | b'e', b'\'', ..] => escaped_string(rest).map(Some).ok_or("string"),
        [b':', b':' | b'=', ..] => Ok(Some(2)),
        [b'$', ..] => match dollar_tag(rest) {
            Some(tag) => ended_by(tag, tag.len(), "dollar quote"),
            None => Ok(None),
        },
        [first, ..] if is_word(*first) => Ok(Some(word(rest))),
        _ => Ok(None),
    }
}

/// PostgreSQL's comments nest.
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

/// `E'it\'s'`: a backslash takes the next character with it.
fn escaped_string(rest: &str) -> Option<usize> {
    let mut at = 2;
    loop {
        match rest.as_bytes().get(at)? {
            b'\\' => at += 2,
            b'\'' => return Some(at + 1),
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

/// `:name`; `:1` is the end of an array slice.
fn name_at(rest: &str) -> Option<&str> {
    let name = rest.strip_prefix(':')?;
    let length = name.bytes().position(|byte| !is_word(byte)).unwrap_or(name.len());
    let digit_first = name.as_bytes().first().is_some_and(u8::is_ascii_digit);
    (length > 0 && !digit_first).then(|| &name[..length])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        Template::parse(text).unwrap().render(|name, place| format!("<{name}{place}>"))
    }

    #[test]
    fn names_are_found_and_numbered_once_each() {
        assert_eq!(rendered("insert into p values (:id,:name, :id)"), "insert into p values (<id1>,<name2>, <id1>)");
        assert_eq!(rendered("select :名前"), "select <名前1>");
    }

    #[test]
    fn strings_quoted_names_comments_casts_and_dollar_quotes_are_left_alone() {
        for text in [
            "select ':a', 'it''s :b', \":c\", `:d`",
            "select 1 -- :a\n, 2 /* :b */",
            "select x::text, y :: text, a[1:2], b := 3",
            "select $$ :a $$, $tag$ :b $$ :c $tag$",
            "select a$b, $1",
            r"select E'it\'s :a', e'\\', 'x'",
            "select /* a /* :b */ :c */ 1",
            "-- :a",
        ] {
            assert_eq!(rendered(text), text);
        }
        assert_eq!(rendered("select :a::int, 'x':b"), "select <a1>::int, 'x'<b2>");
    }

    #[test]
    fn what_does_not_end_is_refused() {
        for text in [
            "select 'a",
            "select \"a",
            "select /* a",
            "select /* /* a */",
            r"select E'a\'",
            "select $x$ a",
            "select `a",
        ] {
            assert!(Template::parse(text).unwrap_err().to_string().contains("unterminated"), "{text}");
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        for seed in 0..5000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let alphabet: Vec<char> = ":'\"$-/*`aE1é日 \\\n=[]".chars().collect();
            let text: String = (0..random.usize(..24)).map(|_| alphabet[random.usize(..alphabet.len())]).collect();
            if let Ok(template) = Template::parse(&text) {
                assert_eq!(template.render(|name, _| format!(":{name}")), text);
            }
        }
    }
}
