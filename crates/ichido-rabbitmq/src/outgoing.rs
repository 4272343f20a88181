//! What a publisher sends, and what became of it. The relay builds an [`Outgoing`] from a row; the source makes one of a delivery
//! that it sends elsewhere.

use std::fmt;

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};

use crate::{Error, Result, header};

/// Delivery mode 2: on disk before it is confirmed.
const PERSISTENT: u8 = 2;

/// AMQP's limit for names.
const LONGEST_NAME: usize = 255;

/// A message on its way to an exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) payload: Vec<u8>,
}

impl Outgoing {
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

    /// With its mutex id, the database that it comes from, and the queue that the mutex stands for. The id is its message id too.
    ///
    /// # Errors
    /// If the id is longer than AMQP allows.
    pub fn guarded(mut self, id: &str, origin: &str, queue: &str) -> Result<Self> {
        self.properties = self.properties.with_message_id(name("message id", id)?);
        self.header(header::ID, id)?.header(header::ORIGIN, origin)?.header(header::QUEUE, queue)
    }

    /// With one more header.
    ///
    /// # Errors
    /// If its name is longer than AMQP allows.
    pub fn header(mut self, header: &str, value: &str) -> Result<Self> {
        let mut headers: FieldTable = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name("header", header)?, AMQPValue::LongString(value.into()));
        self.properties = self.properties.with_headers(headers);
        Ok(self)
    }

    /// With a content type, such as `application/json`.
    ///
    /// # Errors
    /// If it is longer than AMQP allows.
    pub fn content_type(mut self, content_type: &str) -> Result<Self> {
        self.properties = self.properties.with_content_type(name("content type", content_type)?);
        Ok(self)
    }

    /// The same message as one that was received, for another queue, and persistent whatever it was.
    pub(crate) fn copy(properties: &BasicProperties, payload: &[u8], exchange: &str, key: &str) -> Result<Self> {
        let properties = kept(properties).with_delivery_mode(PERSISTENT);
        Ok(Self { properties, ..Self::new(exchange, key, payload)? })
    }
}

/// Why a message was not published, or nobody knows whether it was.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Unpublished {
    /// It cannot be routed: no queue is bound for it, or there is no such exchange. It is nowhere.
    Unroutable(String),
    /// The broker did not take it: a queue is full (`reject-publish`), or its leader is away. It may be in other queues.
    Refused(String),
    /// It was not sent: the broker is away or takes no messages.
    Unsent(String),
    /// It was sent, and the answer did not come. It must be sent again, and may then be there twice.
    Unknown(String),
}

impl Unpublished {
    /// Will trying again later help, without anybody changing anything?
    #[must_use]
    pub fn is_transient(&self) -> bool {
        !matches!(self, Unpublished::Unroutable(_))
    }
}

impl fmt::Display for Unpublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unpublished::Unroutable(why) => write!(f, "cannot be routed: {why}"),
            Unpublished::Refused(why) => write!(f, "refused by the broker: {why}"),
            Unpublished::Unsent(why) => write!(f, "not sent: {why}"),
            Unpublished::Unknown(why) => write!(f, "sent, but not confirmed: {why}"),
        }
    }
}

impl std::error::Error for Unpublished {}

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

/// Without what the broker has written about former queues: it drops a message that it takes to go round in circles.
fn without_history(headers: &FieldTable) -> FieldTable {
    let history = |name: &str| {
        ["x-death", "x-first-death-", "x-last-death-", "x-delivery-count"].iter().any(|start| name.starts_with(start))
    };
    let mut kept = FieldTable::default();
    for (name, value) in headers {
        if !history(name.as_str()) {
            kept.insert(name.clone(), value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_refused_and_not_cut() {
        let long = "q".repeat(256);
        for refused in [
            Outgoing::new(&long, "k", "p"),
            Outgoing::new("", &long, "p"),
            Outgoing::new("", "k", "p").and_then(|message| message.guarded(&long, "o", "q")),
            Outgoing::new("", "k", "p").and_then(|message| message.header(&long, "v")),
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
        let copy = Outgoing::copy(&old, b"p", "e", "k").expect("short names").properties;
        assert_eq!((copy.delivery_mode(), copy.expiration()), (&Some(2), &None));
        assert_eq!(copy.message_id().as_ref().map(ShortString::as_str), Some("m"));
        assert_eq!((copy.app_id().is_some(), copy.priority()), (true, &Some(3)));
        assert_eq!(copy.user_id(), &None, "the broker checks it against who sends");
    }

    #[test]
    fn a_copy_knows_nothing_of_former_queues() {
        let mut headers = FieldTable::default();
        for name in ["x-death", "x-first-death-queue", "x-last-death-reason", "x-delivery-count", header::ID, "colour"]
        {
            headers.insert(name.into(), AMQPValue::LongInt(1));
        }
        let old = BasicProperties::default().with_headers(headers);
        let copy = Outgoing::copy(&old, b"p", "e", "k").expect("short names");
        let kept = copy.properties.headers().as_ref().expect("headers").inner().keys().map(ShortString::as_str);
        assert_eq!(kept.collect::<Vec<_>>(), ["colour", header::ID]);
    }
}
