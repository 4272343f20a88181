//! A message as AMQP carries it: what the publisher sends. The seam makes one of each [`ichido::broker::Outgoing`], and the source of a
//! delivery that it sends elsewhere.

use std::time::Duration;

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};

use crate::{Error, Result, header};

/// Delivery mode 2: on disk before it is confirmed.
const PERSISTENT: u8 = 2;

/// AMQP's limit for names.
const LONGEST_NAME: usize = 255;

/// Headers are in one frame, and one that is too large would cost the connection. RabbitMQ's frames have 128 KiB.
const MOST_HEADERS: usize = 100 * 1024;

/// A message on its way to an exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) payload: Vec<u8>,
}

impl Envelope {
    /// A message for an exchange; for a queue by its name the exchange is empty and the routing key is the name.
    ///
    /// # Errors
    /// If a name is longer than AMQP allows.
    pub fn new(exchange: &str, routing_key: &str, payload: impl Into<Vec<u8>>) -> Result<Self> {
        Ok(Self {
            exchange: name("exchange", exchange)?,
            routing_key: name("routing key", routing_key)?,
            properties: BasicProperties::default().with_delivery_mode(PERSISTENT),
            payload: payload.into(),
        })
    }

    /// What ichido sends: with its mutex id, the database that it comes from and the queue that the mutex stands for, whatever the
    /// sender's own headers say. The id is its message id too.
    ///
    /// # Errors
    /// If a name is longer than AMQP allows, or the headers are more than fit into a frame.
    pub fn of(message: &ichido::broker::Outgoing) -> Result<Self> {
        let mut headers = FieldTable::default();
        for (header, value) in &message.headers {
            headers.insert(name("header", header)?, text(value));
        }
        headers.insert(header::ID.into(), text(&message.id));
        headers.insert(header::ORIGIN.into(), text(&message.origin));
        if let Some(queue) = &message.queue {
            headers.insert(header::QUEUE.into(), text(queue));
        }
        let size: usize = message.headers.iter().map(|(header, value)| header.len() + value.len() + 6).sum();
        if size > MOST_HEADERS {
            return Err(Error::Setup(format!("its headers have {size} bytes; the limit is {MOST_HEADERS}")));
        }
        let mut envelope = Self::new(&message.exchange, &message.routing_key, message.payload.as_slice())?;
        envelope.properties = envelope
            .properties
            .with_message_id(name("message id", &message.id)?)
            .with_content_type("application/json".into())
            .with_headers(headers);
        Ok(envelope)
    }

    /// With one more header.
    ///
    /// # Errors
    /// If its name is longer than AMQP allows.
    pub fn header(mut self, header: &str, value: &str) -> Result<Self> {
        let mut headers: FieldTable = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name("header", header)?, text(value));
        self.properties = self.properties.with_headers(headers);
        Ok(self)
    }

    /// It leaves the queue that it is sent to after this time.
    pub(crate) fn expires_after(mut self, delay: Duration) -> Self {
        self.properties = self.properties.with_expiration(delay.as_millis().to_string().into());
        self
    }

    /// The same message as one that was received, for another queue, and persistent whatever it was.
    pub(crate) fn copy(properties: &BasicProperties, payload: &[u8], exchange: &str, key: &str) -> Result<Self> {
        let properties = kept(properties).with_delivery_mode(PERSISTENT);
        Ok(Self { properties, ..Self::new(exchange, key, payload)? })
    }
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn name(what: &str, text: &str) -> Result<ShortString> {
    ShortString::try_new(text).map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        Error::Setup(format!("the {what} {shown:?}… is longer than {LONGEST_NAME} bytes, AMQP's limit"))
    })
}

/// Not how long it may wait, which was about the queue that it comes from, nor the user, which the broker compares with us.
fn kept(old: &BasicProperties) -> BasicProperties {
    let mut new = BasicProperties::default();
    macro_rules! keep {
        ($($property:ident, $with:ident;)*) => {
            $(if let Some(value) = old.$property() { new = new.$with(value.clone()); })*
        };
    }
    keep! {
        content_type, with_content_type;
        content_encoding, with_content_encoding;
        priority, with_priority;
        correlation_id, with_correlation_id;
        reply_to, with_reply_to;
        message_id, with_message_id;
        timestamp, with_timestamp;
        kind, with_type;
        app_id, with_app_id;
    }
    match old.headers() {
        Some(headers) => new.with_headers(without_history(headers)),
        None => new,
    }
}

