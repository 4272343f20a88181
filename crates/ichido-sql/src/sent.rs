//! What stores know about messages that were just sent.

use crate::{Mapping, SqlQueue};
use ichido::{Due, Error, Key, NewMessage, error::Result, store::ProcessId};

/// So often a unique message is tried while others with the same key come and go.
pub const UNIQUE_TRIES: u32 = 20;

/// A message that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its key.
    pub key: Key,
    /// It was sent just now; not if a unique message was there before.
    pub now: bool,
}

impl Sent {
    /// A message that was sent just now.
    #[must_use]
    pub fn new(key: Key) -> Self {
        Sent { key, now: true }
    }

    /// A unique message that was there before.
    #[must_use]
    pub fn before(key: Key) -> Self {
        Sent { key, now: false }
    }
}

/// The messages that were sent just now and are to run later.
pub fn delayed<'a>(sent: &'a [Sent], messages: &'a [NewMessage]) -> impl Iterator<Item = (&'a Key, Due)> {
    let pairs = sent.iter().zip(messages).filter(|(sent, _)| sent.now);
    pairs.filter_map(|(sent, message)| Some((&sent.key, message.due?)))
}

/// What is written for a message that is a row of the user's own.
#[derive(Debug, Default)]
pub struct NewRow<'a> {
    /// The columns, quoted.
    pub names: Vec<String>,
    /// What each gets: a literal, or a parameter.
    pub values: Vec<String>,
    /// The fields that are bound, in their order.
    pub bound: Vec<&'a str>,
}

impl<'a> NewRow<'a> {
    /// The row of a new message with these fields, which is parked if it is delayed. A send is a new, unowned message, whatever its
    /// fields say; columns that it does not name get their defaults. `column` finds the quoted name and the parameter of a field.
    ///
    /// # Errors
    /// The table has no such column, or a value of the configuration cannot be written.
    pub fn new(
        mapping: &Mapping,
        fields: impl IntoIterator<Item = &'a str>,
        delayed: bool,
        literal: impl Fn(&str) -> Result<String>,
        column: impl Fn(&str) -> Result<(String, String)>,
    ) -> Result<Self> {
        let mut row = NewRow::default();
        if delayed {
            row.put(mapping.owner.clone(), format!("'{}'", ProcessId::NOBODY));
        }
        for (column, value) in mapping.fixed() {
            row.put(column.to_owned(), literal(value)?);
        }
        for field in fields {
            let (name, parameter) = column(field)?;
            if !row.names.contains(&name) && name != mapping.owner {
                row.put(name, parameter);
                row.bound.push(field);
            }
        }
        Ok(row)
    }

    fn put(&mut self, name: String, value: String) {
        self.names.push(name);
        self.values.push(value);
    }

    /// The statement that inserts it.
    #[must_use]
    pub fn insert(&self, table: &str) -> String {
        format!("insert into {table} ({}) values ({})", self.names.join(", "), self.values.join(", "))
    }
}

/// What a queue cannot take, before anything is written.
///
/// # Errors
/// [`Error::Refused`] with the reason.
pub(crate) fn refuse_messages(queue: &SqlQueue, messages: &[NewMessage]) -> Result<()> {
    let SqlQueue { queue, payload_limit, mapping, rules, .. } = queue;
    let groups = rules.as_ref().is_some_and(|rules| rules.groups);
    for message in messages {
        super::refuse::refuse_size(queue, *payload_limit, message)?;
        if mapping.status.is_some() {
            super::refuse::refuse_managed_only(queue, mapping.group.as_deref(), message)?;
        } else if !mapping.unique_keys && message.unique.is_some() {
            return Err(Error::Refused(format!(
                "unique keys are for managed queues only; `{queue}` is a broker queue"
            )));
        } else if !mapping.unique_keys && message.group.is_some() && !groups {
            let text = format!("groups are for managed queues and FIFO queues of SQS only; `{queue}` is neither");
            return Err(Error::Refused(text));
        }
    }
    Ok(())
}

/// A failed message cannot be put back into circulation: another one has its unique key.
#[must_use]
pub fn unique_taken(queue: &str, key: &Key) -> Error {
    format!("{queue}/{key} stays failed: a later message has its unique key").into()
}

/// A failed message cannot be put back into circulation: what it says is not in the database.
#[must_use]
pub fn nothing_kept(queue: &str, key: &Key) -> Error {
    let text = "its content is only in its dead letter; `ichido doctor --fix` publishes that again";
    format!("{queue}/{key} stays failed: {text}").into()
}

/// A message cannot be put aside: what it says is not in the database.
#[must_use]
pub fn only_at_broker(queue: &str, key: &Key) -> Error {
    let text = "its content is only at the broker, sent by another program; it cannot be rescheduled";
    format!("{queue}/{key} is left alone: {text}").into()
}

/// Messages with the same unique key were sent and done again and again meanwhile.
#[must_use]
pub fn unique_in_motion(unique: &str) -> Error {
    Error::Refused(format!("too many concurrent sends with the unique key `{unique}`; try again"))
}
