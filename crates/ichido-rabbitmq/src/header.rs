//! The headers that ichido writes and reads. Other senders write the id as they can: every kind of integer, a string, bytes.
//! What cannot be read is told as such, so that it is dead-lettered and never lost.

use ichido::message::ATTEMPTS;
use lapin::types::{AMQPValue, FieldTable};

/// The mutex id of a message.
pub const ID: &str = "x-message-mutex";

/// The database from which a message was sent.
pub const ORIGIN: &str = "x-ichido-origin";

/// The queue that the mutex stands for.
pub const QUEUE: &str = "x-ichido-queue";

/// Why a message was dead-lettered.
pub const REASON: &str = "x-ichido-reason";

/// The row of a message that has failed for good.
pub const ROW: &str = "x-ichido-row";

/// It was handed out before it went to the busy queue, to somebody who did not settle it: the broker forgets that on the way.
pub(crate) const REDELIVERED: &str = "x-ichido-redelivered";

/// What earlier libraries called the mutex id.
const LEGACY: &str = "x-mutex-id";

/// Longer ids do not fit into `ichido_mutex`.
const LONGEST: usize = ichido::broker::LONGEST_ID;

/// The mutex id in a message's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// This one.
    Of(String),
    /// There is none.
    Missing,
    /// There is something that is no id; the text says what.
    Unreadable(String),
}

impl Id {
    pub(crate) fn of(headers: Option<&FieldTable>) -> Self {
        let value = headers.and_then(|headers| find(headers, ID).or_else(|| find(headers, LEGACY)));
        match value.map(text) {
            None => Id::Missing,
            Some(Ok(id)) if id.is_empty() => Id::Unreadable("it is empty".to_owned()),
            Some(Ok(id)) if id.len() > LONGEST => Id::Unreadable(format!("it is longer than {LONGEST} bytes")),
            Some(Ok(id)) if id.contains('\0') => Id::Unreadable("it contains NUL".to_owned()),
            Some(Ok(id)) => Id::Of(id),
            Some(Err(why)) => Id::Unreadable(why),
        }
    }
}

/// Has the broker written it, about queues that the message was in?
pub(crate) fn is_history(name: &str) -> bool {
    const HISTORY: [&str; 5] = ["x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count"];
    HISTORY.iter().any(|start| name.starts_with(start))
}

/// What the sender has written beside the payload, as far as it is text: not ichido's own headers, but for the number of attempts, nor
/// the broker's.
pub(crate) fn of_the_sender(headers: &FieldTable) -> ichido::Headers {
    let ours = |name: &str| (name == ID || name == LEGACY || name.starts_with("x-ichido-")) && name != ATTEMPTS;
    let own = headers.into_iter().filter(|(name, _)| !ours(name.as_str()) && !is_history(name.as_str()));
    own.filter_map(|(name, value)| Some((name.to_string(), text(value).ok()?))).collect()
}

pub(crate) fn find<'a>(headers: &'a FieldTable, name: &str) -> Option<&'a AMQPValue> {
    headers.inner().get(name)
}

/// A value as text, or why it is none.
pub(crate) fn text(value: &AMQPValue) -> Result<String, String> {
    if let Some(number) = integer(value) {
        return Ok(number.to_string());
    }
    let bytes = match value {
        AMQPValue::ShortString(text) => text.as_str().as_bytes(),
        AMQPValue::LongString(text) => text.as_bytes(),
        AMQPValue::ByteArray(bytes) => bytes.as_slice(),
        other => return Err(format!("it is a {:?}", other.get_type())),
    };
    String::from_utf8(bytes.to_vec()).map_err(|_| "it is not UTF-8".to_owned())
}

pub(crate) fn integer(value: &AMQPValue) -> Option<i64> {
    match *value {
        AMQPValue::ShortShortInt(n) => Some(n.into()),
        AMQPValue::ShortShortUInt(n) => Some(n.into()),
        AMQPValue::ShortInt(n) => Some(n.into()),
        AMQPValue::ShortUInt(n) => Some(n.into()),
        AMQPValue::LongInt(n) => Some(n.into()),
        AMQPValue::LongUInt(n) => Some(n.into()),
        AMQPValue::LongLongInt(n) => Some(n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str, value: AMQPValue) -> Id {
        let mut headers = FieldTable::default();
        headers.insert(name.into(), value);
        Id::of(Some(&headers))
    }

    #[test]
    fn every_integer_a_string_and_bytes_are_ids() {
        let numbers = [
            AMQPValue::ShortShortInt(7),
            AMQPValue::ShortShortUInt(7),
            AMQPValue::ShortInt(7),
            AMQPValue::ShortUInt(7),
            AMQPValue::LongInt(7),
            AMQPValue::LongUInt(7),
            AMQPValue::LongLongInt(7),
            AMQPValue::LongString("7".into()),
            AMQPValue::ShortString("7".into()),
            AMQPValue::ByteArray(b"7"[..].into()),
        ];
        for value in numbers {
            assert_eq!(id(ID, value.clone()), Id::Of("7".to_owned()), "{value:?}");
            assert_eq!(id(LEGACY, value.clone()), Id::Of("7".to_owned()), "{value:?}");
        }
        assert_eq!(id(ID, AMQPValue::LongLongInt(i64::MIN)), Id::Of(i64::MIN.to_string()));
    }

    #[test]
    fn the_senders_headers_are_those_that_are_text_and_nobody_elses() {
        let mut headers = FieldTable::default();
        for name in [ID, LEGACY, ORIGIN, QUEUE, REASON, REDELIVERED, "x-death", "x-delivery-count", "colour", "x-mine"]
        {
            headers.insert(name.into(), AMQPValue::LongString("blue".into()));
        }
        headers.insert("size".into(), AMQPValue::LongInt(7));
        headers.insert(ATTEMPTS.into(), AMQPValue::LongInt(2));
        headers.insert("nested".into(), AMQPValue::FieldTable(FieldTable::default()));
        let own = of_the_sender(&headers);
        let own: Vec<_> = own.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(own, [("colour", "blue"), ("size", "7"), (ATTEMPTS, "2"), ("x-mine", "blue")]);
    }

    #[test]
    fn the_present_name_comes_before_the_legacy_one() {
        let mut headers = FieldTable::default();
        headers.insert(LEGACY.into(), AMQPValue::LongInt(1));
        headers.insert(ID.into(), AMQPValue::LongInt(2));
        assert_eq!(Id::of(Some(&headers)), Id::Of("2".to_owned()));
    }

    #[test]
    fn everything_else_is_unreadable_and_nothing_is_missing() {
        let bad = [
            AMQPValue::Boolean(true),
            AMQPValue::Double(1.0),
            AMQPValue::Timestamp(1),
            AMQPValue::Void,
            AMQPValue::FieldTable(FieldTable::default()),
            AMQPValue::LongString("".into()),
            AMQPValue::LongString("a\0b".into()),
            AMQPValue::LongString("x".repeat(LONGEST + 1).into()),
            AMQPValue::LongString(vec![0xff, 0xfe].into()),
            AMQPValue::ByteArray(vec![0xff].into()),
        ];
        for value in bad {
            let id = id(ID, value.clone());
            assert!(matches!(&id, Id::Unreadable(why) if !why.is_empty()), "{value:?}: {id:?}");
        }
        assert_eq!(Id::of(None), Id::Missing);
        assert_eq!(id("other", AMQPValue::LongInt(1)), Id::Missing);
    }
}
