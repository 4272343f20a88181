//! From a lane set and a message to a queue: the level that the sender names, or the one that the message itself says. Clients,
//! contexts and the command line send through here; a name that is no lane set is a queue.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use tracing::Instrument;

use super::{LaneSet, Level};
use crate::{Error, MessageId, NewMessage, Store, error::Result, handlers::suggestion, store, trace};

/// How the level of a message is read from the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelBy {
    /// The JSON field, or the column.
    pub field: String,
    /// The level for each of its values.
    pub map: BTreeMap<String, String>,
    /// The level for every other value, and for none.
    pub default: String,
}

impl LevelBy {
    /// The level that this payload says.
    fn level(&self, payload: &[u8]) -> &str {
        let message: Value = serde_json::from_slice(payload).unwrap_or_default();
        let value = match message.get(&self.field) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => return &self.default,
        };
        self.map.get(&value).unwrap_or(&self.default)
    }
}

/// The lane sets that a sender knows, by name.
#[derive(Debug, Clone, Default)]
pub struct Routes(Arc<BTreeMap<Arc<str>, LaneSet>>);

/// What was sent: the ids, in the order of the messages, and the queues that they went to.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// The ids of the messages.
    pub ids: Vec<MessageId>,
    /// The queues.
    pub queues: BTreeSet<Arc<str>>,
}

impl Routes {
    /// These lane sets.
    pub fn new(sets: impl IntoIterator<Item = LaneSet>) -> Self {
        Routes(Arc::new(sets.into_iter().map(|set| (set.name.clone(), set)).collect()))
    }

    pub(crate) fn add(&mut self, set: LaneSet) {
        Arc::make_mut(&mut self.0).insert(set.name.clone(), set);
    }

    pub(crate) fn find(&self, name: &str) -> Option<&LaneSet> {
        self.0.get(name)
    }

    /// The queue that a message to this lane set or queue goes to.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such level, or none is given.
    pub fn queue(&self, to: &str, message: &NewMessage) -> Result<Arc<str>> {
        let Some(set) = self.0.get(to) else {
            return match &message.level {
                Some(level) => Err(self.no_lane_set(to, level)),
                None => Ok(to.into()),
            };
        };
        let level = match (&message.level, &set.level_by) {
            (Some(level), _) => set.find(level)?,
            (None, Some(by)) => set.find(by.level(&message.payload))?,
            (None, None) => {
                let levels = set.known();
                return Err(Error::Refused(format!(
                    "a message to the lane set `{to}` needs a level (it has: {levels})"
                )));
            }
        };
        Ok(level.queue.clone())
    }

    /// The level that a queue is, if it is in a lane set.
    pub(crate) fn level_of(&self, queue: &str) -> Option<Arc<str>> {
        let mut levels = self.0.values().flat_map(|set| &set.levels);
        levels.find(|level| &*level.queue == queue).map(|level| level.name.clone())
    }

    /// Sends messages in the caller's transaction, each to the queue of its level.
    ///
    /// # Errors
    /// When a message is refused, or the database fails; the caller rolls back then.
    pub async fn send<S: Store>(
        &self,
        store: &S,
        connection: &mut S::Connection,
        to: &str,
        messages: &[NewMessage],
    ) -> Result<Sent> {
        let (span, messages) = trace::sending(to, messages);
        let sent = self.send_traced(store, connection, to, &messages).instrument(span.clone()).await;
        trace::fail(&span, sent.is_err().then_some("error"));
        sent
    }

    async fn send_traced<S: Store>(
        &self,
        store: &S,
        connection: &mut S::Connection,
        to: &str,
        messages: &[NewMessage],
    ) -> Result<Sent> {
        if !self.0.contains_key(to) && messages.iter().all(|message| message.level.is_none()) {
            return Ok(Sent { ids: store::send(store, connection, to, messages).await?, queues: [to.into()].into() });
        }
        let mut places: BTreeMap<Arc<str>, (Vec<usize>, Vec<NewMessage>)> = BTreeMap::new();
        for (at, message) in messages.iter().enumerate() {
            let place = places.entry(self.queue(to, message)?).or_default();
            place.0.push(at);
            place.1.push(message.clone());
        }
        let (mut ids, mut queues) = (BTreeMap::new(), BTreeSet::new());
        for (queue, (places, messages)) in places {
            ids.extend(places.into_iter().zip(store::send(store, connection, &queue, &messages).await?));
            queues.insert(queue);
        }
        Ok(Sent { ids: ids.into_values().collect(), queues })
    }

    fn no_lane_set(&self, to: &str, level: &str) -> Error {
        let known = || self.0.keys().map(AsRef::as_ref);
        let (hint, list) = (suggestion(to, known()), known().collect::<Vec<_>>().join(", "));
        let list = if list.is_empty() { "none".into() } else { list };
        Error::Refused(format!("level `{level}`: `{to}` is not a lane set (known: {list}){hint}"))
    }
}

impl LaneSet {
    /// The level with this name.
    ///
    /// # Errors
    /// [`Error::Refused`] with those that there are.
    pub fn find(&self, name: &str) -> Result<&Level> {
        self.levels.iter().find(|level| &*level.name == name).ok_or_else(|| {
            let hint = suggestion(name, self.levels.iter().map(|level| &*level.name));
            let (set, levels) = (&self.name, self.known());
            Error::Refused(format!("the lane set `{set}` has no level `{name}` (it has: {levels}){hint}"))
        })
    }

    fn known(&self) -> String {
        self.levels.iter().map(|level| &*level.name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Policy;

    fn routes(level_by: bool) -> Routes {
        let set = LaneSet::new("site", Policy::Strict).level(Level::new("member", "m")).level(Level::new("free", "f"));
        let map = [("gold", "member"), ("true", "member"), ("7", "member")];
        let map = map.map(|(value, level)| (value.to_owned(), level.to_owned())).into();
        let by = LevelBy { field: "plan".into(), map, default: "free".into() };
        Routes::new([if level_by { set.level_by(by) } else { set }])
    }

    #[test]
    fn the_level_that_is_named_comes_before_what_the_message_says() {
        let queue = |text: &str| routes(true).queue("site", &NewMessage::new(text)).unwrap();
        for member in [r#"{"plan":"gold"}"#, r#"{"plan":true}"#, r#"{"plan":7}"#] {
            assert_eq!(&*queue(member), "m", "{member}");
        }
        for free in [r#"{"plan":"none"}"#, r#"{"plan":null}"#, "{}", "[]", "1", "no JSON"] {
            assert_eq!(&*queue(free), "f", "{free}");
        }
        let named = NewMessage::new(r#"{"plan":"gold"}"#).level("free");
        assert_eq!(&*routes(true).queue("site", &named).unwrap(), "f");
        assert_eq!(&*routes(true).queue("orders", &NewMessage::new("1")).unwrap(), "orders");
    }

    #[test]
    fn what_has_no_way_is_refused_with_the_ways_there_are() {
        let refused = |to: &str, message: NewMessage, parts: &[&str]| {
            let error = routes(false).queue(to, &message).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        refused("site", NewMessage::new("1"), &["needs a level", "member, free"]);
        refused(
            "site",
            NewMessage::new("1").level("membr"),
            &["no level `membr`", "did you mean `member`?", "member, free"],
        );
        refused("orders", NewMessage::new("1").level("member"), &["`orders` is not a lane set", "known: site"]);
    }
}
