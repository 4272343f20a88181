//! What can be written and is not built yet. Runs last, on a configuration that is otherwise right;
//! a later version that builds an item deletes its line here.

use super::document::Node;
use super::error::ConfigError;
use super::field::Field;
use super::section::Section;

/// The keys that are not built; `*` is any name, and what follows a `=` is the only value that is not.
pub(super) const KEYS: [&str; 3] = ["lanes.*.auto", "lanes.*.levels.*.weight_range", "lanes.*.levels.*.reserve_range"];

/// Refuses the first key that is not built.
pub(super) fn check_keys(root: &Section) -> Result<(), ConfigError> {
    for path in KEYS {
        let parts: Vec<&str> = path.split('.').collect();
        if let Some(field) = find(root, &parts) {
            return Err(ConfigError::NotBuilt { file: field.file.to_owned(), line: Some(field.line), key: field.path });
        }
    }
    Ok(())
}

fn find<'a>(section: &Section<'a>, parts: &[&str]) -> Option<Field<'a>> {
    let (first, rest) = parts.split_first()?;
    let (first, value) = first.split_once('=').map_or((*first, None), |(key, value)| (key, Some(value)));
    let keys = section.table.keys().filter(|key| first == "*" || *key == first);
    let mut fields = keys.filter_map(|key| section.field(key));
    if rest.is_empty() {
        // What is switched off is not asked for.
        let asked = |field: &Field| match value {
            Some(value) => field.text().is_ok_and(|text| text == value),
            None => !matches!(field.flag(), Ok(false)),
        };
        return fields.find(asked);
    }
    fields.find_map(|field| match rest {
        ["*", rest @ ..] if matches!(field.node, Node::List(_)) => {
            let elements = field.list(|element| Ok(element.section().ok().and_then(|it| find(&it, rest)))).ok()?;
            elements.into_iter().flatten().next()
        }
        _ => find(&field.section().ok()?, rest),
    })
}
