//! Single messages, as operators look at them and move them: [`Messages`] is beside [`Inspect`] and `Operate`. What is known of one is in
//! `message_info`; how a list goes on from page to page is here. The command line and [`Client::message`](crate::Client::message) use it.

use std::{collections::VecDeque, fmt, str::FromStr};

use serde::{Serialize, Serializer};

use super::message_info::{MessageInfo, MessageState, SentWith};
use crate::{Due, Error, Inspect, Key, MessageId, error::Result};

/// So many pages are looked at for one list.
const MOST_LOOKS: usize = 20;

/// One message of a queue of any kind: found, listed, moved in time.
pub trait Messages: Inspect {
    /// The payload of a message, if it is still there.
    fn payload(&self, id: &MessageId) -> impl Future<Output = Result<Option<String>>> + Send;

    /// What a message was sent with beside its payload; nothing if that is gone, or its queue is a table.
    fn sent_with(&self, id: &MessageId) -> impl Future<Output = Result<SentWith>> + Send;

    /// What is known of a message; none if there is no such message, or it is done and has left nothing behind.
    fn message(&self, id: &MessageId) -> impl Future<Output = Result<Option<MessageInfo>>> + Send;

    /// Some messages of a queue in one state, in the order of an index, and where the next page begins. It reads a bounded number of rows
    /// however many there are, so a page can have fewer messages than were asked for, or none, and still not be the last.
    fn messages(&self, filter: &MessageFilter) -> impl Future<Output = Result<MessagePage>> + Send;

    /// The same over several queues and states, one after the other in this order, from this place on. A look that finds little goes on to the
    /// next page, a bounded number of times.
    fn list(
        &self,
        queues: &[String],
        states: &[Listed],
        after: Option<Cursor>,
        limit: usize,
    ) -> impl Future<Output = Result<MessagePage>> + Send {
        listing(self, queues, states, after, limit)
    }

    /// A message that waits becomes due at another time; one that is ready waits until then, with the attempts it has.
    fn reschedule(&self, id: &MessageId, due: Due) -> impl Future<Output = Result<Changed>> + Send;

    /// A message that waits becomes ready. Whoever calls this wakes the workers of the queue.
    fn run_now(&self, id: &MessageId) -> impl Future<Output = Result<Changed>> + Send;
}

/// Which messages: of one queue and in one state.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MessageFilter {
    /// Of this queue.
    pub queue: String,
    /// In this state.
    pub state: Listed,
    /// After this place: the next page.
    pub after: Option<Cursor>,
    /// Maximum number of messages.
    pub limit: usize,
}

impl MessageFilter {
    /// The first so many messages of a queue that are in this state.
    pub fn new(queue: impl Into<String>, state: Listed, limit: usize) -> Self {
        MessageFilter { queue: queue.into(), state, after: None, limit }
    }
}

/// The states in which messages are listed. What is done is not: nothing keeps it in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// Claimable now, in claim order; then those that are in groups, by group.
    Ready,
    /// Claimed, by process.
    Claimed,
    /// Parked with a due time, by that time.
    Waiting,
    /// Parked for good, by the time of the failure.
    Failed,
}

impl Listed {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Listed; 4] = [Listed::Ready, Listed::Claimed, Listed::Waiting, Listed::Failed];

    /// The state of these messages.
    #[must_use]
    pub fn state(self) -> MessageState {
        match self {
            Listed::Ready => MessageState::Ready,
            Listed::Claimed => MessageState::Claimed,
            Listed::Waiting => MessageState::Waiting,
            Listed::Failed => MessageState::Failed,
        }
    }
}

impl FromStr for Listed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Listed::ALL.into_iter().find(|listed| listed.state().as_str() == text);
        known.ok_or_else(|| Error::Setup(format!("`{text}` is not one of ready, claimed, waiting and failed")))
    }
}

/// Some messages, and where the next ones begin.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<MessageInfo>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<Cursor>,
    /// Why messages may be missing in it: an index that is not there.
    pub notes: Vec<String>,
}

