//! The entries of a handler queue as they are written, in `[process]` and in `[actions.A]`. Whether
//! such handlers exist and fit together, the chain itself checks.

use std::collections::BTreeMap;

use ichido::handlers::{Entry, Placement};

use super::document::Node;
use super::error::ConfigError;
use super::field::Field;
use super::names;

const KEYS: [&str; 4] = ["name", "before", "after", "options"];

pub(super) fn read(field: &Field) -> Result<Vec<Entry>, ConfigError> {
    field.list(entry)
}

fn entry(field: &Field) -> Result<Entry, ConfigError> {
    match field.node {
        Node::Text { .. } => Ok(Entry { name: name(field)?, place: None, options: BTreeMap::new() }),
        Node::Table(_) => placed(field),
        _ => Err(field.wrong("a handler's name, or a table with `name`")),
    }
}

fn placed(field: &Field) -> Result<Entry, ConfigError> {
    let section = field.section()?.allow(&KEYS)?;
    let before = section.optional("before", name)?.map(Placement::Before);
    let after = section.optional("after", name)?.map(Placement::After);
    if before.is_some() && after.is_some() {
        return Err(section.invalid("after", "write either `before` or `after`, not both"));
    }
    Ok(Entry {
        name: section.required("name", name)?,
        place: before.or(after),
        options: section.or("options", BTreeMap::new(), options)?,
    })
}

/// Handlers have names of several words, such as `process stop`.
fn name(field: &Field) -> Result<String, ConfigError> {
    field.parsed(|text| text.split(' ').try_for_each(names::check_name).map(|()| text.to_owned()))
}

fn options(field: &Field) -> Result<BTreeMap<String, String>, ConfigError> {
    let entries = field.entries()?.into_iter();
    entries.map(|(key, field)| Ok((key.to_owned(), field.scalar()?))).collect()
}
