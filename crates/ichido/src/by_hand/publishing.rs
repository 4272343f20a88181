//! Publishes what was committed by hand, before its answer: a send what it sent, the doctor what it made due. Whatever comes of it,
//! nothing is lost: it stays in the outbox, and whoever relays publishes it later.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    Inspect, Key, MessageId, Relay,
    broker::{Flushed, MutexFilter, RowState},
    error::Result,
};

/// For the database, beyond what the broker may take.
const LATE: Duration = Duration::from_secs(5);

/// Between two looks whether another relay has published something.
const AGAIN: Duration = Duration::from_millis(20);

/// What another relay has published is noted so soon.
const NOTED: Duration = Duration::from_secs(1);

/// So many messages are looked at together.
const KEYS: usize = 500;

/// A relay for as long as a command or a request runs.
pub struct Publishing<S: Inspect> {
    store: S,
    relay: Relay<S>,
    limit: Duration,
}

/// What is not published, and why.
#[derive(Debug)]
pub struct Unpublished {
    /// Which.
    pub ids: BTreeSet<MessageId>,
    /// Why.
    pub why: String,
}

impl<S: Inspect> Publishing<S> {
    /// Publishes by this relay, whose brokers take at most this long to confirm.
    pub fn new(store: S, relay: Relay<S>, publish_deadline: Duration) -> Self {
        Publishing { store, relay, limit: publish_deadline + LATE }
    }

    /// Publishes these messages, or waits until another relay has, which is as good.
    pub async fn publish(&self, ids: &[MessageId]) -> Option<Unpublished> {
        let until = Instant::now() + self.limit;
        let mut noted = until;
        loop {
            let flushed = timeout_at(until, self.relay.flush()).await;
            let (why, patience) = match flushed {
                Ok(Ok(Flushed { left: Some(why), .. })) => (why, None),
                Ok(Ok(Flushed { elsewhere: true, .. })) => {
                    ("another relay has the relay lease and has not published them".to_owned(), Some(until))
                }
                Ok(Ok(_)) => {
                    noted = noted.min(Instant::now() + NOTED);
                    ("another relay could not publish them; `ichido status` tells why".to_owned(), Some(noted))
                }
                Ok(Err(error)) => (format!("{error:#}"), None),
                Err(_) => ("the broker did not confirm within publish_deadline".to_owned(), None),
            };
            let ids = match unpublished(&self.store, ids).await {
                Ok(left) => left,
                Err(error) => {
                    return Some(Unpublished { ids: ids.iter().cloned().collect(), why: format!("{error:#}") });
                }
            };
            if ids.is_empty() {
                return None;
            }
            if patience.is_none_or(|until| Instant::now() >= until) {
                return Some(Unpublished { ids, why });
            }
            sleep(AGAIN).await;
        }
    }
}

/// Those of these messages that are still to be published.
async fn unpublished<S: Inspect>(store: &S, ids: &[MessageId]) -> Result<BTreeSet<MessageId>> {
    let mut by_queue: BTreeMap<&str, Vec<Key>> = BTreeMap::new();
    for id in ids {
        by_queue.entry(&id.queue).or_default().push(id.key.clone());
    }
    let mut left = BTreeSet::new();
    for (queue, keys) in by_queue {
        for keys in keys.chunks(KEYS) {
            let rows = store.mutexes(queue, MutexFilter::These(keys)).await?;
            let unsent = rows.into_iter().filter(|row| matches!(row.state, RowState::Unsent(_)));
            left.extend(unsent.map(|row| MessageId { queue: queue.into(), key: row.key }));
        }
    }
    Ok(left)
}