impl MessagePage {
    /// A page of these.
    #[must_use]
    pub fn new(messages: Vec<MessageInfo>, next: Option<Cursor>) -> Self {
        MessagePage { messages, next, notes: Vec::new() }
    }
}

/// A place in a list of messages. It is written like a message id, and means something to the store that made it only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The queue.
    pub queue: String,
    /// In which state the messages are.
    pub state: Listed,
    /// Where in them: the values of the last one that was read, in the order of an index.
    pub values: Vec<Option<String>>,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values =
            self.values.iter().map(|value| value.as_ref().map_or_else(|| "-".into(), |text| format!("={text}")));
        let place = Key::new([self.state.state().as_str().to_owned()].into_iter().chain(values));
        write!(f, "{}/{place}", self.queue)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown =
            || Error::Setup(format!("`{text}` is not where a list of messages goes on; use what the last page said"));
        let id: MessageId = text.parse().map_err(|_| unknown())?;
        let (state, values) = id.key.columns().split_first().ok_or_else(unknown)?;
        let value = |value: &String| match value.as_str() {
            "-" => Some(None),
            value => value.strip_prefix('=').map(|value| Some(value.to_owned())),
        };
        let values = values.iter().map(value).collect::<Option<Vec<_>>>().ok_or_else(unknown)?;
        Ok(Cursor { queue: id.queue.to_string(), state: state.parse().map_err(|_| unknown())?, values })
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Some messages of these queues in these states.
async fn listing<S: Messages>(
    store: &S,
    queues: &[String],
    states: &[Listed],
    after: Option<Cursor>,
    limit: usize,
) -> Result<MessagePage> {
    let all = queues.iter().flat_map(|queue| states.iter().map(move |state| (queue, *state)));
    let mut left: VecDeque<_> =
        all.map(|(queue, state)| Cursor { queue: queue.clone(), state, values: Vec::new() }).collect();
    if let Some(after) = after {
        let is_there = |place: &Cursor| place.queue == after.queue && place.state == after.state;
        let at = left.iter().position(is_there).ok_or_else(|| {
            Error::Setup(format!(
                "`{after}` is in another list: the queue and the state must be those of the last page"
            ))
        })?;
        left.drain(..=at);
        left.push_front(after);
    }
    let (mut found, mut looks) = (MessagePage::default(), 0);
    while let Some(place) = left.pop_front() {
        if found.messages.len() >= limit || looks >= MOST_LOOKS {
            found.next = Some(place);
            break;
        }
        let mut filter = MessageFilter::new(&place.queue, place.state, limit - found.messages.len());
        looks += usize::from(!place.values.is_empty());
        filter.after = Some(place).filter(|place| !place.values.is_empty());
        let page = store.messages(&filter).await?;
        if let Some(next) = page.next {
            left.push_front(next);
        }
        found.messages.extend(page.messages);
        found.notes.extend(page.notes.into_iter().filter(|note| !found.notes.contains(note)).collect::<Vec<_>>());
    }
    Ok(found)
}

/// What became of a message that was to be changed.
#[derive(Debug, Clone)]
#[must_use = "the message may have been left as it was"]
pub enum Changed {
    /// It is changed.
    Yes,
    /// It was left as it is, which is this; none: there is no such message.
    No(Option<Box<MessageInfo>>),
}

impl Changed {
    /// It was left as it is.
    pub fn no(info: Option<MessageInfo>) -> Self {
        Changed::No(info.map(Box::new))
    }

    /// Is it changed?
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Changed::Yes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_as_it_was_written() {
        let values = vec![Some("a/b %\n".to_owned()), None, Some(String::new()), Some("-".to_owned())];
        let cursor = Cursor { queue: "orders".into(), state: Listed::Waiting, values };
        assert_eq!(cursor.to_string(), "orders/waiting/=a%2Fb %25%0A/-/=/=-");
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for text in ["", "orders", "orders/42", "orders/done/=1", "orders/ready/42"] {
            let error = text.parse::<Cursor>().unwrap_err().to_string();
            assert!(error.contains("use what the last page said"), "{error}");
        }
    }
}
