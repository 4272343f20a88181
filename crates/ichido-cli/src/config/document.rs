//! The file as a tree of plain values that know their lines, with the variables replaced. This is
//! the only file that talks to the TOML parser; the reader walks the tree.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::spelling;
use super::variables::{self, Environment};

/// A table of the document, by key.
pub(super) type Table = BTreeMap<String, Entry>;

/// A value and the line where it, or its key, stands.
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) node: Node,
}

/// A value of the document.
pub(super) enum Node {
    Text { text: String, from_variable: bool },
    Integer(i64),
    Float(f64),
    Flag(bool),
    Date,
    List(Vec<Entry>),
    Table(Table),
}

/// Parses the text of a file.
pub(super) fn parse(text: &str, file: &str, environment: Environment) -> Result<Table, ConfigError> {
    let converter = Converter { file, lines: Lines::of(text), environment };
    let (parsed, errors) = DeTable::parse_recoverable(text);
    // The parser reports a bad string after the lines that it has garbled.
    let first = errors.iter().min_by_key(|error| error.span().unwrap_or_default().start);
    match first {
        Some(error) => Err(converter.syntax(text, error)),
        None => converter.table(parsed.get_ref(), ""),
    }
}

struct Converter<'a> {
    file: &'a str,
    lines: Lines,
    environment: Environment<'a>,
}

impl Converter<'_> {
    fn table(&self, table: &DeTable, at: &str) -> Result<Table, ConfigError> {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue>)| {
            let name: &str = AsRef::<str>::as_ref(key.get_ref());
            let line = self.lines.number(key.span().start);
            let node = self.node(value.get_ref(), &spelling::key(at, name), line)?;
            Ok((name.to_owned(), Entry { line, node }))
        };
        table.iter().map(entry).collect()
    }

    fn node(&self, value: &DeValue, at: &str, line: usize) -> Result<Node, ConfigError> {
        let invalid = |text: String| ConfigError::Invalid {
            file: self.file.to_owned(),
            line: Some(line),
            key: at.to_owned(),
            text,
        };
        Ok(match value {
            DeValue::String(text) => self.text(text).map_err(invalid)?,
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(Node::Integer)
                .map_err(|_| invalid(format!("the number {number} is too large")))?,
            DeValue::Float(number) => Node::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Node::Flag(*flag),
            DeValue::Datetime(_) => Node::Date,
            DeValue::Array(values) => Node::List(self.list(values.iter(), at)?),
            DeValue::Table(table) => Node::Table(self.table(table, at)?),
        })
    }

    fn list<'v, 'i: 'v>(
        &self,
        values: impl Iterator<Item = &'v Spanned<DeValue<'i>>>,
        at: &str,
    ) -> Result<Vec<Entry>, ConfigError> {
        let entry = |(index, value): (usize, &Spanned<DeValue>)| {
            let line = self.lines.number(value.span().start);
            let node = self.node(value.get_ref(), &spelling::index(at, index), line)?;
            Ok(Entry { line, node })
        };
        values.enumerate().map(entry).collect()
    }

    fn text(&self, text: &str) -> Result<Node, String> {
        let replaced = variables::replace(text, self.environment)?;
        let from_variable = replaced.is_some();
        Ok(Node::Text { text: replaced.unwrap_or_else(|| text.to_owned()), from_variable })
    }

    fn syntax(&self, text: &str, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or_default();
        let what = match (error.message(), text.get(span.clone())) {
            ("duplicate key", Some(key)) => format!("duplicate key `{key}`"),
            (message, _) => format!("not valid TOML: {message}"),
        };
        let line = self.lines.number(span.start);
        ConfigError::Syntax { file: self.file.to_owned(), line, text: what }
    }
}

/// Turns byte offsets into line numbers.
struct Lines {
    ends: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        Self { ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    fn number(&self, offset: usize) -> usize {
        self.ends.partition_point(|end| *end < offset) + 1
    }
}
