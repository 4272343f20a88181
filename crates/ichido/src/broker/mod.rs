//! The seam for brokers, and what keeps a broker and the database together. A broker publishes what the relay takes from the outbox, and
//! opens sources, which hand out what was published and settle it. `ichido-rabbitmq` and `ichido-sqs` implement it; the broker reader and
//! [`Relay`] are its callers. Nothing here knows a protocol, and no broker knows the database.

mod any;
pub(crate) mod doctor;
pub(crate) mod guard;
pub(crate) mod publishing;
pub(crate) mod reconciler;
pub(crate) mod relay;

pub use self::{
    any::{AnyBroker, AnySource},
    doctor::{InQueue, Judgement, MutexFilter, MutexRow, Original, Orphan, RawRow, RowState, Sighting, Verdict},
    guard::{
        ANOTHER_BODY, Found, Guard, LONGEST_ID, OutboxState, Publication, Standing, Unsent, inbox_id, is_about,
        payload_hash,
    },
    publishing::Publisher,
    reconciler::{Circulating, Depths},
    relay::{Flushed, Relay},
};
use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{BoxFuture, Headers};

/// The header in which a message carries when it was sent, in milliseconds since 1970.
pub const SENT_AT: &str = "x-ichido-sent-at";

/// So many messages a relay publishes at a time: their payloads are what it has in memory.
const AT_A_TIME: usize = 128;

/// A queue of a broker: where its messages are published to and received from.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a broker", note = "a broker has `publish` and `receive`")]
pub trait Broker: Send + Sync + 'static {
    /// Where its deliveries come from.
    type Source: Source;

    /// Publishes messages in their order, and tells the fate of each in the same order. It ends in time, whatever happens.
    fn publish(&self, messages: &[Outgoing]) -> impl Future<Output = Vec<Result<(), Unpublished>>> + Send;

    /// How many messages a relay hands to one call of `publish` at most. It notes what has arrived after the call: if it dies before, all of them
    /// are published again. So a broker that takes long for many asks for few. A relay may hand over fewer.
    fn at_a_time(&self) -> usize {
        AT_A_TIME
    }

    /// Starts to receive, with at most this many unsettled deliveries at a time.
    fn receive(&self, prefetch: u16) -> Self::Source;

    /// How full its queue is.
    ///
    /// # Errors
    /// Why the depths are unknown.
    fn depths(&self) -> impl Future<Output = Result<Depths, String>> + Send;
}

/// Hands out a broker's deliveries and settles them. It comes back by itself when the broker was away.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a source")]
pub trait Source: Send + Sync + 'static {
    /// The next delivery, if there is one at hand. Never waits.
    fn try_next(&self) -> Option<Received>;

    /// Is it receiving? Then everything in the queue is on its way.
    fn is_open(&self) -> bool;

    /// The maximum number of unsettled deliveries: if fewer are out, the queue is empty.
    fn prefetch(&self) -> u16;

    /// Has the queue more than what was handed out? A source that asks for deliveries knows what it was last told; one that they are
    /// pushed to cannot tell.
    fn has_more(&self) -> Option<bool> {
        None
    }

    /// Resolves when `try_next` may find something.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Can this delivery still be settled? Not if the connection on which it came is gone: it comes again.
    fn is_current(&self, tag: u64) -> bool;

    /// Settles a delivery. What cannot be settled any more is handed out again, which is no error.
    ///
    /// # Errors
    /// If it could not be put where it belongs. It is not settled then.
    fn settle(&self, tag: u64, settlement: Settlement) -> impl Future<Output = Result<(), Unpublished>> + Send;

    /// Stops receiving and releases deliveries that no one has taken; those that were taken can still be settled.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A delivery from a source.
#[derive(Debug, Clone)]
pub struct Received {
    /// Identifies it to the source when it is settled.
    pub tag: u64,
    /// The id of its mutex; or why there is no readable one.
    pub id: Result<String, String>,
    /// The database that it was sent from.
    pub origin: Option<String>,
    /// The queue that its mutex guards.
    pub queue: Option<String>,
    /// The id that its sender gave it for other purposes.
    pub message_id: Option<String>,
    /// The name that its sender gives itself.
    pub sender: Option<String>,
    /// Untrusted until decoded.
    pub payload: Arc<[u8]>,
    /// Texts beside the payload.
    pub headers: Headers,
    /// It was delivered before, to a consumer that did not settle it.
    pub redelivered: bool,
    /// When it was sent, by the clock of whoever published it.
    pub sent_at: Option<SystemTime>,
}

/// What happens to a delivery at the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It is finished: the broker removes it.
    Ack,
    /// It goes back to the queue at once, for any consumer.
    Release,
    /// Another worker holds its message: it comes back after a delay.
    Busy,
    /// Its message waits for its due time, after so long if that is known, and is published again then. The broker removes this copy; one
    /// that keeps the order of a group may keep it out of sight instead, so that nothing overtakes it.
    Later(Option<Duration>),
    /// It is dead-lettered, with this reason.
    DeadLetter(String),
    /// It has failed for good: the same, and the letter names its row, whoever has sent it.
    Failed {
        /// Why.
        reason: String,
        /// The row.
        row: RowName,
    },
}

/// A message's copy in a broker's dead-letter queue.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    /// What was received.
    pub received: Received,
    /// Why it was dead-lettered, if that was written beside it.
    pub reason: Option<String>,
    /// The row of a message that has failed for good.
    pub row: Option<RowName>,
}

