//! What was received. Whoever has a [`Delivery`] gives it back to its source to settle it; one that is dropped instead stays with
//! the broker until the connection ends, and is delivered again.

use std::{fmt, sync::Arc};

use lapin::{Acker, BasicProperties, types::ShortString};

use ichido::broker::RowName;

use crate::{
    Id,
    header::{self, ORIGIN, QUEUE, REDELIVERED, ROW},
};

/// One handing-over of a message.
pub struct Delivery {
    pub(crate) properties: BasicProperties,
    pub(crate) payload: Arc<[u8]>,
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) redelivered: bool,
    pub(crate) tag: u64,
    /// Belongs to the channel on which it came: what is said through it never reaches another channel.
    pub(crate) acker: Acker,
}

impl Delivery {
    pub(crate) fn new(delivery: lapin::message::Delivery) -> Self {
        Self {
            exchange: delivery.exchange.to_string(),
            routing_key: delivery.routing_key.to_string(),
            redelivered: delivery.redelivered,
            tag: delivery.delivery_tag,
            properties: delivery.properties,
            payload: delivery.data.into(),
            acker: delivery.acker,
        }
    }

    /// Its mutex id.
    #[must_use]
    pub fn id(&self) -> Id {
        Id::of(self.properties.headers().as_ref())
    }

    /// The database that it was sent from.
    #[must_use]
    pub fn origin(&self) -> Option<String> {
        self.header(ORIGIN)
    }

    /// The queue that its mutex stands for.
    #[must_use]
    pub fn queue(&self) -> Option<String> {
        self.header(QUEUE)
    }

    /// The row of a dead letter that has failed for good.
    #[must_use]
    pub fn row(&self) -> Option<RowName> {
        self.header(ROW)?.parse().ok()
    }

    /// What was sent.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The property `message_id`.
    #[must_use]
    pub fn message_id(&self) -> Option<&str> {
        self.properties.message_id().as_ref().map(ShortString::as_str)
    }

    /// The property `app_id`: who has sent it, if it says so.
    #[must_use]
    pub fn app_id(&self) -> Option<&str> {
        self.properties.app_id().as_ref().map(ShortString::as_str)
    }

    /// The property `content_type`.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.properties.content_type().as_ref().map(ShortString::as_str)
    }

    /// A header as text: a string, bytes in UTF-8, or an integer.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        header::find(self.properties.headers().as_ref()?, name).and_then(|value| header::text(value).ok())
    }

    /// What its sender has written beside the payload, as far as it is text.
    #[must_use]
    pub fn headers(&self) -> ichido::Headers {
        self.properties.headers().as_ref().map(header::of_the_sender).unwrap_or_default()
    }

    /// The exchange to which it was sent.
    #[must_use]
    pub fn exchange(&self) -> &str {
        &self.exchange
    }

    /// The routing key with which it was sent.
    #[must_use]
    pub fn routing_key(&self) -> &str {
        &self.routing_key
    }

    /// Has the broker handed it out before, to somebody who did not settle it? Not whether it has been processed, nor even begun.
    /// One that comes back from the busy queue was settled there; what it was before is kept over it.
    #[must_use]
    pub fn is_redelivered(&self) -> bool {
        self.redelivered || self.header(REDELIVERED).is_some()
    }

    /// How often the broker counts that it came back; quorum queues count, each version in its own way. A hint.
    #[must_use]
    pub fn delivery_count(&self) -> Option<u64> {
        let count = header::find(self.properties.headers().as_ref()?, "x-delivery-count")?;
        u64::try_from(header::integer(count)?).ok()
    }

    /// Can it still be settled? Not after its connection was lost: then the broker hands it out again.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.acker.usable()
    }
}

/// Without the payload, which is nobody's business.
impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("id", &self.id())
            .field("exchange", &self.exchange)
            .field("routing_key", &self.routing_key)
            .field("redelivered", &self.redelivered)
            .finish_non_exhaustive()
    }
}
