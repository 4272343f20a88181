//! From the configuration to brokers: one for each queue that a broker keeps, whatever kind it is of. `program` gives them to the process,
//! `relay` and `send` to a relay; `check` and `doctor` ask them. What a kind needs of its own is in `rabbitmq` and `sqs`, what both share in
//! `dead_letters` and `failing`; without a feature, `none` stands in.
#![cfg_attr(not(any(feature = "rabbitmq", feature = "sqs")), allow(dead_code, reason = "there are no brokers then"))]

mod dead_letters;
mod failing;
#[cfg(not(all(feature = "rabbitmq", feature = "sqs")))]
mod none;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "sqs")]
mod sqs;

#[cfg(not(feature = "rabbitmq"))]
use self::none as rabbitmq;
#[cfg(not(feature = "sqs"))]
use self::none as sqs;

use std::{sync::Arc, time::Duration};

use ichido::{
    BoxFuture, Process, Relay,
    broker::{AnyBroker, DeadLetter, Depths},
    by_hand::Publishing,
};

use crate::{
    config::Config,
    failure::{Failure, UNREACHABLE},
    open::Backend,
};

/// Another one does the same now.
pub(crate) const DUPLICATE: u8 = 14;

/// How long a start waits for a broker; who is not there by then comes later.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The brokers of a configuration, one for each of its queues that has one.
#[derive(Clone)]
pub(crate) struct Brokers(Vec<Kept>);

/// A queue that a broker keeps.
#[derive(Clone)]
pub(crate) struct Kept {
    name: String,
    /// The key that says which kind of broker it is.
    kind: &'static str,
    broker: AnyBroker,
    place: Arc<dyn Place>,
}

/// What the command line asks about a queue at a broker.
pub(crate) trait Place: Send + Sync {
    /// Where the broker is.
    fn addresses(&self) -> String;

    /// Is what the queue needs declared when something is sent or run?
    fn declares(&self) -> bool;

    /// What is there; changes nothing.
    fn look(&self) -> BoxFuture<'_, Result<Found, Failure>>;

    /// Nothing is declared of what cannot be had as a whole.
    fn declare(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// Refuses what a mutex cannot guard: a message that reaches other queues too.
    fn refuse_fan_out(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// How full the queue is; none if it, or one that belongs to it, is not there.
    fn depths(&self) -> BoxFuture<'_, Result<Option<Seen>, Failure>>;

    /// Begins to read its dead letters.
    fn dead_letters(&self) -> BoxFuture<'_, Result<Opened, Failure>>;
}

/// What was found at a broker.
pub(crate) struct Found {
    /// Its name, with its version if it has one.
    pub(crate) version: String,
    /// What is to be declared there.
    pub(crate) missing: Vec<String>,
    /// What an operator should know.
    pub(crate) warnings: Vec<String>,
}

/// How full a queue is.
pub(crate) struct Seen {
    pub(crate) counted: Depths,
    /// How many receive from it; none if nobody can tell.
    pub(crate) consumers: Option<u32>,
}

/// An attempt to read dead letters.
pub(crate) enum Opened {
    Reading(Box<dyn Reading>),
    /// Somebody else does, and will be done with it.
    Busy(String),
}

/// Reads dead letters a page at a time; they stay where they are until they are deleted.
pub(crate) trait Reading: Send {
    /// The next of them, at most so many; none at the end.
    fn page(&mut self, most: usize) -> BoxFuture<'_, Result<Vec<DeadLetter>, Failure>>;

    /// Deletes one of the last page, by its tag; false if that is not certain.
    fn delete(&mut self, tag: u64) -> BoxFuture<'_, bool>;

    /// Releases the others.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>>;
}

impl Brokers {
    pub(crate) fn of(config: &Config) -> Result<Self, Failure> {
        let mut kept = rabbitmq::all(config)?;
        kept.extend(sqs::all(config)?);
        Ok(Brokers(kept))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.0.iter()
    }

    /// Those of these queues.
    pub(crate) fn only(self, wanted: impl Fn(&str) -> bool) -> Self {
        Brokers(self.0.into_iter().filter(|kept| wanted(&kept.name)).collect())
    }

    /// The process with its brokers.
    pub(crate) fn join<S: Backend>(&self, process: Process<S>) -> Process<S> {
        self.iter().fold(process, |process, kept| process.broker(kept.name.as_str(), kept.broker.clone()))
    }

    /// A relay for all of them.
    pub(crate) fn relay<S: Backend>(&self, store: S, config: &Config) -> Relay<S> {
        let relay = Relay::new(store).poll(config.process.poll);
        self.iter().fold(relay, |relay, kept| relay.broker(kept.name.as_str(), kept.broker.clone()))
    }

    /// Publishes at once what a command has committed.
    pub(crate) fn publishing<S: Backend>(&self, store: &S, config: &Config) -> Publishing<S> {
        let deadline = config.guarded().map(|(_, _, rules)| rules.publish_deadline).max().unwrap_or_default();
        Publishing::new(store.clone(), self.relay(store.clone(), config), deadline)
    }

    /// Declares what the queues need, for a process that starts. A broker that is away keeps nobody from starting: it is declared
    /// when something is published or received.
    pub(crate) async fn declare(&self) -> Result<(), Failure> {
        let declare = |kept: &Kept| {
            let place = kept.place.clone();
            tokio::spawn(async move { place.declare().await })
        };
        let under_way: Vec<_> = self.iter().map(declare).collect();
        for (kept, declaring) in self.iter().zip(under_way) {
            let silent = |_| Ok(Err(kept.silent()));
            let declared = tokio::time::timeout(TIMEOUT, declaring).await.unwrap_or_else(silent);
            match declared.map_err(|error| Failure::found(error.to_string()))? {
                Ok(()) => {}
                Err(why) if why.code == UNREACHABLE => {
                    tracing::warn!("{}; continuing without it until it is reachable", why.text);
                }
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }

    /// Refuses what a mutex cannot guard, before it is sent. A broker that is away refuses nothing: what is sent waits for it.
    pub(crate) async fn refuse_fan_out(&self, queues: &[&str]) -> Result<(), Failure> {
        for kept in self.iter().filter(|kept| queues.contains(&kept.name.as_str())) {
            let refused = tokio::time::timeout(TIMEOUT, kept.place.refuse_fan_out()).await;
            if let Ok(Err(refused)) = refused
                && refused.code != UNREACHABLE
            {
                return Err(Failure { text: format!("{}; nothing was sent", refused.text), ..refused });
            }
        }
        Ok(())
    }
}

impl Kept {
    /// The queue's name in the configuration.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its key in the configuration.
    pub(crate) fn key(&self) -> String {
        format!("queues.{}.{}", self.name, self.kind)
    }

    /// What is asked about it.
    pub(crate) fn place(&self) -> &dyn Place {
        &*self.place
    }

    fn silent(&self) -> Failure {
        let (key, addresses) = (self.key(), self.place.addresses());
        let text = format!("{key}: the broker at {addresses} did not answer within {TIMEOUT:?}");
        Failure { code: UNREACHABLE, text }
    }
}
