//! Publishes what a command has committed, before it ends: `send` what it sent, `doctor --fix` what it made due. Whatever comes of it,
//! nothing is lost: it stays in the outbox, and whoever relays publishes it later.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ichido::{
    Error, Key, MessageId, Relay, Result,
    broker::{Flushed, MutexFilter, RowState},
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{brokers::Brokers, config::Config, open::Backend};

/// For the database, beyond what the broker may take.
const LATE: Duration = Duration::from_secs(5);

/// Between two looks whether another relay has published something.
const AGAIN: Duration = Duration::from_millis(20);

/// What another relay has published is noted so soon.
const NOTED: Duration = Duration::from_secs(1);

/// So many messages are looked at together.
const KEYS: usize = 500;

/// A relay for as long as a command runs.
pub(super) struct Publishing<S: Backend> {
    store: S,
    relay: Relay<S>,
    limit: Duration,
}

/// What is not published, and why.
#[derive(Debug)]
pub(super) struct Unpublished {
    pub(super) ids: BTreeSet<MessageId>,
    pub(super) why: String,
}

impl<S: Backend> Publishing<S> {
    pub(super) fn of(store: &S, brokers: &Brokers, config: &Config) -> Self {
        let deadline = config.guarded().map(|(_, _, rules)| rules.publish_deadline).max().unwrap_or_default();
        Publishing { store: store.clone(), relay: brokers.relay(store.clone(), config), limit: deadline + LATE }
    }

    /// Publishes these messages, or waits until another relay has, which is as good.
    pub(super) async fn publish(&self, ids: &[MessageId]) -> Option<Unpublished> {
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
async fn unpublished<S: Backend>(store: &S, ids: &[MessageId]) -> Result<BTreeSet<MessageId>, Error> {
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
