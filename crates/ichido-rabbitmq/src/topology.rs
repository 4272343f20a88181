//! The queue, where its dead letters go, and where busy deliveries wait. Declared in a way that loses nothing, or refused with the
//! reason. What the server can do follows from its version: RabbitMQ accepts arguments that it does not know, and ignores them.

use std::time::Duration;

use lapin::{
    Channel, Connection, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use crate::{Error, Result, Server, Version, depths, error::code, server::answered};

mod look;

pub use look::TopologyLook;

/// The first version whose quorum queues let messages expire, and dead-letter at least once.
const AT_LEAST_ONCE: Version = Version::new(3, 10);

/// The first version that knows `x-consumer-timeout`.
const CONSUMER_TIMEOUT: Version = Version::new(3, 12);

/// The first version without mirrored queues.
const NO_MIRRORS: Version = Version::new(4, 0);

/// RabbitMQ 4 drops or dead-letters what was returned twenty times; ichido counts attempts itself. A number that is never
/// reached, and not a switch that old versions lack: then a queue's arguments stay the same when the broker is upgraded.
const DELIVERY_LIMIT: i32 = 1_000_000_000;

/// AMQP's limit for names.
const LONGEST_NAME: usize = 255;

/// How a queue is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Replicated, always on disk.
    #[default]
    Quorum,
    /// On one node.
    Classic,
    /// Classic, mirrored by a policy (`ha-mode`) that [`Management::mirror`](crate::Management::mirror) sets, or the operator;
    /// before RabbitMQ 4.0 only.
    Mirrored,
}

/// What is declared for one queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Topology {
    /// The queue.
    pub queue: String,
    /// How it is kept.
    pub kind: Kind,
    /// Exchange and routing key of each binding, beside the one that every queue has by its name. The exchanges exist.
    pub bindings: Vec<(String, String)>,
    /// The exchange to which its dead letters go; the routing key is the queue's name.
    pub dead_letter_exchange: String,
    /// The queue in which they are kept.
    pub dead_letter_queue: String,
    /// The queue in which busy deliveries wait.
    pub busy_queue: String,
    /// How long they wait there.
    pub busy_delay: Duration,
    /// More messages than that are refused at publishing.
    pub max_length: Option<u32>,
    /// How long the broker waits for an acknowledgement before it takes a delivery back; the server's own setting if none.
    pub ack_timeout: Option<Duration>,
    /// Whether it is declared, or only looked for.
    pub declare: bool,
}

