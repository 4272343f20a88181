//! The attributes that ichido writes and reads. SQS allows ten for each message, so the sender's headers travel together in one of them, as
//! JSON. Other senders write what they like; what is text among it is a header too.

use std::collections::HashMap;

use aws_sdk_sqs::types::MessageAttributeValue;
use ichido::{Headers, broker::LONGEST_ID, message::ATTEMPTS, message::GROUP};

/// The mutex id of a message.
pub const ID: &str = "x-message-mutex";

/// The database from which a message was sent.
pub const ORIGIN: &str = "x-ichido-origin";

/// The queue that the mutex stands for.
pub const QUEUE: &str = "x-ichido-queue";

/// The sender's headers, as a JSON object of texts.
pub const HEADERS: &str = "x-ichido-headers";

/// How the body is written, if not as it is: `base64`, or `empty`.
pub const ENCODING: &str = "x-ichido-encoding";

/// Why a message was dead-lettered.
pub const REASON: &str = "x-ichido-reason";

/// The row of a message that has failed for good.
pub const ROW: &str = "x-ichido-row";

/// The id that a foreign sender gives its message, as the property of AMQP: SQS's own is another one each time that the sender tries again.
pub const MESSAGE_ID: &str = "message_id";

/// The name that a foreign sender gives itself, as the property of AMQP.
pub const APP_ID: &str = "app_id";

/// SQS's limit.
pub(crate) const MOST_ATTRIBUTES: usize = 10;

pub(crate) type Attributes = HashMap<String, MessageAttributeValue>;

/// A text as an attribute.
pub(crate) fn text(value: &str) -> MessageAttributeValue {
    let built = MessageAttributeValue::builder().data_type("String").string_value(value).build();
    built.expect("an attribute with its type")
}

/// An attribute as text: a string or a number.
pub(crate) fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a str> {
    attributes.get(name)?.string_value()
}

/// The mutex id, or why it cannot be read.
pub(crate) fn id(attributes: &Attributes) -> Result<String, String> {
    let Some(value) = attributes.get(ID) else { return Err("it has no mutex id".to_owned()) };
    let unreadable = |why: &str| Err(format!("its mutex id is unreadable: {why}"));
    match value.string_value() {
        None => unreadable("it is not text"),
        Some("") => unreadable("it is empty"),
        Some(id) if id.len() > LONGEST_ID => unreadable(&format!("it is longer than {LONGEST_ID} bytes")),
        Some(id) => Ok(id.to_owned()),
    }
}

/// Can SQS carry it as it is? It takes the characters that XML 1.0 knows, and at least one of them.
pub(crate) fn is_plain(text: &str) -> bool {
    let known = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    !text.is_empty() && text.chars().all(known)
}

/// Headers in one attribute, with the characters escaped that SQS does not take.
pub(crate) fn packed(headers: &Headers) -> String {
    let json = serde_json::to_string(headers).expect("texts are JSON");
    json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
}

/// What the sender has written beside the payload, as far as it is text: not ichido's own attributes, but for the number of attempts and
/// the group.
pub(crate) fn of_the_sender(attributes: &Attributes) -> Headers {
    let packed = find(attributes, HEADERS).and_then(|json| serde_json::from_str::<Headers>(json).ok());
    let beside = attributes.iter().filter(|(name, _)| *name != HEADERS);
    let beside = beside.filter_map(|(name, value)| Some((name.clone(), value.string_value()?.to_owned())));
    let ours = |name: &str| (name == ID || name.starts_with("x-ichido-")) && name != ATTEMPTS && name != GROUP;
    beside.chain(packed.unwrap_or_default()).filter(|(name, _)| !ours(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes<const N: usize>(all: [(&str, &str); N]) -> Attributes {
        all.map(|(name, value)| (name.to_owned(), text(value))).into()
    }

    #[test]
    fn headers_survive_in_one_attribute() {
        let odd = "a\u{0}b\u{fffe}\u{ffff}\u{7f}\"é\r\n";
        let headers = Headers::from([("odd".to_owned(), odd.to_owned()), (ATTEMPTS.to_owned(), "2".to_owned())]);
        let packed = packed(&headers);
        assert!(is_plain(&packed), "{packed}");
        assert_eq!(of_the_sender(&attributes([(HEADERS, &packed), (ID, "1"), (REASON, "why")])), headers);
    }

    #[test]
    fn attributes_of_other_senders_are_headers() {
        let found = of_the_sender(&attributes([("colour", "blue"), (ORIGIN, "here"), (ROW, "a/b/c")]));
        assert_eq!(found, Headers::from([("colour".to_owned(), "blue".to_owned())]));
    }

    #[test]
    fn an_id_is_text_of_the_right_length() {
        assert_eq!(id(&attributes([(ID, "7")])), Ok("7".to_owned()));
        assert!(id(&attributes([])).unwrap_err().contains("no mutex id"));
        assert!(id(&attributes([(ID, &"x".repeat(256))])).unwrap_err().contains("longer"));
    }

    #[test]
    fn text_is_plain_if_sqs_takes_it() {
        for plain in ["{}", "\r\n\t", "é\u{10ffff}"] {
            assert!(is_plain(plain), "{plain:?}");
        }
        for odd in ["", "\u{0}", "a\u{b}", "\u{fffe}"] {
            assert!(!is_plain(odd), "{odd:?}");
        }
    }
}
