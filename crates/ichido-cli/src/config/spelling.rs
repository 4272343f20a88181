//! Spells key paths such as `queues.orders.status.column` or `lanes.mail.levels[0]`, and texts that
//! were found, for the messages of the other files.

pub(super) use ichido::by_hand::quoted;

/// The path of `key` in the table at `path`.
pub(super) fn key(path: &str, key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let bare = !key.is_empty() && key.chars().all(is_bare);
    let shown = if bare { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { shown } else { format!("{path}.{shown}") }
}

/// The path of an element of the list at `path`.
pub(super) fn index(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}
