//! Queues at RabbitMQ, as the command line needs them: all of a configuration's queues at the same broker publish over one connection, and
//! each knows the others there, for a mutex stands for one queue.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use ichido::{
    BoxFuture,
    broker::{AnyBroker, Broker, DeadLetter, Depths, Outgoing, Unpublished},
    message::GuardBy,
};
use ichido_rabbitmq::{
    DeadLetters, Deliveries, Delivery, Error, Kind, Management, PublisherSettings, REASON, RabbitMq, Server, Settled,
    Topology, TopologyLook,
};

use super::{
    Found, Kept, Opened, Place, Seen,
    dead_letters::{ReadsDeadLetters, opened},
    failing::{FailsAtBroker, failure},
};
use crate::{
    config::{self, Config, RabbitMqType, TlsFiles, Url},
    failure::Failure,
};

/// The management API tells what was so a while ago.
const STALE: Duration = Duration::from_secs(10);

/// A queue at RabbitMQ.
#[derive(Clone)]
struct AtRabbitMq {
    name: String,
    urls: Vec<Url>,
    broker: Server,
    rabbitmq: RabbitMq,
    /// Exchange and routing key, where a message must reach no other queue: a mutex stands for one.
    alone: Option<(String, String)>,
    /// What is configured, in place of what the pool would ask for.
    prefetch: Option<u16>,
    /// What else is declared at the same broker.
    others: Vec<Topology>,
}

pub(super) fn all(config: &Config) -> Result<Vec<Kept>, Failure> {
    let mut made: Vec<(&config::RabbitMq, AtRabbitMq)> = Vec::new();
    for (name, queue) in config.rabbitmq() {
        let same = made.iter().find(|(other, _)| {
            let deadlines = (other.mutex.publish_deadline, queue.mutex.publish_deadline);
            let place = |queue: &config::RabbitMq| (queue.url.clone(), queue.management.clone(), queue.tls.clone());
            place(other) == place(queue) && deadlines.0 == deadlines.1
        });
        let kept = match same {
            Some((_, first)) => first.beside(name, queue),
            None => AtRabbitMq::new(name, queue)?,
        };
        made.push((queue, kept));
    }
    let all: Vec<AtRabbitMq> = made.into_iter().map(|(_, kept)| kept).collect();
    Ok(all.iter().map(|kept| kept.clone().among(&all)).collect())
}

impl AtRabbitMq {
    fn new(name: &str, queue: &config::RabbitMq) -> Result<Self, Failure> {
        let refused = |key: &str, error: Error| Failure::usage(format!("queues.{name}.rabbitmq.{key}: {error}"));
        let broker = Server::new(queue.url.iter().map(Url::as_str)).map_err(|error| refused("url", error))?;
        let broker = encrypted(name, broker, &queue.tls)?;
        let mut settings = PublisherSettings::default();
        settings.publish_deadline = queue.mutex.publish_deadline;
        let mut rabbitmq = RabbitMq::new(broker.clone(), topology(queue), settings);
        if let Some(url) = &queue.management {
            let management = Management::new(url.as_str(), &broker).map_err(|error| refused("management", error))?;
            rabbitmq = rabbitmq.managed(management);
        }
        let (name, urls, alone) = (name.to_owned(), queue.url.clone(), alone(queue));
        Ok(AtRabbitMq { name, urls, broker, rabbitmq, alone, prefetch: queue.prefetch, others: Vec::new() })
    }

    /// Another queue of the same broker.
    fn beside(&self, name: &str, queue: &config::RabbitMq) -> Self {
        let rabbitmq = self.rabbitmq.beside(topology(queue));
        AtRabbitMq { name: name.to_owned(), rabbitmq, alone: alone(queue), prefetch: queue.prefetch, ..self.clone() }
    }

    fn among(mut self, all: &[AtRabbitMq]) -> Kept {
        let beside = |kept: &&AtRabbitMq| kept.name != self.name && kept.urls.iter().any(|url| self.urls.contains(url));
        self.others = all.iter().filter(beside).map(|kept| kept.rabbitmq.topology().clone()).collect();
        let (name, broker) = (self.name.clone(), AnyBroker::new(self.clone()));
        Kept { name, kind: "rabbitmq", broker, place: Arc::new(self) }
    }

    async fn found(&self) -> Result<TopologyLook, Failure> {
        let found = self.rabbitmq.topology().look(&self.broker).await.map_err(|error| self.failure(&error))?;
        self.is_alone().await?;
        Ok(found)
    }

    async fn is_alone(&self) -> Result<(), Failure> {
        let Some((exchange, key)) = &self.alone else { return Ok(()) };
        let others: Vec<_> = self.others.iter().collect();
        self.rabbitmq.refuse_fan_out(exchange, key, &others).await.map_err(|error| self.failure(&error))
    }

