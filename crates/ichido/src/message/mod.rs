//! What is sent and delivered. A [`Message`] is the same thing for every kind of queue: a key that names it inside its queue, a
//! payload in JSON (for a business table: its columns), and headers. Stores make them, actions decode them; beside it live the queues,
//! deliveries and the client that sends. Knows nothing of who runs them.

pub(crate) mod alone;
pub(crate) mod cancel;
pub(crate) mod client;
pub(crate) mod delivery;
pub(crate) mod headers;
pub(crate) mod kind;
pub(crate) mod new_message;
pub(crate) mod one_message;
pub(crate) mod outcome;
pub(crate) mod queue;
pub(crate) mod queue_of;
pub(crate) mod whole;

pub use self::{
    alone::UnknownCommit,
    cancel::{CANCEL_WAIT, cancel_within},
    client::{Anything, Client, Only, Sender},
    delivery::{Claim, Delivery, Mark},
    headers::{ATTEMPTS, GROUP, Headers, MOST_ATTEMPTS, attempts_in, is_own_header},
    new_message::{Due, NewMessage, wait_ms},
    one_message::OneMessage,
    outcome::Outcome,
    queue::{ClaimBy, GuardBy, Guarded, OnBusy, OnDone, Order, PAYLOAD_LIMIT, Place, Queue, Status, Table},
    queue_of::{Destination, KindOf, QueueOf, Tag},
    whole::Whole,
};

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use serde::de::DeserializeOwned;

use crate::{Error, error::Result};

/// One unit of work, as it was sent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message {
    /// The queue it waits in.
    pub queue: Arc<str>,
    /// Its name inside the queue.
    pub key: Key,
    /// JSON, as it arrived: untrusted until decoded.
    pub payload: Arc<[u8]>,
    /// Texts beside the payload.
    pub headers: Headers,
    /// How many attempts it gets, if its sender has said so; else its action's `retry` says it.
    pub attempts: Option<u32>,
    /// What fields of the payload are, where their JSON alone does not say it; the built-in action `sql` binds them by it.
    pub kinds: FieldKinds,
}

/// What fields are, by name.
pub type FieldKinds = Arc<BTreeMap<String, FieldKind>>;

/// What a field of a row is, where its JSON alone does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Bytes, written as base64.
    Bytes,
    /// A binary fraction; those that JSON has no number for are written as `"Infinity"` and `"-Infinity"`.
    Real,
    /// Any JSON.
    Json,
    /// A timestamp, written with a `Z` that its column does not accept.
    Moment,
}

impl Message {
    /// A message of a queue.
    pub fn new(queue: impl Into<Arc<str>>, key: Key, payload: impl Into<Arc<[u8]>>) -> Self {
        let (headers, kinds) = (Headers::new(), FieldKinds::default());
        Message { queue: queue.into(), key, payload: payload.into(), headers, attempts: None, kinds }
    }

    /// The same name in logs, in `ichido failed` and as idempotency key: `orders/42`.
    #[must_use]
    pub fn id(&self) -> MessageId {
        MessageId { queue: self.queue.clone(), key: self.key.clone() }
    }

    /// Reads the payload as the action wants it.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when the payload is something else.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.payload).map_err(|why| Error::Undecodable(why.to_string()))
    }
}

/// The values of a message's key columns, as text.
///
/// Written with `/` between the columns; `/`, `%` and control characters inside a value are percent-encoded, so that
/// the written form can be read back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<[String]>);

impl Key {
    /// A key from the text of its columns.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = T>) -> Self {
        Key(columns.into_iter().map(Into::into).collect())
    }

    /// The text of each column.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, column) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            for character in column.chars() {
                match character {
                    '/' | '%' | '\0'..='\x1f' | '\x7f' => write!(f, "%{:02X}", u32::from(character))?,
                    _ => write!(f, "{character}")?,
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.split('/')
            .map(decoded)
            .collect::<Option<_>>()
            .map(Key)
            .ok_or_else(|| Error::Setup(format!("`{text}` is not a message key")))
    }
}

fn decoded(column: &str) -> Option<String> {
    let mut parts = column.split('%');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        text.push(char::from(u8::from_str_radix(code, 16).ok()?));
        text.push_str(rest);
    }
    Some(text)
}

/// A message's name in the whole database: its queue and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId {
    /// The queue.
    pub queue: Arc<str>,
    /// The key inside the queue.
    pub key: Key,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.queue, self.key)
    }
}

impl FromStr for MessageId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('/') {
            Some((queue, key)) if !queue.is_empty() && !key.is_empty() => {
                Ok(MessageId { queue: queue.into(), key: key.parse()? })
            }
            _ => Err(Error::Setup(format!("`{text}` is not a message id; write queue/key, like orders/42"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_as_it_was_written() {
        for columns in [vec!["42"], vec!["a/b", "c%d", "\u{1}é日本"], vec!["", ""], vec!["%2F"]] {
            let id = MessageId { queue: "orders".into(), key: Key::new(columns) };
            assert_eq!(id.to_string().parse::<MessageId>().unwrap(), id);
        }
    }

    #[test]
    fn an_id_without_a_key_or_with_a_torn_escape_is_refused() {
        for text in ["orders", "orders/", "/42", "orders/%4", "orders/%zz", "orders/%é"] {
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
    }
}
