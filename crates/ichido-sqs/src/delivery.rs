//! What was received. Whoever has a [`Delivery`] settles it with its receipt; one that is dropped instead comes back when its visibility
//! timeout has passed.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use ichido::{
    broker::{DeadLetter, Received, SENT_AT},
    message::GROUP,
};

use crate::{
    envelope,
    header::{self, APP_ID, Attributes, ENCODING, MESSAGE_ID, ORIGIN, QUEUE, REASON, ROW},
};

/// One handing-over of a message.
#[derive(Clone)]
pub struct Delivery {
    pub(crate) message_id: String,
    pub(crate) receipt: String,
    pub(crate) body: String,
    pub(crate) attributes: Attributes,
    pub(crate) group: Option<String>,
    /// How often it was handed out; a hint.
    pub(crate) receives: u32,
    sent_at: Option<SystemTime>,
}

impl Delivery {
    /// None if it has no receipt: nobody could settle it.
    pub(crate) fn new(message: Message) -> Option<Self> {
        let system = |name: MessageSystemAttributeName| message.attributes.as_ref()?.get(&name).cloned();
        let since = |ms: &str| UNIX_EPOCH.checked_add(Duration::from_millis(ms.parse().ok()?));
        let receives = system(MessageSystemAttributeName::ApproximateReceiveCount);
        let sent = system(MessageSystemAttributeName::SentTimestamp);
        let group = system(MessageSystemAttributeName::MessageGroupId);
        Some(Self {
            group,
            receives: receives.and_then(|count| count.parse().ok()).unwrap_or(1),
            sent_at: sent.as_deref().and_then(since),
            receipt: message.receipt_handle?,
            message_id: message.message_id.unwrap_or_default(),
            body: message.body.unwrap_or_default(),
            attributes: message.message_attributes.unwrap_or_default(),
        })
    }

    /// What was sent.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        envelope::read(&self.body, header::find(&self.attributes, ENCODING))
    }

    /// What its sender has written beside the payload, as far as it is text, and its group.
    #[must_use]
    pub fn headers(&self) -> ichido::Headers {
        let mut headers = header::of_the_sender(&self.attributes);
        if let Some(group) = &self.group {
            headers.entry(GROUP.to_owned()).or_insert_with(|| group.clone());
        }
        headers
    }

    /// As the core knows it, without a name of its own.
    #[must_use]
    pub fn received(&self) -> Received {
        let text = |name| header::find(&self.attributes, name).map(str::to_owned);
        let mut headers = self.headers();
        let dated = text(SENT_AT).or_else(|| sent_at_in(&self.attributes));
        let dated = dated.and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms.parse().ok()?)));
        // Whoever sent it without a group has it in one of its own, which is no group.
        if headers.get(GROUP) == text(header::ID).as_ref() {
            headers.remove(GROUP);
        }
        Received {
            tag: 0,
            id: header::id(&self.attributes),
            origin: text(ORIGIN),
            queue: text(QUEUE),
            message_id: text(MESSAGE_ID).or_else(|| Some(self.message_id.clone()).filter(|id| !id.is_empty())),
            sender: text(APP_ID),
            payload: self.payload().into(),
            headers,
            redelivered: self.receives > 1,
            sent_at: dated.or(self.sent_at),
        }
    }

    /// As one of the dead letters.
    #[must_use]
    pub fn dead_letter(&self) -> DeadLetter {
        let text = |name| header::find(&self.attributes, name);
        DeadLetter {
            received: self.received(),
            reason: text(REASON).map(str::to_owned),
            row: text(ROW).and_then(|row| row.parse().ok()),
        }
    }
}

/// When it was sent, among the packed headers.
fn sent_at_in(attributes: &Attributes) -> Option<String> {
    let packed: ichido::Headers = serde_json::from_str(header::find(attributes, header::HEADERS)?).ok()?;
    packed.get(SENT_AT).cloned()
}

/// Without the payload, which is nobody's business.
impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("message_id", &self.message_id)
            .field("receives", &self.receives)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}