/// Names the row of a message beside a dead letter, without touching what its sender has written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowName {
    /// The database.
    pub origin: Arc<str>,
    /// The queue.
    pub queue: Arc<str>,
    /// The id.
    pub id: String,
}

impl fmt::Display for RowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.origin, self.queue, self.id)
    }
}

impl FromStr for RowName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '/');
        let mut part = || parts.next().filter(|part| !part.is_empty()).ok_or(());
        Ok(RowName { origin: part()?.into(), queue: part()?.into(), id: part()?.to_owned() })
    }
}

/// A message on its way to a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Its id: the same however often it is published.
    pub id: String,
    /// Which of its publications this is: a retry is another one.
    pub edition: i64,
    /// The database that it comes from.
    pub origin: Arc<str>,
    /// The queue that its mutex guards; none: it has no mutex here.
    pub queue: Option<Arc<str>>,
    /// Where it is published to.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// Texts beside the payload.
    pub headers: Headers,
    /// The payload.
    pub payload: Vec<u8>,
}

/// Why a message is not known to be with the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unpublished {
    /// No queue is bound for it.
    Unroutable(String),
    /// The broker refused it.
    Refused(String),
    /// It was not sent.
    Unsent(String),
    /// It was sent, and its arrival was not confirmed.
    Unknown(String),
}

impl Unpublished {
    /// Is this about the message and its way, and not about the broker as a whole?
    #[must_use]
    pub fn is_its_own(&self) -> bool {
        matches!(self, Unpublished::Unroutable(_) | Unpublished::Refused(_))
    }
}

impl fmt::Display for Unpublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unpublished::Unroutable(why) => write!(f, "unroutable: {why}"),
            Unpublished::Refused(why) => write!(f, "refused by the broker: {why}"),
            Unpublished::Unsent(why) => write!(f, "not sent: {why}"),
            Unpublished::Unknown(why) => write!(f, "sent but not confirmed: {why}"),
        }
    }
}

impl std::error::Error for Unpublished {}

/// Publishes what could be made of messages, and tells the fate of each message in the order of all of them. What could not be made is not
/// sent, and the others go their way.
pub async fn publish_made<T>(
    made: impl IntoIterator<Item = Result<T, Unpublished>>,
    publish: impl AsyncFnOnce(&[T]) -> Vec<Result<(), Unpublished>>,
) -> Vec<Result<(), Unpublished>> {
    let mut envelopes = Vec::new();
    let made = made.into_iter().map(|made| made.map(|envelope| envelopes.push(envelope)));
    let mut fates: Vec<Result<(), Unpublished>> = made.collect();
    let mut sent = publish(&envelopes).await.into_iter();
    for fate in fates.iter_mut().filter(|fate| fate.is_ok()) {
        let silent = || Err(Unpublished::Unknown("the broker says nothing about it".to_owned()));
        *fate = sent.next().unwrap_or_else(silent);
    }
    fates
}

/// The brokers of a process, by the queue that each of them keeps.
pub(crate) type Brokers = BTreeMap<Arc<str>, Arc<dyn DynBroker>>;

/// The boxed twin of [`Broker`]; implemented for every broker, never by hand.
pub(crate) trait DynBroker: Send + Sync {
    fn publish<'a>(&'a self, messages: &'a [Outgoing]) -> BoxFuture<'a, Vec<Result<(), Unpublished>>>;
    fn at_a_time(&self) -> usize;
    fn receive(&self, prefetch: u16) -> Arc<dyn DynSource>;
    fn depths(&self) -> BoxFuture<'_, Result<Depths, String>>;
}

impl<B: Broker> DynBroker for B {
    fn publish<'a>(&'a self, messages: &'a [Outgoing]) -> BoxFuture<'a, Vec<Result<(), Unpublished>>> {
        Box::pin(Broker::publish(self, messages))
    }

    fn at_a_time(&self) -> usize {
        Broker::at_a_time(self)
    }

    fn receive(&self, prefetch: u16) -> Arc<dyn DynSource> {
        Arc::new(Broker::receive(self, prefetch))
    }

    fn depths(&self) -> BoxFuture<'_, Result<Depths, String>> {
        Box::pin(Broker::depths(self))
    }
}

/// The boxed twin of [`Source`].
pub(crate) trait DynSource: Send + Sync {
    fn try_next(&self) -> Option<Received>;
    fn is_open(&self) -> bool;
    fn prefetch(&self) -> u16;
    fn has_more(&self) -> Option<bool>;
    fn changed(&self) -> BoxFuture<'_, ()>;
    fn is_current(&self, tag: u64) -> bool;
    fn settle(&self, tag: u64, settlement: Settlement) -> BoxFuture<'_, Result<(), Unpublished>>;
    fn close(&self) -> BoxFuture<'_, ()>;
}

impl<T: Source> DynSource for T {
    fn try_next(&self) -> Option<Received> {
        Source::try_next(self)
    }

    fn is_open(&self) -> bool {
        Source::is_open(self)
    }

    fn prefetch(&self) -> u16 {
        Source::prefetch(self)
    }

    fn has_more(&self) -> Option<bool> {
        Source::has_more(self)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(Source::changed(self))
    }

    fn is_current(&self, tag: u64) -> bool {
        Source::is_current(self, tag)
    }

    fn settle(&self, tag: u64, settlement: Settlement) -> BoxFuture<'_, Result<(), Unpublished>> {
        Box::pin(Source::settle(self, tag, settlement))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(Source::close(self))
    }
}
