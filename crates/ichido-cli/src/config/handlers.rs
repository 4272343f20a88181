//! The entries of a handler queue as they are written, in `[process]` and in `[actions.A]`. Whether
//! such handlers exist and fit together, the chain itself checks.

use std::collections::BTreeMap;

use super::document::Node;
use super::error::ConfigError;
use super::field::Field;
use super::names;
use super::scalar::Scalar;

const KEYS: [&str; 4] = ["name", "before", "after", "options"];

/// One handler of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerEntry {
    /// The handler's name.
    pub name: String,
    /// Where it is put, when not in the order of the list.
    pub place: Option<Placement>,
    /// What the handler is told.
    pub options: BTreeMap<String, Scalar>,
}

/// Beside which other handler one is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Outside of the named handler.
    Before(String),
    /// Inside of the named handler.
    After(String),
}

pub(super) fn read(field: &Field) -> Result<Vec<HandlerEntry>, ConfigError> {
    field.list(entry)
}

fn entry(field: &Field) -> Result<HandlerEntry, ConfigError> {
    match field.node {
        Node::Text { .. } => Ok(HandlerEntry { name: name(field)?, place: None, options: BTreeMap::new() }),
        Node::Table(_) => placed(field),
        _ => Err(field.wrong("a handler's name, or a table with `name`")),
    }
}

fn placed(field: &Field) -> Result<HandlerEntry, ConfigError> {
    let section = field.section()?.allow(&KEYS)?;
    let before = section.optional("before", name)?.map(Placement::Before);
    let after = section.optional("after", name)?.map(Placement::After);
    if before.is_some() && after.is_some() {
        return Err(section.invalid("after", "write either `before` or `after`, not both"));
    }
    Ok(HandlerEntry {
        name: section.required("name", name)?,
        place: before.or(after),
        options: section.or("options", BTreeMap::new(), options)?,
    })
}

/// Handlers have names of several words, such as `process stop`.
fn name(field: &Field) -> Result<String, ConfigError> {
    field.parsed(|text| text.split(' ').try_for_each(names::check_name).map(|()| text.to_owned()))
}

fn options(field: &Field) -> Result<BTreeMap<String, Scalar>, ConfigError> {
    let entries = field.entries()?.into_iter();
    entries.map(|(key, field)| Ok((key.to_owned(), field.scalar()?))).collect()
}
