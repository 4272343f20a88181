//! A queue at RabbitMQ as ichido's core knows it: [`ichido::Broker`], on a publisher and sources. The relay publishes through it,
//! the reader of a pool receives from it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ichido::{Outgoing, Unpublished};

use crate::{Broker, Deliveries, Depths, Envelope, Publisher, PublisherSettings, Result, Source, State, Topology};

/// A queue of a broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RabbitMq {
    broker: Broker,
    topology: Arc<Topology>,
    publisher: Publisher,
    /// What the queue needs was there when it was last looked for.
    declared: Arc<AtomicBool>,
}

impl RabbitMq {
    /// The queue of this topology. It connects when there is something to do.
    #[must_use]
    pub fn new(broker: Broker, topology: Topology, settings: PublisherSettings) -> Self {
        let publisher = Publisher::new(broker.clone(), settings);
        Self { broker, topology: Arc::new(topology), publisher, declared: Arc::default() }
    }

    /// Another queue of the same broker. Both publish over one connection.
    #[must_use]
    pub fn beside(&self, topology: Topology) -> Self {
        Self { topology: Arc::new(topology), declared: Arc::default(), ..self.clone() }
    }

    /// The queue, and what is beside it.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Declares what the queue needs, or looks whether it is there: see [`Topology::declare`].
    ///
    /// # Errors
    /// What cannot be had, or not safely.
    pub async fn declare(&self) -> Result<()> {
        self.topology.declare(&self.broker).await
    }

    /// Before anything is published: a message must not find nobody there because its consumer has never run.
    async fn ready(&self) -> Result<()> {
        if self.topology.declare && !self.declared.load(Ordering::Relaxed) {
            self.declare().await?;
            self.declared.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How full its queues are.
    ///
    /// # Errors
    /// If the broker is away, or one of the queues is.
    pub async fn depths(&self) -> Result<Depths> {
        self.topology.depths(&self.broker).await
    }
}

impl ichido::Broker for RabbitMq {
    type Source = Deliveries;

    /// In time: see [`PublisherSettings::publish_deadline`]. What AMQP cannot carry is refused, and the others go their way.
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        if let Err(error) = self.ready().await {
            return messages.iter().map(|_| Err(Unpublished::Unsent(error.to_string()))).collect();
        }
        let (mut envelopes, mut fates) = (Vec::with_capacity(messages.len()), Vec::with_capacity(messages.len()));
        for message in messages {
            let envelope = Envelope::of(message).map_err(|error| Unpublished::Refused(error.to_string()));
            fates.push(envelope.map(|envelope| envelopes.push(envelope)));
        }
        let mut sent = self.publisher.publish(&envelopes).await.into_iter();
        for fate in fates.iter_mut().filter(|fate| fate.is_ok()) {
            *fate = sent.next().expect("one fate for one message");
        }
        if fates.iter().any(|fate| matches!(fate, Err(Unpublished::Unroutable(_)))) {
            self.declared.store(false, Ordering::Relaxed);
        }
        fates
    }

    fn receive(&self, prefetch: u16) -> Deliveries {
        let topology = Topology::clone(&self.topology);
        Deliveries::of(Source::start(self.broker.clone(), topology, prefetch, self.publisher.clone()))
    }

    fn trouble(&self) -> Option<String> {
        trouble(self.publisher.state())
    }
}

pub(crate) fn trouble(state: State) -> Option<String> {
    match state {
        State::Connected | State::Idle => None,
        State::Blocked(reason) => Some(format!("the broker takes no messages: {reason}")),
        State::Away(reason) => Some(reason),
    }
}
