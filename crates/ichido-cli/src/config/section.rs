//! A table of the document with the keys it may have. The sections of the configuration read
//! themselves from it, one line per key; what is in a key, `field.rs` tells.

use std::collections::BTreeMap;

use super::document::{Node, Table};
use super::error::ConfigError;
use super::field::Field;
use super::names;
use super::spelling;
use ichido::handlers::suggestion;

static NOTHING: Table = BTreeMap::new();

/// A table of the document, and where it stands.
#[derive(Clone)]
pub(super) struct Section<'a> {
    pub(super) file: &'a str,
    pub(super) line: usize,
    pub(super) path: String,
    pub(super) table: &'a Table,
}

impl<'a> Section<'a> {
    /// The whole document.
    pub(super) fn root(file: &'a str, table: &'a Table) -> Self {
        Self { file, line: 1, path: String::new(), table }
    }

    /// Refuses every key that is not in `allowed`; of several, the first in the file.
    pub(super) fn allow(self, allowed: &[&str]) -> Result<Self, ConfigError> {
        let unknown = self.table.iter().filter(|(key, _)| !allowed.contains(&key.as_str()));
        match unknown.min_by_key(|(_, entry)| entry.line) {
            None => Ok(self),
            Some((key, _)) => {
                let near = suggestion(key, allowed.iter().copied());
                let allowed = allowed.join(", ");
                Err(self.invalid(key, format!("unknown key{near}\n  allowed: {allowed}")))
            }
        }
    }

    /// Refuses keys that earlier versions accepted; what is true in place of them is said with it.
    pub(super) fn without(self, removed: &[(&str, &str)]) -> Result<Self, ConfigError> {
        match removed.iter().find(|(key, _)| self.table.contains_key(*key)) {
            None => Ok(self),
            Some((key, instead)) => Err(self.invalid(key, format!("removed; delete this line: {instead}"))),
        }
    }

    /// The key, if it is written.
    pub(super) fn field(&self, key: &str) -> Option<Field<'a>> {
        self.table.get(key).map(|entry| Field {
            file: self.file,
            line: entry.line,
            path: spelling::key(&self.path, key),
            node: &entry.node,
        })
    }

    /// What is written at the key, if it is.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Field<'a>) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.field(key).map(|field| read(&field)).transpose()
    }

    /// What is written at the key, or else the default.
    pub(super) fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&Field<'a>) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        Ok(self.optional(key, read)?.unwrap_or(default))
    }

    /// What is written at the key, which must be there.
    pub(super) fn required<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Field<'a>) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        match self.field(key) {
            Some(field) => read(&field),
            None => Err(self.invalid(key, format!("missing; `{}` requires this key", self.path))),
        }
    }

    /// The table at the key; one that is not written is one that says nothing.
    pub(super) fn section(&self, key: &str, allowed: &[&str]) -> Result<Self, ConfigError> {
        match self.field(key) {
            Some(field) => field.section()?.allow(allowed),
            None => Ok(Self { path: spelling::key(&self.path, key), table: &NOTHING, ..self.clone() }),
        }
    }

    /// The tables under the key by their names, such as `[queues.orders]`.
    pub(super) fn named<T>(
        &self,
        key: &str,
        read: impl Fn(&str, Section<'a>) -> Result<T, ConfigError>,
    ) -> Result<BTreeMap<String, T>, ConfigError> {
        let entries = self.field(key).map_or(Ok(vec![]), |field| field.entries())?;
        let one = |(name, field): (&str, Field<'a>)| {
            names::check_name(name).map_err(|text| field.invalid(text))?;
            Ok((name.to_owned(), read(name, field.section()?)?))
        };
        entries.into_iter().map(one).collect()
    }

    /// An error at a key of this table, at the table's line when the key is not written.
    pub(super) fn invalid(&self, key: &str, text: impl Into<String>) -> ConfigError {
        ConfigError::Invalid {
            file: self.file.to_owned(),
            line: Some(self.table.get(key).map_or(self.line, |entry| entry.line)),
            key: spelling::key(&self.path, key),
            text: text.into(),
        }
    }
}

impl<'a> Field<'a> {
    /// The table in this field.
    pub(super) fn section(&self) -> Result<Section<'a>, ConfigError> {
        let Node::Table(table) = self.node else {
            return Err(self.wrong("a table of keys"));
        };
        Ok(Section { file: self.file, line: self.line, path: self.path.clone(), table })
    }

    /// The keys and values of a table whose keys are the user's own.
    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Field<'a>)>, ConfigError> {
        let section = self.section()?;
        let field = |key: &'a String| Some((key.as_str(), section.field(key)?));
        Ok(section.table.keys().filter_map(field).collect())
    }
}
