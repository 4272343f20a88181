//! What can be written and is not built yet. Runs last, on a configuration that is otherwise right;
//! a later version that builds an item deletes its line here.

use super::document::Node;
use super::error::ConfigError;
use super::field::Field;
use super::section::Section;

/// The keys that are not built; `*` is any name.
const KEYS: &[(&str, When)] = &[
    ("log.mask", When::Filled),
    ("retention.inbox", When::Written),
    ("queues.*.rabbitmq", When::Written),
    ("queues.*.sqs", When::Written),
    ("lanes.*", When::Written),
    ("actions.*.http", When::Written),
    ("actions.*.exec", When::Written),
];

/// In which case a key is refused.
#[derive(Clone, Copy)]
enum When {
    /// Whatever its value is.
    Written,
    /// When its list has an element.
    Filled,
}

/// Refuses the first key that is not built.
pub(super) fn check_keys(root: &Section) -> Result<(), ConfigError> {
    for (path, when) in KEYS.iter().copied() {
        let parts: Vec<&str> = path.split('.').collect();
        if let Some(field) = find(root, &parts, when) {
            return Err(ConfigError::NotBuilt { file: field.file.to_owned(), line: Some(field.line), key: field.path });
        }
    }
    Ok(())
}

fn find<'a>(section: &Section<'a>, parts: &[&str], when: When) -> Option<Field<'a>> {
    let (first, rest) = parts.split_first()?;
    let keys = section.table.keys().filter(|key| *first == "*" || key == first);
    let mut fields = keys.filter_map(|key| section.field(key));
    if rest.is_empty() {
        return fields.find(|field| when.refuses(field));
    }
    fields.find_map(|field| find(&field.section().ok()?, rest, when))
}

impl When {
    fn refuses(self, field: &Field) -> bool {
        match self {
            Self::Written => true,
            Self::Filled => matches!(field.node, Node::List(list) if !list.is_empty()),
        }
    }
}
