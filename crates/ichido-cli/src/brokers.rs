//! From the configuration to brokers: one for each queue that a broker keeps, all of a process's queues at the same broker over
//! one publishing connection. `program` gives them to the process, `relay` and `send` to a relay; `check` asks them.

use std::time::Duration;

use ichido::{CancellationToken, Outgoing, Process, Relay, Unpublished};
use ichido_rabbitmq::{Broker, Deliveries, Error, Kind, Look, PublisherSettings, Topology};

use crate::{
    config::{self, Config, RabbitMqType, Url},
    failure::{Failure, UNREACHABLE},
    open::Backend,
    program,
};

/// How long a start waits for a broker; who is not there by then comes later.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long RabbitMQ waits for an acknowledgement, unless it is told otherwise.
const ACK_TIMEOUT: Duration = Duration::from_mins(30);

/// The longest pause between two tries to declare something.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The brokers of a configuration, one for each of its queues that has one.
#[derive(Clone)]
pub(crate) struct Brokers(Vec<Kept>);

/// A queue that a broker keeps.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) name: String,
    broker: Broker,
    rabbitmq: ichido_rabbitmq::RabbitMq,
    /// How long the broker may take to confirm a message.
    pub(crate) publish_deadline: Duration,
    /// What is configured, in place of what the pool would ask for.
    prefetch: Option<u16>,
}

impl Brokers {
    pub(crate) fn of(config: &Config) -> Result<Self, Failure> {
        let mut made: Vec<(&[Url], Duration, Kept)> = Vec::new();
        for (name, queue) in config.rabbitmq() {
            let deadline = queue.mutex.publish_deadline;
            let same = made.iter().find(|(urls, other, _)| *urls == queue.url && *other == deadline);
            let kept = match same {
                Some((_, _, first)) => first.beside(name, queue),
                None => Kept::new(name, queue)?,
            };
            made.push((&queue.url, deadline, kept));
        }
        Ok(Brokers(made.into_iter().map(|(_, _, kept)| kept).collect()))
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

    /// Declares what the queues need. Who does not answer is told of, and is asked again until it does: a broker that is away keeps
    /// nobody from starting.
    pub(crate) async fn declare(&self, stop: &CancellationToken) -> Result<(), Failure> {
        let tries: Vec<_> = self.0.iter().cloned().map(|kept| tokio::spawn(kept.declare_soon())).collect();
        for (kept, tried) in self.iter().zip(tries) {
            match tried.await.map_err(|error| Failure::found(error.to_string()))? {
                Ok(()) => {}
                Err(why) if why.code == UNREACHABLE => {
                    tracing::warn!("{}; going on without it, and back when it is there", why.text);
                    tokio::spawn(kept.clone().declare_later(stop.clone()));
                }
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }
}

impl Kept {
    fn new(name: &str, queue: &config::RabbitMq) -> Result<Self, Failure> {
        let broker = Broker::new(queue.url.iter().map(Url::as_str))
            .map_err(|error| Failure::usage(format!("queues.{name}.rabbitmq.url: {error}")))?;
        let mut settings = PublisherSettings::default();
        let publish_deadline = queue.mutex.publish_deadline;
        settings.publish_deadline = publish_deadline;
        let rabbitmq = ichido_rabbitmq::RabbitMq::new(broker.clone(), topology(queue), settings);
        Ok(Kept { name: name.to_owned(), broker, rabbitmq, publish_deadline, prefetch: queue.prefetch })
    }

    /// Another queue of the same broker.
    fn beside(&self, name: &str, queue: &config::RabbitMq) -> Self {
        let rabbitmq = self.rabbitmq.beside(topology(queue));
        Kept { name: name.to_owned(), rabbitmq, prefetch: queue.prefetch, ..self.clone() }
    }

    /// Host and port of each node.
    pub(crate) fn addresses(&self) -> String {
        self.broker.addresses()
    }

    /// Looks at the broker, and changes nothing there.
    pub(crate) async fn look(&self) -> Result<Look, Failure> {
        self.rabbitmq.topology().look(&self.broker).await.map_err(|error| self.failure(&error))
    }

    pub(crate) async fn declare(&self, patience: Duration) -> Result<(), Failure> {
        let declared = tokio::time::timeout(patience, self.rabbitmq.declare()).await;
        let silent = |_| Failure { code: UNREACHABLE, text: self.told("does not answer") };
        declared.map_err(silent)?.map_err(|error| self.failure(&error))
    }

    async fn declare_soon(self) -> Result<(), Failure> {
        self.declare(PATIENCE).await
    }

    async fn declare_later(self, stop: CancellationToken) {
        let mut pause = Duration::from_millis(200);
        let trying = async {
            while let Err(why) = self.declare(LONGEST_PAUSE).await {
                if why.code != UNREACHABLE {
                    tracing::error!("{}", why.text);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            tracing::info!(queue = self.name, "{}", self.told("is there, with all that the queue needs"));
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = trying => {}
        }
    }

    fn told(&self, what: &str) -> String {
        format!("queues.{}.rabbitmq: the broker at {} {what}", self.name, self.addresses())
    }

    fn failure(&self, error: &Error) -> Failure {
        let text = format!("queues.{}.rabbitmq: {error}", self.name);
        if error.is_transient() { Failure { code: UNREACHABLE, text } } else { Failure::usage(text) }
    }
}

impl ichido::Broker for Kept {
    type Source = Deliveries;

    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        self.rabbitmq.publish(messages).await
    }

    fn receive(&self, prefetch: u16) -> Deliveries {
        self.rabbitmq.receive(self.prefetch.unwrap_or(prefetch))
    }

    fn trouble(&self) -> Option<String> {
        self.rabbitmq.trouble()
    }
}

/// What an operator should know about queues at brokers.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let kept = config.rabbitmq().filter_map(|(name, queue)| {
        let about = match queue.r#type {
            RabbitMqType::Quorum => return None,
            RabbitMqType::Classic => "a classic queue is on one node: what it holds is gone with that node's disk",
            RabbitMqType::Mirrored => "whether the policy `ha-mode` is set for the queue, nobody can see over AMQP",
        };
        Some(format!("queues.{name}.rabbitmq.type: {about}; `quorum` is safe"))
    });
    let late = config.actions.iter().filter_map(|(name, action)| {
        let (slots, timeout) = (program::workers(action, config).max(1), action.timeout?);
        let at_broker = program::queues(action, config).into_iter().any(|queue| config.rabbitmq().any(|(at, _)| at == queue));
        // What is read ahead waits for those before it.
        let rounds = 1 + config.read_ahead(slots).div_ceil(slots);
        (at_broker && timeout * rounds > ACK_TIMEOUT).then(|| {
            format!(
                "actions.{name}.timeout: a delivery may be out for {rounds} times {timeout:?}, and RabbitMQ takes it back after                  {ACK_TIMEOUT:?} unless its `consumer_timeout` says otherwise; its effects are done once all the same"
            )
        })
    });
    kept.chain(late).collect()
}

fn topology(queue: &config::RabbitMq) -> Topology {
    let mut topology = Topology::new(&queue.queue);
    topology.kind = match queue.r#type {
        RabbitMqType::Quorum => Kind::Quorum,
        RabbitMqType::Classic => Kind::Classic,
        RabbitMqType::Mirrored => Kind::Mirrored,
    };
    if !queue.exchange.is_empty() {
        topology.bindings = vec![(queue.exchange.clone(), queue.routing_key.clone())];
    }
    topology.busy_delay = queue.mutex.busy_delay;
    topology.declare = queue.declare;
    topology
}
