//! A message as SQS carries it: what the publisher sends. The seam makes one of each [`ichido::broker::Outgoing`], and the source of a
//! delivery that it dead-letters.

use std::fmt::Write as _;

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ichido::{
    broker::{Outgoing, payload_hash},
    message::GROUP,
};

use crate::{
    Delivery, Error, Result,
    header::{self, Attributes},
};

/// The longest group or deduplication id.
const LONGEST_NAME: usize = 128;

/// What stands for a body without a single character, which SQS does not take.
const EMPTY: &str = "-";

/// A message on its way to a queue.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The queue, by its name or its URL.
    pub(crate) queue: String,
    pub(crate) body: String,
    pub(crate) attributes: Attributes,
    /// Group and deduplication id, if the queue is one that keeps order.
    pub(crate) place: Option<(String, String)>,
}

impl Envelope {
    /// What ichido sends: with its mutex id, the database that it comes from and the queue that the mutex stands for. In a queue that keeps
    /// order it belongs to its group, and to one of its own if it has none.
    ///
    /// # Errors
    /// If it is for an exchange, which SQS does not have.
    pub fn of(message: &Outgoing) -> Result<Self> {
        if !message.exchange.is_empty() {
            let exchange = &message.exchange;
            return Err(Error::Setup(format!("SQS has no exchanges, but the message is for {exchange:?}")));
        }
        let mut attributes = Attributes::new();
        let body = written(&message.payload, &mut attributes);
        if !message.headers.is_empty() {
            attributes.insert(header::HEADERS.into(), header::text(&header::packed(&message.headers)));
        }
        attributes.insert(header::ID.into(), header::text(&message.id));
        attributes.insert(header::ORIGIN.into(), header::text(&message.origin));
        if let Some(queue) = &message.queue {
            attributes.insert(header::QUEUE.into(), header::text(queue));
        }
        let place = is_fifo(&message.routing_key).then(|| {
            let group = message.headers.get(GROUP).unwrap_or(&message.id);
            // Within five minutes SQS drops what has the same one: a retry is another publication, and must not be dropped.
            (name(group), name(&format!("{}-{}", message.id, message.edition)))
        });
        Ok(Self { queue: message.routing_key.clone(), body, attributes, place })
    }

    /// The same message as one that was received, for the dead-letter queue, with these attributes in addition. The sender's own are packed
    /// if they would be too many together.
    pub(crate) fn dead_letter(delivery: &Delivery, queue: &str, beside: &[(&str, &str)]) -> Self {
        let mut attributes = delivery.attributes.clone();
        for old in [header::REASON, header::ROW] {
            attributes.remove(old);
        }
        let group = delivery.group.as_ref().filter(|_| header::find(&attributes, header::HEADERS).is_none());
        if group.is_some() || attributes.len() + beside.len() > header::MOST_ATTRIBUTES {
            pack(&mut attributes, delivery);
        }
        attributes.extend(beside.iter().map(|(name, value)| ((*name).to_owned(), header::text(value))));
        // Each in a group of its own: whoever looks at one of them must not keep the others out of sight. Another copy is dropped, and another
        // body under the same id is not.
        let place = is_fifo(queue).then(|| {
            let own = header::find(&attributes, header::ROW).or(header::find(&attributes, header::ID));
            let own = name(&format!("{}-{}", own.unwrap_or(&delivery.message_id), hash(&delivery.body)));
            (own.clone(), own)
        });
        Self { queue: queue.to_owned(), body: delivery.body.clone(), attributes, place }
    }

    /// As SQS counts it: the body, and each attribute's name, type and value.
    pub(crate) fn size(&self) -> usize {
        let value = |value: &aws_sdk_sqs::types::MessageAttributeValue| {
            value.data_type().len()
                + value.string_value().map_or(0, str::len)
                + value.binary_value().map_or(0, |bytes| bytes.as_ref().len())
        };
        self.body.len() + self.attributes.iter().map(|(name, of)| name.len() + value(of)).sum::<usize>()
    }

    pub(crate) fn entry(&self, id: usize) -> SendMessageBatchRequestEntry {
        let entry = SendMessageBatchRequestEntry::builder()
            .id(id.to_string())
            .message_body(&self.body)
            .set_message_attributes(Some(self.attributes.clone()));
        let entry = match &self.place {
            Some((group, once)) => entry.message_group_id(group).message_deduplication_id(once),
            None => entry,
        };
        entry.build().expect("an entry with its id and body")
    }
}

