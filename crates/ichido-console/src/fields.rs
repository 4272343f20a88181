//! Names and values as browsers send them: a query, or a form. A name may come several times; an unknown one is refused, so that a slip is not
//! taken for "everything".

use std::{ops::RangeInclusive, str::FromStr, time::Duration};

use axum::{extract::FromRequestParts, http::request::Parts};
use ichido::by_hand::parse_duration;

use crate::Problem;

/// The names and values of a query or a form, in their order. As an extractor it is the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `a=1&b=2`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        Fields(form_urlencoded::parse(text).map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The first value of this name that is not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// Every value of this name.
    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The value of this name, as what it must be.
    ///
    /// # Errors
    /// It is something else.
    pub fn parsed<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, Problem> {
        let parse = |value: &str| value.parse().map_err(|_| Problem::bad(format!("`{name}` must be {expected}")));
        self.get(name).map(parse).transpose()
    }

    /// `true` or `false`; false if it is not there.
    ///
    /// # Errors
    /// It is something else.
    pub fn flag(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.parsed(name, "true or false")?.unwrap_or(false))
    }

    /// A number from 1 to `most`, or this one.
    ///
    /// # Errors
    /// It is something else.
    pub fn limit(&self, default: u32, most: u32) -> Result<u32, Problem> {
        let expected = format!("a number from 1 to {most}");
        match self.parsed("limit", &expected)? {
            None => Ok(default),
            Some(limit) if (1..=most).contains(&limit) => Ok(limit),
            Some(_) => Err(Problem::bad(format!("`limit` must be {expected}"))),
        }
    }

    /// A text without NUL, which no database can keep.
    ///
    /// # Errors
    /// It has one.
    pub fn name(&self, name: &str) -> Result<Option<String>, Problem> {
        match self.get(name) {
            Some(text) if text.contains('\0') => Err(Problem::bad(format!("`{name}` must not contain NUL"))),
            text => Ok(text.map(str::to_owned)),
        }
    }

    /// A number in this range.
    ///
    /// # Errors
    /// It is something else.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        match self.parsed(name, &expected)? {
            Some(number) if !range.contains(&number) => Err(Problem::bad(format!("`{name}` must be {expected}"))),
            number => Ok(number),
        }
    }

    /// A time span like `90s`, `1h30m` or `7d`.
    ///
    /// # Errors
    /// It is something else.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, Problem> {
        let wrong =
            |_| Problem::bad(format!("`{name}` must be a time span like 90s, 1h30m or 7d, of at most a century"));
        self.get(name).map(|text| parse_duration(text).map_err(wrong)).transpose()
    }

    /// Refuses a value with NUL, which no database can keep.
    ///
    /// # Errors
    /// There is one.
    pub fn refuse_nul(&self) -> Result<(), Problem> {
        match self.0.iter().find(|(_, value)| value.contains('\0')) {
            None => Ok(()),
            Some((name, _)) => Err(Problem::bad(format!("`{name}` must not contain NUL"))),
        }
    }

    /// Refuses every name but these.
    ///
    /// # Errors
    /// There is another one.
    pub fn only(self, known: &[&str]) -> Result<Self, Problem> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(self),
            Some((name, _)) => {
                let there = if known.is_empty() { "there are none".into() } else { known.join(", ") };
                Err(Problem::bad(format!("unknown parameter `{name}`; known: {there}")))
            }
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Fields {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Fields::parse(parts.uri.query().unwrap_or_default().as_bytes()))
    }
}
