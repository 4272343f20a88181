//! What can be written and is not built yet. Runs last, on a configuration that is otherwise right;
//! a later version that builds an item deletes its line here.

use super::document::Node;
use super::error::ConfigError;
use super::field::Field;
use super::section::Section;

/// The keys that are not built; `*` is any name.
const KEYS: &[(&str, When)] = &[
    ("process.check", When::Written),
    ("process.check_every", When::Written),
    ("process.single", When::True),
    ("process.exempt", When::Filled),
    ("process.exit_duplicate", When::Written),
    ("log.mask", When::Filled),
    ("retention.*", When::Written),
    ("queues.*.rabbitmq", When::Written),
    ("queues.*.sqs", When::Written),
    ("lanes.*", When::Written),
    ("actions.*.http", When::Written),
    ("actions.*.exec", When::Written),
    ("actions.*.timeout", When::Written),
    ("actions.*.isolation", When::OtherThan("read committed")),
    ("actions.*.commit_interval", When::OtherThan("1")),
    ("actions.*.commit_on", When::Filled),
];

/// In which case a key is refused.
#[derive(Clone, Copy)]
enum When {
    /// Whatever its value is.
    Written,
    /// When it switches something on.
    True,
    /// When its list has an element.
    Filled,
    /// When its value is another than this one.
    OtherThan(&'static str),
}

/// Refuses the first key that is not built.
pub(super) fn check_keys(root: &Section) -> Result<(), ConfigError> {
    for (path, when) in KEYS.iter().copied() {
        let parts: Vec<&str> = path.split('.').collect();
        if let Some(field) = find(root, &parts, when) {
            return Err(ConfigError::NotBuilt {
                file: field.file.to_owned(),
                line: Some(field.line),
                value: when.shown(&field),
                key: field.path,
            });
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
            Self::True => field.flag().unwrap_or(false),
            Self::Filled => matches!(field.node, Node::List(list) if !list.is_empty()),
            Self::OtherThan(built) => field.found().trim_matches('"') != built,
        }
    }

    fn shown(self, field: &Field) -> Option<String> {
        match self {
            Self::Written | Self::Filled => None,
            Self::True | Self::OtherThan(_) => Some(field.found()),
        }
    }
}