impl Topology {
    /// A quorum queue with everything beside it: `<queue>.dead` and `<queue>.busy`.
    #[must_use]
    pub fn new(queue: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            kind: Kind::default(),
            bindings: Vec::new(),
            dead_letter_exchange: format!("{queue}.dead"),
            dead_letter_queue: format!("{queue}.dead"),
            busy_queue: format!("{queue}.busy"),
            busy_delay: Duration::from_secs(1),
            max_length: None,
            ack_timeout: None,
            declare: true,
        }
    }

    /// Busy deliveries wait so long, in a queue whose name says so: a broker refuses to change the delay of a queue that is there.
    /// What waits in the one before comes back by itself, and leaves it empty.
    #[must_use]
    pub fn with_busy_delay(mut self, delay: Duration) -> Self {
        self.busy_queue = format!("{}.busy.{}ms", self.queue, delay.as_millis());
        self.busy_delay = delay;
        self
    }

    /// Declares all of it, or looks whether it is there. A second time changes nothing.
    ///
    /// # Errors
    /// What can lose messages on this server is refused, with the reason; what exists with other arguments, with the way out.
    pub async fn declare(&self, broker: &Server) -> Result<()> {
        self.refuse(broker.version().await?)?;
        let connection = broker.connect("ichido topology").await?;
        let declared = async {
            self.can_be_bound(&connection).await?;
            self.declare_on(&connection).await
        };
        answered(&format!("declaring queue {:?}", self.queue), declared).await
    }

    /// The same on a connection that is there.
    pub(crate) async fn declare_on(&self, connection: &Connection) -> Result<()> {
        let channel = connection.create_channel().await.map_err(Error::broker("opening a channel"))?;
        self.exchange(&channel).await?;
        self.queue_is(&channel, &self.dead_letter_queue, self.dead_letter_arguments()).await?;
        self.queue_is(&channel, &self.queue, self.arguments()).await?;
        self.queue_is(&channel, &self.busy_queue, self.busy_arguments()).await?;
        if !self.declare {
            return Ok(());
        }
        bind(&channel, &self.dead_letter_queue, &self.dead_letter_exchange, &self.queue).await?;
        for (exchange, key) in &self.bindings {
            bind(&channel, &self.queue, exchange, key).await?;
        }
        Ok(())
    }

    /// Refuses what cannot be had, or not safely, on a server of this version.
    pub(crate) fn refuse(&self, version: Version) -> Result<()> {
        let names = [&self.queue, &self.dead_letter_exchange, &self.dead_letter_queue, &self.busy_queue];
        let reason = if let Some(name) = names.iter().find(|name| name.is_empty() || name.len() > LONGEST_NAME) {
            format!("the name {name:?} has {} bytes; AMQP allows 1 to {LONGEST_NAME}", name.len())
        } else if version < AT_LEAST_ONCE {
            format!(
                "RabbitMQ {version} can lose messages on their way to the dead-letter queue and back from the busy \
                 queue: upgrade to {AT_LEAST_ONCE} or later, which keeps them until they have arrived"
            )
        } else if self.kind == Kind::Mirrored && version >= NO_MIRRORS {
            format!("RabbitMQ {version} has no mirrored queues: use quorum")
        } else if self.ack_timeout.is_some() && version < CONSUMER_TIMEOUT {
            format!(
                "RabbitMQ {version} ignores a queue's acknowledgement timeout: upgrade to {CONSUMER_TIMEOUT} or \
                 later, or set consumer_timeout in rabbitmq.conf instead"
            )
        } else if self.busy_delay.is_zero() {
            "a busy delay of zero would redeliver busy messages in a tight loop".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Setup(format!("queue {:?}: {reason}", self.queue)))
    }

    /// Is the dead-letter queue there, with the arguments that ichido would give it? The server compares them.
    pub(crate) async fn has_own_dead_letters(&self, connection: &Connection) -> Result<bool> {
        let channel = async || connection.create_channel().await.map_err(Error::broker("opening a channel"));
        let name = &self.dead_letter_queue;
        depths::look(connection, name).await?;
        let compared = Self { declare: true, ..self.clone() };
        match compared.queue_is(&channel().await?, name, self.dead_letter_arguments()).await {
            Ok(()) => Ok(true),
            Err(Error::Setup(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn exchange(&self, channel: &Channel) -> Result<()> {
        let name = &self.dead_letter_exchange;
        let options = ExchangeDeclareOptions { durable: true, passive: !self.declare, ..Default::default() };
        let declared =
            channel.exchange_declare(name.as_str().into(), ExchangeKind::Direct, options, FieldTable::default());
        declared.await.map_err(|error| self.way_out("exchange", name, error))
    }

    async fn queue_is(&self, channel: &Channel, name: &str, arguments: FieldTable) -> Result<()> {
        let options = QueueDeclareOptions { durable: true, passive: !self.declare, ..Default::default() };
        let declared = channel.queue_declare(name.into(), options, arguments).await;
        declared.map(drop).map_err(|error| self.way_out("queue", name, error))
    }

    fn way_out(&self, what: &str, name: &str, error: lapin::Error) -> Error {
        match code(&error) {
            Some(406) => Error::Setup(format!(
                "the {what} {name:?} exists with settings other than ichido's: {error}. Delete it when it is empty, \
                 use another name, or set declare = false to keep it as it is"
            )),
            Some(404) if !self.declare => Error::Setup(format!(
                "the {what} {name:?} does not exist, and declare = false: create it, or set declare = true"
            )),
            Some(403 | 405) => Error::Setup(format!("cannot declare the {what} {name:?}: {error}")),
            _ => Error::Broker { doing: format!("declaring the {what} {name:?}"), source: error },
        }
    }

    fn arguments(&self) -> FieldTable {
        let mut arguments = self.dying_into(&self.dead_letter_exchange);
        if self.kind == Kind::Quorum {
            keep_until_arrived(&mut arguments);
        } else {
            arguments.insert("x-queue-type".into(), text("classic"));
            arguments.insert("x-overflow".into(), text("reject-publish"));
        }
        if let Some(length) = self.max_length {
            arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(length.into()));
        }
        if let Some(timeout) = self.ack_timeout {
            arguments.insert("x-consumer-timeout".into(), milliseconds(timeout));
        }
        arguments
    }

    /// Quorum whatever the queue is: on a classic one what expires can be lost on its way back.
    fn busy_arguments(&self) -> FieldTable {
        let mut arguments = self.dying_into("");
        keep_until_arrived(&mut arguments);
        arguments.insert("x-message-ttl".into(), milliseconds(self.busy_delay));
        arguments
    }

    fn dead_letter_arguments(&self) -> FieldTable {
        let mut arguments = FieldTable::default();
        if self.kind == Kind::Quorum {
            arguments.insert("x-queue-type".into(), text("quorum"));
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERY_LIMIT));
        } else {
            arguments.insert("x-queue-type".into(), text("classic"));
        }
        arguments
    }

    fn dying_into(&self, exchange: &str) -> FieldTable {
        let mut arguments = FieldTable::default();
        arguments.insert("x-dead-letter-exchange".into(), text(exchange));
        arguments.insert("x-dead-letter-routing-key".into(), text(&self.queue));
        arguments
    }
}

