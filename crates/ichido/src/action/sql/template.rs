//! Finds `:name` and `:"name"` in a statement. Strings, quoted names, comments, dollar quotes and `::casts` are left alone, as the database reads
//! them that the statement is for (`syntax`).

use std::{collections::BTreeSet, sync::Arc};

use super::syntax::{Lexer, Syntax, name_at};
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
    /// `:name` or `:"name"`: what is behind the colon.
    Name(String),
}

impl Template {
    /// Finds the names in a statement.
    ///
    /// # Errors
    /// [`Error::Setup`] if a string, a comment or a quoted name does not end.
    pub fn parse(syntax: Syntax, text: &str) -> Result<Self> {
        let mut lexer = Lexer { syntax, in_run_comment: false };
        let mut parts = Vec::new();
        let mut plain = 0;
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            if let Some(length) = lexer.passed_over(rest).map_err(|what| unended(text, what))? {
                at += length;
            } else if let Some((name, length)) = name_at(rest) {
                parts.push(Part::Text(text[plain..at].into()));
                parts.push(Part::Name(name));
                at += length;
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

#[cfg(test)]
mod tests {
    use super::{super::placeholder, *};

    const ALL: [Syntax; 3] = [Syntax::SQLITE, Syntax::POSTGRES, Syntax::MYSQL];

    fn rendered(syntax: Syntax, text: &str) -> String {
        Template::parse(syntax, text).unwrap().render(|name, place| format!("<{name}{place}>"))
    }

    #[test]
    fn names_are_found_and_numbered_once_each() {
        for syntax in ALL {
            let text = "insert into p values (:id,:name, :id)";
            assert_eq!(rendered(syntax, text), "insert into p values (<id1>,<name2>, <id1>)");
            assert_eq!(rendered(syntax, "select :名前, 'x':b"), "select <名前2>, 'x'<b1>");
        }
        assert_eq!(rendered(Syntax::POSTGRES, "select :a::int"), "select <a1>::int");
    }

    #[test]
    fn names_that_are_no_words_are_in_quotes() {
        for syntax in ALL {
            for name in ["Auftrags-Nr", "first name", "2nd", "a\"b", "\"", "日 本"] {
                let template = Template::parse(syntax, &format!("select {}, ':\"x\"'", placeholder(name))).unwrap();
                assert_eq!(template.names(), [name].into(), "{syntax:?}");
                assert_eq!(template.render(|_, place| format!("${place}")), "select $1, ':\"x\"'");
            }
            assert_eq!(rendered(syntax, "select :\"id\", :id"), "select <id1>, <id1>");
            assert_eq!(placeholder("id"), ":id");
        }
        assert_eq!(rendered(Syntax::POSTGRES, "select a[1: \"n\"]"), "select a[1: \"n\"]", "the end of an array slice");
    }

    #[test]
    fn strings_quoted_names_and_comments_are_left_alone() {
        for syntax in ALL {
            for text in [
                "select ':a', 'it''s :b', \":c\"",
                "select 1 -- :a\n, 2 /* :b */",
                "select x::text, y :: text, b := 3",
                "select a$b, $1",
                "-- :a",
                "--",
            ] {
                assert_eq!(rendered(syntax, text), text);
            }
        }
    }

    #[test]
    fn each_database_has_strings_and_comments_of_its_own() {
        for (syntax, text) in [
            (Syntax::POSTGRES, "select $$ :a $$, $tag$ :b $$ :c $tag$, a[1:2]"),
            (Syntax::POSTGRES, r"select E'it\'s :a', e'\\', 'x'"),
            (Syntax::POSTGRES, "select /* a /* :b */ :c */ 1"),
            (Syntax::MYSQL, r"select 'it\'s :a', '\\', 'x'"),
            (Syntax::MYSQL, r#"select "it\"s :a", "it""s :b""#),
            (Syntax::MYSQL, "select 1 # it's :a\n, `:b`"),
            (Syntax::MYSQL, "select /*+ :a */ 1"),
            (Syntax::SQLITE, "select [it's :a], `:b` /* :c"),
        ] {
            assert_eq!(rendered(syntax, text), text);
        }
        for (syntax, text, expected) in [
            (Syntax::POSTGRES, r"select '\', :a", r"select '\', <a1>"),
            (Syntax::POSTGRES, "select a # :a", "select a # <a1>"),
            (Syntax::SQLITE, r"select '\', :a, E'\', :b", r"select '\', <a1>, E'\', <b2>"),
            (Syntax::SQLITE, "select /* /* */ :a", "select /* /* */ <a1>"),
            (Syntax::SQLITE, "select $x$, :a, $x$", "select $x$, <a1>, $x$"),
            (Syntax::MYSQL, "select /* /* */ :a", "select /* /* */ <a1>"),
            (Syntax::MYSQL, "select 5--:a", "select 5--<a1>"),
            (Syntax::MYSQL, "select /*!50110 :a, ':b' */ 2*/*:c*/3", "select /*!50110 <a1>, ':b' */ 2*/*:c*/3"),
            (Syntax::MYSQL, "select /*M!100100 :a*/*:b", "select /*M!100100 <a1>*/*<b2>"),
            (Syntax::MYSQL, "select $$, :a, $$", "select $$, <a1>, $$"),
        ] {
            assert_eq!(rendered(syntax, text), expected);
        }
    }

    #[test]
    fn what_does_not_end_is_refused() {
        let unended = |syntax, text| Template::parse(syntax, text).unwrap_err().to_string().contains("unterminated");
        for syntax in ALL {
            assert!(unended(syntax, "select 'a") && unended(syntax, "select \"a"), "{syntax:?}");
        }
        for (syntax, text) in [
            (Syntax::POSTGRES, "select /* /* a */"),
            (Syntax::POSTGRES, r"select E'a\'"),
            (Syntax::POSTGRES, "select $x$ a"),
            (Syntax::MYSQL, "select `a"),
            (Syntax::MYSQL, "select /* a"),
            (Syntax::MYSQL, r"select 'a\'"),
            (Syntax::SQLITE, "select [a"),
        ] {
            assert!(unended(syntax, text), "{text}");
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        for seed in 0..5000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let alphabet: Vec<char> = ":'\"$-/*`aE1é日 \\\n=[]#!M".chars().collect();
            let text: String = (0..random.usize(..24)).map(|_| alphabet[random.usize(..alphabet.len())]).collect();
            for syntax in ALL {
                if let Ok(template) = Template::parse(syntax, &text) {
                    let again = template.render(|name, _| format!(":{name}"));
                    assert!(again == text || text.contains(":\""), "{text}");
                }
            }
        }
    }
}