    async fn seen(&self) -> Result<Option<Seen>, Failure> {
        let found = match self.rabbitmq.depths().await {
            Ok(found) => found,
            Err(Error::Missing(_)) => return Ok(None),
            Err(error) => return Err(self.failure(&error)),
        };
        let unacknowledged = match self.rabbitmq.management() {
            None => None,
            Some(_) => Broker::depths(&self.rabbitmq).await.ok().and_then(|depths| depths.unacknowledged),
        };
        let stale = if unacknowledged.is_some() { STALE } else { Duration::ZERO };
        let (ready, busy, dead) = (found.queue.into(), found.busy.into(), found.dead.into());
        let counted = Depths { ready, unacknowledged, busy, dead, stale };
        Ok(Some(Seen { counted, consumers: Some(found.consumers) }))
    }

    fn key(&self) -> String {
        format!("queues.{}.rabbitmq", self.name)
    }

    fn failure(&self, error: &Error) -> Failure {
        failure(&self.key(), error)
    }
}

impl Place for AtRabbitMq {
    fn addresses(&self) -> String {
        self.broker.addresses()
    }

    fn declares(&self) -> bool {
        self.rabbitmq.topology().declare
    }

    fn look(&self) -> BoxFuture<'_, Result<Found, Failure>> {
        Box::pin(async {
            let found = self.found().await?;
            let version = format!("RabbitMQ {}", found.version);
            Ok(Found { version, missing: found.missing, warnings: Vec::new() })
        })
    }

    fn declare(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async {
            self.found().await?;
            self.rabbitmq.declare().await.map_err(|error| self.failure(&error))
        })
    }

    fn refuse_fan_out(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.is_alone())
    }

    fn depths(&self) -> BoxFuture<'_, Result<Option<Seen>, Failure>> {
        Box::pin(self.seen())
    }

    fn dead_letters(&self) -> BoxFuture<'_, Result<Opened, Failure>> {
        Box::pin(async { opened(self.key(), self.rabbitmq.dead_letters().await) })
    }
}

impl Broker for AtRabbitMq {
    type Source = Deliveries;

    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        self.rabbitmq.publish(messages).await
    }

    fn receive(&self, prefetch: u16) -> Deliveries {
        self.rabbitmq.receive(self.prefetch.unwrap_or(prefetch))
    }

    async fn depths(&self) -> Result<Depths, String> {
        Broker::depths(&self.rabbitmq).await
    }
}

impl FailsAtBroker for Error {
    fn is_busy(&self) -> bool {
        matches!(self, Error::Busy(_))
    }

    fn is_transient(&self) -> bool {
        self.is_transient()
    }
}

impl ReadsDeadLetters for DeadLetters {
    type Delivery = Delivery;
    type Error = Error;

    async fn page(&mut self, most: usize) -> Result<Vec<Delivery>, Error> {
        let mut page = Vec::new();
        while page.len() < most
            && let Some(delivery) = self.next().await?
        {
            page.push(delivery);
        }
        Ok(page)
    }

    fn dead_letter(delivery: &Delivery) -> DeadLetter {
        DeadLetter { received: delivery.received(), reason: delivery.header(REASON), row: delivery.row() }
    }

    async fn delete(&mut self, delivery: &Delivery) -> bool {
        self.delete(delivery).await == Settled::Told
    }

    async fn close(self) -> Result<(), Error> {
        self.close().await
    }
}

/// With the files that are named. What cannot be used is refused now, and not each time that it connects.
fn encrypted(name: &str, mut broker: Server, files: &TlsFiles) -> Result<Server, Failure> {
    let refused = |key: &str, why: String| Failure::usage(format!("queues.{name}.rabbitmq.{key}: {why}"));
    let read = |key: &str, file: &Path| {
        let why = |error: io::Error| refused(key, format!("cannot read {}: {error}", file.display()));
        fs::read_to_string(file).map_err(why)
    };
    if let Some(ca) = &files.ca {
        broker =
            broker.trusting(read("ca", ca)?).map_err(|error| refused("ca", format!("{}: {error}", ca.display())))?;
    }
    if let Some((cert, key)) = &files.identity {
        let identified = broker.identified(read("cert", cert)?, read("key", key)?);
        broker =
            identified.map_err(|error| refused("cert", format!("{}, {}: {error}", cert.display(), key.display())))?;
    }
    Ok(broker)
}

fn alone(queue: &config::RabbitMq) -> Option<(String, String)> {
    (queue.mutex.guard == GuardBy::Mutex).then(|| (queue.exchange.clone(), queue.routing_key.clone()))
}

fn topology(queue: &config::RabbitMq) -> Topology {
    let mut topology = Topology::new(&queue.queue).with_busy_delay(queue.mutex.busy_delay);
    topology.kind = match queue.r#type {
        RabbitMqType::Quorum => Kind::Quorum,
        RabbitMqType::Classic => Kind::Classic,
        RabbitMqType::Mirrored => Kind::Mirrored,
    };
    if !queue.exchange.is_empty() {
        topology.bindings = vec![(queue.exchange.clone(), queue.routing_key.clone())];
    }
    topology.declare = queue.declare;
    topology
}
