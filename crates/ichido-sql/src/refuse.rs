//! What every store refuses, in the same words.

use ichido::{
    Error, Key, NewMessage, Queue, Table,
    adopt::{TableName, nearest_table},
    error::Result,
    handlers::suggestion,
};

/// The same rows must not belong to two queues; each is given by its name and what its rows are.
///
/// # Errors
/// [`Error::Setup`] if they do.
pub fn refuse_overlaps<'a>(queues: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<()> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (name, place) in queues {
        if let Some((other, _)) = seen.iter().find(|(_, known)| *known == place) {
            return Err(Error::Setup(format!(
                "the queues `{other}` and `{name}` share the same rows of the same table"
            )));
        }
        seen.push((name, place));
    }
    Ok(())
}

/// A message must not be larger than its queue admits.
pub(super) fn refuse_size(queue: &str, limit: usize, message: &NewMessage) -> Result<()> {
    let size = message.payload.len();
    if size > limit {
        return Err(Error::Refused(format!("a message of {size} bytes is over the limit of `{queue}`, {limit} bytes")));
    }
    message.refuse_keys()?;
    message.refuse_headers()
}

/// A table of the user's own has its own unique constraints, its group is a column, and it has no place for anything else.
pub(super) fn refuse_managed_only(queue: &str, group_by: Option<&str>, message: &NewMessage) -> Result<()> {
    if !message.headers.is_empty() {
        let text = format!("`{queue}` is a table, which has no place for headers; use a column");
        return Err(Error::Refused(text));
    }
    if message.attempts.is_some() {
        let text = format!(
            "`{queue}` is a table, which has no place for the number of attempts of a message; set `retry` of the action"
        );
        return Err(Error::Refused(text));
    }
    let text = match (&message.unique, &message.group, group_by) {
        (Some(_), _, _) => {
            format!("unique keys are for managed queues only; `{queue}` is a table: use a unique constraint")
        }
        (_, Some(_), Some(column)) => {
            format!("the group of a message for `{queue}` is its column {column}; set it there")
        }
        (_, Some(_), None) => {
            format!("the table queue `{queue}` has no groups; set `group_by` to the column that holds them")
        }
        _ => return Ok(()),
    };
    Err(Error::Refused(text))
}

/// A binary that knows `known` works with ichido's tables of this version, and of the next one if it says so: its oldest
/// binary knows `oldest`. So processes one version apart share a database while a newer one is rolled out.
///
/// # Errors
/// [`Error::Setup`] if the tables are missing, too old or too new.
pub fn refuse_version((version, oldest): (u32, u32), known: u32) -> Result<()> {
    let text = match version {
        0 => "ichido's tables do not exist; run `ichido migrate`".to_owned(),
        version if version < known => {
            format!("ichido's tables have version {version}, this binary needs {known}; run `ichido migrate`")
        }
        version if oldest > known => format!(
            "ichido's tables have version {version}, which needs a binary that knows version {oldest}; this one knows \
             {known}: install a newer ichido"
        ),
        version if version > known + 1 => format!(
            "ichido's tables have version {version}, but this binary knows {known} and works with tables at most one \
             version newer; install a newer ichido"
        ),
        _ => return Ok(()),
    };
    Err(Error::Setup(text))
}

/// There is no queue of this name.
pub fn unknown_queue<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<_> = known.into_iter().collect();
    Error::Setup(format!("no queue `{name}` (known: {})", known.join(", ")))
}

/// There is no table of this name; the nearest one is named, in whatever schema it is.
#[must_use]
pub fn unknown_table(queue: &Queue, table: &Table, known: &[TableName]) -> Error {
    let hint = nearest_table(table.schema.as_deref(), &table.name, known);
    let place = table.schema.as_ref().map(|schema| format!(" in `{schema}`")).unwrap_or_default();
    Error::Setup(format!("queues.{}.table: there is no table `{}`{place}{hint}", queue.name, table.name))
}

/// Something that is not a table has no rows of its own.
#[must_use]
pub fn not_a_table(queue: &Queue, table: &Table, what: &str) -> Error {
    unfit(queue, "table", format!("`{}` is {what}; only a table can be a queue: name the table behind it", table.name))
}

/// The status and the owner are written, which the database does not allow for a column that it computes itself.
///
/// # Errors
/// [`Error::Setup`] if it is `generated`.
pub fn refuse_generated(queue: &Queue, key: &str, column: &str, generated: bool) -> Result<()> {
    if !generated {
        return Ok(());
    }
    let text = format!(
        "the column `{column}` is generated: the database computes it, and ichido could not write it; use an ordinary \
         column, which `ichido adopt` can help to add"
    );
    Err(unfit(queue, key, text))
}

/// A queue's table has no such column; the nearest one is named.
pub fn unknown_column<'a>(queue: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let hint = suggestion(name, known);
    Error::Setup(format!("queues.{queue}: its table has no column `{name}`{hint}"))
}

/// A message for a table queue names a column that its table does not have; the nearest one is named.
pub fn unknown_field<'a>(queue: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let hint = suggestion(name, known);
    Error::Refused(format!("the table of the queue `{queue}` has no column `{name}`{hint}"))
}

/// A key has another number of columns than the queue's table.
///
/// # Errors
/// [`Error::Refused`] if it has.
pub fn refuse_key(queue: &str, key: &Key, columns: usize) -> Result<()> {
    if key.columns().len() == columns {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{queue}/{key} is not a valid message id: a key of `{queue}` has {columns} columns, separated by /"
    )))
}

/// Something about a queue's table cannot work; `key` is the key of the configuration to change.
pub fn unfit(queue: &Queue, key: &str, reason: impl std::fmt::Display) -> Error {
    Error::Setup(format!("queues.{}.{key}: {reason}", queue.name))
}

/// The column that says when a row was sent must be a point in time.
///
/// # Errors
/// [`Error::Setup`] if its type is another.
pub fn refuse_sent_at(queue: &Queue, column: &str, kind: &str) -> Result<()> {
    if ["timestamp", "date"].iter().any(|time| kind.starts_with(time)) {
        return Ok(());
    }
    Err(unfit(queue, "sent_at", format!("the column `{column}` has the type {kind}; it must hold date and time")))
}

/// A message for a table queue must be an object.
#[must_use]
pub fn not_columns(queue: &str) -> Error {
    Error::Refused(format!("a message for the table queue `{queue}` must be a JSON object whose fields are columns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_are_missing_too_old_or_too_new_are_refused() {
        let refusal = |version, oldest, known| match refuse_version((version, oldest), known) {
            Err(Error::Setup(text)) => text,
            other => panic!("expected a refusal, got {other:?}"),
        };
        assert!(refusal(0, 0, 2).contains("do not exist"));
        assert!(refusal(1, 1, 2).contains("have version 1, this binary needs 2; run `ichido migrate`"));
        assert!(refusal(4, 3, 2).contains("needs a binary that knows version 3; this one knows 2"));
        assert!(refusal(4, 2, 2).contains("at most one version newer"));
        refuse_version((2, 1), 2).unwrap();
        refuse_version((3, 2), 2).unwrap();
    }
}
