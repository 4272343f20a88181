//! From the configuration to brokers: one for each queue that a broker keeps, all of a process's queues at the same broker over
//! one publishing connection. `program` gives them to the process, `relay` and `send` to a relay; `check` asks them. Without the feature
//! `rabbitmq`, `no_brokers` stands in for this file.

use std::{fs, io, path::Path, time::Duration};

use ichido::{
    Process, Relay,
    broker::{Outgoing, Unpublished},
    by_hand::Publishing,
    message::GuardBy,
};
use ichido_rabbitmq::{
    Deliveries, Error, Kind, Management, PublisherSettings, RabbitMq, Server, Topology, TopologyLook,
};

use crate::{
    config::{self, Config, RabbitMqType, TlsFiles, Url},
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
    urls: Vec<Url>,
    broker: Server,
    rabbitmq: RabbitMq,
    /// Exchange and routing key, where a message must reach no other queue: a mutex stands for one.
    alone: Option<(String, String)>,
    /// What is configured, in place of what the pool would ask for.
    prefetch: Option<u16>,
}

impl Brokers {
    pub(crate) fn of(config: &Config) -> Result<Self, Failure> {
        let mut made: Vec<(&config::RabbitMq, Kept)> = Vec::new();
        for (name, queue) in config.rabbitmq() {
            let same = made.iter().find(|(other, _)| {
                let deadlines = (other.mutex.publish_deadline, queue.mutex.publish_deadline);
                let place = |queue: &config::RabbitMq| (queue.url.clone(), queue.management.clone(), queue.tls.clone());
                place(other) == place(queue) && deadlines.0 == deadlines.1
            });
            let kept = match same {
                Some((_, first)) => first.beside(name, queue),
                None => Kept::new(name, queue)?,
            };
            made.push((queue, kept));
        }
        Ok(Brokers(made.into_iter().map(|(_, kept)| kept).collect()))
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
        self.iter().fold(process, |process, kept| process.broker(kept.name.as_str(), kept.clone()))
    }

    /// A relay for all of them.
    pub(crate) fn relay<S: Backend>(&self, store: S, config: &Config) -> Relay<S> {
        let relay = Relay::new(store).poll(config.process.poll);
        self.iter().fold(relay, |relay, kept| relay.broker(kept.name.as_str(), kept.clone()))
    }

    /// Publishes at once what a command has committed.
    pub(crate) fn publishing<S: Backend>(&self, store: &S, config: &Config) -> Publishing<S> {
        let deadline = config.rabbitmq().map(|(_, queue)| queue.mutex.publish_deadline).max().unwrap_or_default();
        Publishing::new(store.clone(), self.relay(store.clone(), config), deadline)
    }

    /// Declares what the queues need, for a process that starts. A broker that is away keeps nobody from starting: it is declared
    /// when something is published or received.
    pub(crate) async fn declare(&self) -> Result<(), Failure> {
        let declare = |kept: &Kept| tokio::spawn(kept.clone().declare(self.others(kept)));
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

    /// Refuses what a mutex cannot guard, before it is sent: a message that reaches other queues too. A broker that is away refuses
    /// nothing: what is sent waits for it.
    pub(crate) async fn refuse_fan_out(&self, queues: &[&str]) -> Result<(), Failure> {
        for kept in self.iter().filter(|kept| queues.contains(&kept.name.as_str())) {
            let refused = tokio::time::timeout(TIMEOUT, kept.refuse_fan_out(&self.others(kept))).await;
            if let Ok(Err(refused)) = refused
                && refused.code != UNREACHABLE
            {
                return Err(Failure { text: format!("{}; nothing was sent", refused.text), ..refused });
            }
        }
        Ok(())
    }

    /// The broker's name with its version, and what is to be declared there; changes nothing.
    pub(crate) async fn look(&self, kept: &Kept) -> Result<(String, Vec<String>), Failure> {
        let found = kept.look(&self.others(kept)).await?;
        Ok((format!("RabbitMQ {}", found.version), found.missing))
    }

    /// What else is declared at the same broker.
    fn others(&self, of: &Kept) -> Vec<Topology> {
        let beside = |kept: &&Kept| kept.name != of.name && kept.urls.iter().any(|url| of.urls.contains(url));
        self.iter().filter(beside).map(|kept| kept.rabbitmq.topology().clone()).collect()
    }
}

impl Kept {
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
        Ok(Kept { name, urls, broker, rabbitmq, alone, prefetch: queue.prefetch })
    }

    /// Another queue of the same broker.
    fn beside(&self, name: &str, queue: &config::RabbitMq) -> Self {
        let rabbitmq = self.rabbitmq.beside(topology(queue));
        Kept { name: name.to_owned(), rabbitmq, alone: alone(queue), prefetch: queue.prefetch, ..self.clone() }
    }

    /// The queue's name in the configuration.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The queue at the broker.
    pub(crate) fn rabbitmq(&self) -> &RabbitMq {
        &self.rabbitmq
    }

    /// Host and port of each node.
    pub(crate) fn addresses(&self) -> String {
        self.broker.addresses()
    }

    async fn look(&self, others: &[Topology]) -> Result<TopologyLook, Failure> {
        let found = self.rabbitmq.topology().look(&self.broker).await.map_err(|error| self.failure(&error))?;
        self.refuse_fan_out(others).await?;
        Ok(found)
    }

    async fn refuse_fan_out(&self, others: &[Topology]) -> Result<(), Failure> {
        let Some((exchange, key)) = &self.alone else { return Ok(()) };
        let others: Vec<_> = others.iter().collect();
        self.rabbitmq.refuse_fan_out(exchange, key, &others).await.map_err(|error| self.failure(&error))
    }

    /// Nothing is declared of what cannot be had as a whole.
    async fn declare(self, others: Vec<Topology>) -> Result<(), Failure> {
        self.look(&others).await?;
        self.rabbitmq.declare().await.map_err(|error| self.failure(&error))
    }

    fn silent(&self) -> Failure {
        let text = format!(
            "queues.{}.rabbitmq: the broker at {} did not answer within {TIMEOUT:?}",
            self.name,
            self.addresses()
        );
        Failure { code: UNREACHABLE, text }
    }

    pub(crate) fn failure(&self, error: &Error) -> Failure {
        let text = format!("queues.{}.rabbitmq: {error}", self.name);
        match error {
            Error::Busy(_) => Failure { code: DUPLICATE, text },
            error if error.is_transient() => Failure { code: UNREACHABLE, text },
            _ => Failure::usage(text),
        }
    }
}

impl ichido::broker::Broker for Kept {
    type Source = Deliveries;

    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        self.rabbitmq.publish(messages).await
    }

    fn receive(&self, prefetch: u16) -> Deliveries {
        self.rabbitmq.receive(self.prefetch.unwrap_or(prefetch))
    }

    async fn depths(&self) -> Result<ichido::broker::Depths, String> {
        ichido::broker::Broker::depths(&self.rabbitmq).await
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
