//! A queue at SQS as ichido's core knows it: [`ichido::broker::Broker`], on a publisher and sources. The relay publishes through it, the reader
//! of a pool receives from it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ichido::broker::{Depths, Outgoing, Unpublished, publish_made};
use tokio::time::timeout;

use crate::{
    Deliveries, Envelope, Publisher, Result, Server, Subscription, Topology,
    publisher::{AT_ONCE, BATCH},
};

/// How a queue is used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How long a delivery is out of sight before it must be renewed, which it is while it is in hand. 60 s.
    pub visibility: Duration,
    /// How long a receive waits for messages. 20 s.
    pub wait: Duration,
    /// After what time a busy delivery comes back. 5 s.
    pub busy_delay: Duration,
    /// After this time the fate of a message is told, whatever it is. 30 s.
    pub publish_deadline: Duration,
    /// How old SQS's counts may be. 60 s.
    pub stale: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            visibility: seconds(60),
            wait: seconds(20),
            busy_delay: seconds(5),
            publish_deadline: seconds(30),
            stale: seconds(60),
        }
    }
}

/// A queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sqs {
    server: Server,
    topology: Arc<Topology>,
    settings: Settings,
    publisher: Publisher,
    /// What the queue needs was there when it was last looked for.
    declared: Arc<AtomicBool>,
}

impl Sqs {
    /// The queue of this topology. It connects when there is something to do.
    #[must_use]
    pub fn new(server: Server, topology: Topology, settings: Settings) -> Self {
        let publisher = Publisher::new(server.clone(), settings.publish_deadline);
        Self { server, topology: Arc::new(topology), settings, publisher, declared: Arc::default() }
    }

    /// The service.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The queue, and its dead letters.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Makes what the queue needs, or looks whether it is there: see [`Topology::declare`].
    ///
    /// # Errors
    /// What cannot be had.
    pub async fn declare(&self) -> Result<()> {
        self.topology.declare(&self.server).await
    }

    /// How full its queues are.
    ///
    /// # Errors
    /// If the service is away, or one of the queues is.
    pub async fn depths(&self) -> Result<Depths> {
        self.topology.depths(&self.server, self.settings.stale).await
    }

    /// Before anything is published: a message must not find nobody there because its consumer has never run.
    async fn ready(&self) -> Result<(), Unpublished> {
        if !self.topology.declare || self.declared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let declared = timeout(self.settings.publish_deadline, self.declare()).await;
        let declared =
            declared.map_err(|_| Unpublished::Unsent("the queue could not be created in time".to_owned()))?;
        declared.map_err(|error| Unpublished::Unsent(error.to_string()))?;
        self.declared.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl ichido::broker::Broker for Sqs {
    type Source = Deliveries;

    /// In time: see [`Settings::publish_deadline`]. What SQS cannot carry is refused, and the others go their way.
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        if let Err(error) = self.ready().await {
            return messages.iter().map(|_| Err(error.clone())).collect();
        }
        let envelope = |message| Envelope::of(message).map_err(|error| Unpublished::Unroutable(error.to_string()));
        let publish = async |envelopes: &[Envelope]| self.publisher.publish(envelopes).await;
        let fates = publish_made(messages.iter().map(envelope), publish).await;
        if fates.iter().any(|fate| matches!(fate, Err(Unpublished::Unroutable(_)))) {
            self.declared.store(false, Ordering::Relaxed);
        }
        fates
    }

    /// Whole batches, and no more than are sent at once.
    fn at_a_time(&self) -> usize {
        AT_ONCE * BATCH
    }

    fn receive(&self, prefetch: u16) -> Deliveries {
        let (topology, settings) = (Topology::clone(&self.topology), self.settings.clone());
        let source = Subscription::start(self.server.clone(), topology, settings, prefetch, self.publisher.clone());
        Deliveries::of(source)
    }

    async fn depths(&self) -> Result<Depths, String> {
        self.depths().await.map_err(|error| error.to_string())
    }
}