/// Does a queue with this name, or at this URL, keep the order of groups?
pub(crate) fn is_fifo(queue: &str) -> bool {
    queue.strip_suffix(".fifo").is_some()
}

/// Puts everything that is text, and not ichido's own, into one attribute.
fn pack(attributes: &mut Attributes, delivery: &Delivery) {
    let headers = delivery.headers();
    attributes.retain(|name, value| value.string_value().is_none() || !headers.contains_key(name));
    attributes.insert(header::HEADERS.into(), header::text(&header::packed(&headers)));
}

/// The body as SQS takes it; an attribute says how to read it, if it is not what was sent.
fn written(payload: &[u8], attributes: &mut Attributes) -> String {
    let (body, encoding) = match std::str::from_utf8(payload) {
        Ok(text) if header::is_plain(text) => return text.to_owned(),
        Ok("") => (EMPTY.to_owned(), "empty"),
        _ => (STANDARD.encode(payload), "base64"),
    };
    attributes.insert(header::ENCODING.into(), header::text(encoding));
    body
}

/// What was sent, from a body as SQS carries it.
pub(crate) fn read(body: &str, encoding: Option<&str>) -> Vec<u8> {
    match encoding {
        Some("empty") => Vec::new(),
        Some("base64") => STANDARD.decode(body).unwrap_or_else(|_| body.as_bytes().to_vec()),
        _ => body.as_bytes().to_vec(),
    }
}

/// A text as a group or a deduplication id: as it is, if SQS takes it, or else as a hash.
fn name(text: &str) -> String {
    if (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return text.to_owned();
    }
    hash(text)
}

fn hash(text: &str) -> String {
    payload_hash(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(queue: &str, payload: &[u8]) -> Outgoing {
        Outgoing {
            id: "1".to_owned(),
            edition: 3,
            origin: "here".into(),
            queue: Some("orders".into()),
            exchange: String::new(),
            routing_key: queue.to_owned(),
            headers: ichido::Headers::new(),
            payload: payload.to_vec(),
        }
    }

    #[test]
    fn every_body_comes_back_as_it_was() {
        for payload in [&b"{}"[..], b"", b"\xff\xfe", b"a\0b", "\u{fffe}".as_bytes(), b"-", b"\r\n"] {
            let envelope = Envelope::of(&outgoing("orders", payload)).expect("a message");
            assert!(header::is_plain(&envelope.body), "{:?}", envelope.body);
            let encoding = header::find(&envelope.attributes, header::ENCODING);
            assert_eq!(read(&envelope.body, encoding), payload);
        }
    }

    #[test]
    fn a_retry_has_another_deduplication_id_and_the_same_group() {
        let mut message = outgoing("orders.fifo", b"{}");
        assert_eq!(Envelope::of(&message).unwrap().place, Some(("1".to_owned(), "1-3".to_owned())));
        message.headers.insert(GROUP.into(), "customer 7".into());
        let (group, once) = Envelope::of(&message).unwrap().place.expect("a group");
        assert_eq!((group.len(), once.as_str()), (64, "1-3"), "a space is not allowed there: a hash");
        assert_eq!(Envelope::of(&outgoing("orders", b"{}")).unwrap().place, None);
    }

    #[test]
    fn copies_are_one_dead_letter_and_other_bodies_are_not() {
        let place = |id: &str, body: &str| {
            let message = aws_sdk_sqs::types::Message::builder().message_id("m").receipt_handle("r").body(body);
            let message = message.message_attributes(header::ID, header::text(id)).build();
            let delivery = Delivery::new(message).expect("a receipt");
            Envelope::dead_letter(&delivery, "dead.fifo", &[(header::REASON, "why")]).place
        };
        assert_eq!(place("1", "{}"), place("1", "{}"));
        assert_ne!(place("1", "{}"), place("1", "[]"));
        assert_ne!(place("1", "{}"), place("2", "{}"));
    }

    #[test]
    fn a_message_for_an_exchange_is_refused() {
        let message = Outgoing { exchange: "shop".to_owned(), ..outgoing("orders", b"{}") };
        assert!(Envelope::of(&message).unwrap_err().to_string().contains("no exchanges"));
    }
}