/// Without what the broker has written about former queues: it drops a message that it takes to go round in circles. And without
/// what ichido has written on the way there.
fn without_history(headers: &FieldTable) -> FieldTable {
    let mut kept = FieldTable::default();
    for (name, value) in headers {
        if !header::is_history(name.as_str())
            && ![header::REASON, header::ROW, header::REDELIVERED].contains(&name.as_str())
        {
            kept.insert(name.clone(), value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing<const N: usize>(id: &str, headers: [(&str, &str); N]) -> ichido::broker::Outgoing {
        ichido::broker::Outgoing {
            edition: 0,
            id: id.to_owned(),
            origin: "here".into(),
            queue: None,
            exchange: String::new(),
            routing_key: "orders".to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            payload: Vec::new(),
        }
    }

    #[test]
    fn a_senders_header_does_not_take_the_place_of_ours() {
        let forged = [header::ID, header::ORIGIN, "colour"].map(|name| (name, "blue"));
        let envelope = Envelope::of(&outgoing("1", forged)).expect("short names");
        let headers = envelope.properties.headers().as_ref().expect("headers");
        let value = |name| header::text(header::find(headers, name).expect(name)).expect("text");
        assert_eq!([header::ID, header::ORIGIN, "colour"].map(value), ["1", "here", "blue"]);
        assert_eq!(header::find(headers, header::QUEUE), None, "it has no mutex");
    }

    #[test]
    fn headers_that_do_not_fit_into_a_frame_are_refused() {
        let error = Envelope::of(&outgoing("1", [("long", &"x".repeat(MOST_HEADERS))])).expect_err("too long");
        assert!(error.to_string().contains("the limit is"), "{error}");
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_and_not_cut() {
        let long = "q".repeat(256);
        for refused in [
            Envelope::new(&long, "k", "p"),
            Envelope::new("", &long, "p"),
            Envelope::of(&outgoing(&long, [])),
            Envelope::of(&outgoing("1", [(&long, "v")])),
            Envelope::new("", "k", "p").and_then(|message| message.header(&long, "v")),
        ] {
            assert!(refused.expect_err("too long").to_string().contains("AMQP's limit"));
        }
    }

    #[test]
    fn a_copy_is_persistent_and_keeps_everything_but_the_time_that_it_may_wait() {
        let old = BasicProperties::default()
            .with_delivery_mode(1)
            .with_expiration("5".into())
            .with_message_id("m".into())
            .with_app_id("a".into())
            .with_user_id("guest".into())
            .with_priority(3);
        let copy = Envelope::copy(&old, b"p", "e", "k").expect("short names").properties;
        assert_eq!((copy.delivery_mode(), copy.expiration()), (&Some(2), &None));
        assert_eq!(copy.message_id().as_ref().map(ShortString::as_str), Some("m"));
        assert_eq!((copy.app_id().is_some(), copy.priority()), (true, &Some(3)));
        assert_eq!(copy.user_id(), &None, "the broker checks it against who sends");
    }

    #[test]
    fn a_copy_knows_nothing_of_former_queues() {
        let mut headers = FieldTable::default();
        for name in [
            "x-death",
            "x-first-death-queue",
            "x-last-death-reason",
            "x-delivery-count",
            header::REASON,
            header::ID,
            "colour",
        ] {
            headers.insert(name.into(), AMQPValue::LongInt(1));
        }
        let old = BasicProperties::default().with_headers(headers);
        let copy = Envelope::copy(&old, b"p", "e", "k").expect("short names");
        let kept = copy.properties.headers().as_ref().expect("headers").inner().keys().map(ShortString::as_str);
        assert_eq!(kept.collect::<Vec<_>>(), ["colour", header::ID]);
    }
}