/// Both are needed: with another overflow the server falls back to at most once, and says nothing.
fn keep_until_arrived(arguments: &mut FieldTable) {
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERY_LIMIT));
}

async fn bind(channel: &Channel, queue: &str, exchange: &str, key: &str) -> Result<()> {
    let options = QueueBindOptions::default();
    let bound = channel.queue_bind(queue.into(), exchange.into(), key.into(), options, FieldTable::default());
    bound.await.map_err(|error| match code(&error) {
        Some(404) => Error::Setup(format!("cannot bind queue {queue:?}: exchange {exchange:?} does not exist")),
        _ => Error::Broker { doing: format!("binding queue {queue:?} to {exchange:?}"), source: error },
    })
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn milliseconds(time: Duration) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(version: (u16, u16), change: impl FnOnce(&mut Topology)) -> Option<String> {
        let mut topology = Topology::new("orders");
        change(&mut topology);
        topology.refuse(Version::new(version.0, version.1)).err().map(|error| error.to_string())
    }

    #[test]
    fn what_can_lose_messages_is_refused_with_the_reason() {
        assert_eq!(refusal((3, 10), |_| {}), None);
        assert_eq!(refusal((4, 3), |_| {}), None);
        let old = refusal((3, 9), |topology| topology.kind = Kind::Classic).expect("too old");
        assert!(old.contains("\"orders\"") && old.contains("can lose messages"), "{old}");
    }

    #[test]
    fn what_the_server_accepts_and_ignores_is_refused() {
        let timeout = |topology: &mut Topology| topology.ack_timeout = Some(Duration::from_mins(10));
        assert!(refusal((3, 10), timeout).expect("ignored").contains("ignores a queue's acknowledgement timeout"));
        assert_eq!(refusal((3, 12), timeout), None);
    }

    #[test]
    fn mirrors_ended_with_four() {
        let mirrored = |topology: &mut Topology| topology.kind = Kind::Mirrored;
        assert_eq!(refusal((3, 13), mirrored), None);
        assert!(refusal((4, 0), mirrored).expect("gone").contains("use quorum"));
    }

    #[test]
    fn names_and_delays_that_cannot_be_are_refused() {
        assert!(refusal((4, 0), |topology| topology.busy_queue = "q".repeat(256)).is_some());
        assert!(refusal((4, 0), |topology| topology.queue.clear()).is_some());
        assert!(refusal((4, 0), |topology| topology.busy_delay = Duration::ZERO).is_some());
    }
}
