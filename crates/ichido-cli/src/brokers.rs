//! From the configuration to brokers: one for each queue that a broker keeps, all of a process's queues at the same broker over
//! one publishing connection. `program` gives them to the process, `relay` and `send` to a relay; `check` asks them.

use std::time::Duration;

use ichido::{Outgoing, Process, Relay, Unpublished};
use ichido_rabbitmq::{Broker, Deliveries, Error, Kind, Look, Management, PublisherSettings, RabbitMq, Topology};

use crate::{
    config::{self, Config, Guard, RabbitMqType, Url},
    failure::{Failure, UNREACHABLE},
    open::Backend,
    program,
};

/// How long a start waits for a broker; who is not there by then comes later.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long RabbitMQ waits for an acknowledgement, unless it is told otherwise.
const ACK_TIMEOUT: Duration = Duration::from_mins(30);

/// The brokers of a configuration, one for each of its queues that has one.
#[derive(Clone)]
pub(crate) struct Brokers(Vec<Kept>);

/// A queue that a broker keeps.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) name: String,
    urls: Vec<Url>,
    broker: Broker,
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
                (&other.url, &other.management) == (&queue.url, &queue.management) && deadlines.0 == deadlines.1
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

    /// Declares what the queues need, for a process that starts. A broker that is away keeps nobody from starting: it is declared
    /// when something is published or received.
    pub(crate) async fn declare(&self) -> Result<(), Failure> {
        let declare = |kept: &Kept| tokio::spawn(kept.clone().declare(self.others(kept)));
        let under_way: Vec<_> = self.iter().map(declare).collect();
        for (kept, declaring) in self.iter().zip(under_way) {
            let silent = |_| Ok(Err(kept.silent()));
            let declared = tokio::time::timeout(PATIENCE, declaring).await.unwrap_or_else(silent);
            match declared.map_err(|error| Failure::found(error.to_string()))? {
                Ok(()) => {}
                Err(why) if why.code == UNREACHABLE => {
                    tracing::warn!("{}; going on without it, and back when it is there", why.text);
                }
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }

    /// Looks at a queue's broker, and changes nothing there.
    pub(crate) async fn look(&self, kept: &Kept) -> Result<Look, Failure> {
        kept.look(&self.others(kept)).await
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
        let broker = Broker::new(queue.url.iter().map(Url::as_str)).map_err(|error| refused("url", error))?;
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

    /// The queue at the broker.
    pub(crate) fn rabbitmq(&self) -> &RabbitMq {
        &self.rabbitmq
    }

    /// Host and port of each node.
    pub(crate) fn addresses(&self) -> String {
        self.broker.addresses()
    }

    async fn look(&self, others: &[Topology]) -> Result<Look, Failure> {
        let found = self.rabbitmq.topology().look(&self.broker).await.map_err(|error| self.failure(&error))?;
        if let Some((exchange, key)) = &self.alone {
            let others: Vec<_> = others.iter().collect();
            let refused = self.rabbitmq.refuse_fan_out(exchange, key, &others).await;
            refused.map_err(|error| self.failure(&error))?;
        }
        Ok(found)
    }

    /// Nothing is declared of what cannot be had as a whole.
    async fn declare(self, others: Vec<Topology>) -> Result<(), Failure> {
        self.look(&others).await?;
        self.rabbitmq.declare().await.map_err(|error| self.failure(&error))
    }

    fn silent(&self) -> Failure {
        let text = format!("queues.{}.rabbitmq: the broker at {} does not answer", self.name, self.addresses());
        Failure { code: UNREACHABLE, text }
    }

    pub(crate) fn failure(&self, error: &Error) -> Failure {
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

    async fn depths(&self) -> Result<ichido::Depths, String> {
        ichido::Broker::depths(&self.rabbitmq).await
    }
}

/// What an operator should know about queues at brokers.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let kept = config.rabbitmq().filter_map(|(name, queue)| {
        let about = match queue.r#type {
            RabbitMqType::Quorum => return None,
            RabbitMqType::Mirrored if queue.management.is_some() => return None,
            RabbitMqType::Classic => "a classic queue is on one node: what it holds is gone with that node's disk",
            RabbitMqType::Mirrored => {
                "that the policy `ha-mode` is set for the queue, nobody can see without `management`"
            }
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
                "actions.{name}.timeout: a delivery may be out for {rounds} times {timeout:?}, and RabbitMQ takes it back after \
                 {ACK_TIMEOUT:?} unless its `consumer_timeout` says otherwise; its effects are done once all the same"
            )
        })
    });
    kept.chain(late).collect()
}

fn alone(queue: &config::RabbitMq) -> Option<(String, String)> {
    (queue.mutex.guard == Guard::Mutex).then(|| (queue.exchange.clone(), queue.routing_key.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(queue: &str, action: &str) -> Vec<String> {
        let text = format!(
            "[queues.q]\nrabbitmq = {{ url = \"amqp://h\", queue = \"x\"{queue} }}\n[queues.m]\n\
             [actions.A]\nsql = [\"select 1\"]\nconcurrency = 4\n{action}\n"
        );
        warnings(&Config::parse(&text, "ichido.toml", &|_| None).expect("a configuration"))
    }

    #[test]
    fn what_takes_longer_than_the_broker_waits_is_worth_a_word() {
        let from = |queue: &str, timeout: &str| format!("from = \"{queue}\"\ntimeout = \"{timeout}\"");
        assert_eq!(warned("", "from = \"q\""), Vec::<String>::new());
        assert_eq!(warned("", &from("q", "15m")), Vec::<String>::new());
        let long = warned("", &from("q", "16m"));
        assert!(
            long.len() == 1 && long[0].starts_with("actions.A.timeout: a delivery may be out for 2 times"),
            "{long:?}"
        );
        assert_eq!(warned("", &from("m", "16m")), Vec::<String>::new(), "no broker has it");
    }

    #[test]
    fn a_queue_that_is_not_replicated_for_sure_is_worth_a_word() {
        for (keys, part) in [(", type = \"classic\"", "on one node"), (", type = \"mirrored\"", "`ha-mode`")] {
            let warned = warned(keys, "from = \"q\"");
            assert!(warned.len() == 1 && warned[0].contains(part), "{warned:?}");
        }
        let managed = ", type = \"mirrored\", management = \"http://h:15672\"";
        assert_eq!(warned(managed, "from = \"q\""), Vec::<String>::new());
    }
}
