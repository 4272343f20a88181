//! A queue at RabbitMQ as ichido's core knows it: [`ichido::broker::Broker`], on a publisher and sources. The relay publishes through it,
//! the reader of a pool receives from it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ichido::broker::{Outgoing, Unpublished, publish_made};
use tokio::time::timeout;

use crate::{
    Binding, Deliveries, Depths, Envelope, Error, Kind, Management, Publisher, PublisherSettings, Result, Server,
    State, Subscription, Topology,
};

/// How old counts of the management API may be: it collects them every five seconds, of each queue at another moment.
const STALE: Duration = Duration::from_secs(10);

/// A queue of a broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RabbitMq {
    broker: Server,
    topology: Arc<Topology>,
    publisher: Publisher,
    management: Option<Management>,
    /// What the queue needs was there when it was last looked for.
    declared: Arc<AtomicBool>,
}

impl RabbitMq {
    /// The queue of this topology. It connects when there is something to do.
    #[must_use]
    pub fn new(broker: Server, topology: Topology, settings: PublisherSettings) -> Self {
        let publisher = Publisher::new(broker.clone(), settings);
        Self { broker, topology: Arc::new(topology), publisher, management: None, declared: Arc::default() }
    }

    /// Another queue of the same broker. Both publish over one connection.
    #[must_use]
    pub fn beside(&self, topology: Topology) -> Self {
        Self { topology: Arc::new(topology), declared: Arc::default(), ..self.clone() }
    }

    /// With the management API, for what AMQP cannot do.
    #[must_use]
    pub fn managed(mut self, management: Management) -> Self {
        self.management = Some(management);
        self
    }

    /// The management API, if it was given.
    #[must_use]
    pub fn management(&self) -> Option<&Management> {
        self.management.as_ref()
    }

    pub(crate) fn broker(&self) -> &Server {
        &self.broker
    }

    pub(crate) fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// The queue, and what is beside it.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Declares what the queue needs, or looks whether it is there: see [`Topology::declare`]. A mirrored queue gets its policy,
    /// if the management API was given; otherwise the operator has set it.
    ///
    /// # Errors
    /// What cannot be had, or not safely.
    pub async fn declare(&self) -> Result<()> {
        self.topology.declare(&self.broker).await?;
        match &self.management {
            Some(management) if self.topology.kind == Kind::Mirrored && self.topology.declare => {
                management.mirror(&self.topology).await
            }
            _ => Ok(()),
        }
    }

    /// Refuses to guard by a mutex what is published to this exchange with this key, if it reaches another queue too: one of the
    /// others' that are known, or any that the management API tells of. Without that API nobody can be asked.
    ///
    /// # Errors
    /// With the other queue's name; or if the API is away.
    pub async fn refuse_fan_out(&self, exchange: &str, routing_key: &str, others: &[&Topology]) -> Result<()> {
        let mut bindings: Vec<Binding> = others.iter().flat_map(|other| other.own_bindings()).collect();
        self.topology.refuse_fan_out(exchange, routing_key, &bindings)?;
        if let Some(management) = self.management.as_ref().filter(|_| !exchange.is_empty()) {
            bindings.extend(management.bindings(exchange).await?);
        }
        self.topology.refuse_fan_out(exchange, routing_key, &bindings)
    }

    /// Before anything is published: a message must not find nobody there because its consumer has never run.
    async fn ready(&self) -> Result<(), Unpublished> {
        if !self.topology.declare || self.declared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let declared = timeout(self.publisher.deadline(), self.declare()).await;
        match declared.map_err(|_| Unpublished::Unsent("the queue could not be declared in time".to_owned()))? {
            Ok(()) => {}
            // The queue is there; only its policy is not known.
            Err(error @ Error::Management { .. }) => tracing::warn!(
                %error,
                "cannot set the mirroring policy; publishing anyway"
            ),
            Err(error) => return Err(Unpublished::Unsent(error.to_string())),
        }
        self.declared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Why nothing can be published now, if that is known.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        trouble(self.publisher.state())
    }

    /// None if one of its queues is so new that it is not counted yet.
    async fn counted(&self, management: &Management) -> Result<Option<ichido::broker::Depths>> {
        let Topology { queue, busy_queue, dead_letter_queue, .. } = &*self.topology;
        let counts = async |queue: &str| management.counts_so_far(queue).await;
        let (Some(queue), Some(busy), Some(dead)) =
            (counts(queue).await?, counts(busy_queue).await?, counts(dead_letter_queue).await?)
        else {
            return Ok(None);
        };
        let out = queue.total.saturating_sub(queue.ready);
        let (ready, busy, dead) = (queue.ready, busy.total, dead.total);
        Ok(Some(ichido::broker::Depths { ready, unacknowledged: Some(out), busy, dead, stale: STALE }))
    }

    /// How full its queues are.
    ///
    /// # Errors
    /// If the broker is away, or one of the queues is.
    pub async fn depths(&self) -> Result<Depths> {
        self.topology.depths(&self.broker).await
    }
}

impl ichido::broker::Broker for RabbitMq {
    type Source = Deliveries;

    /// In time: see [`PublisherSettings::publish_deadline`]. What AMQP cannot carry is refused, and the others go their way.
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        if let Err(error) = self.ready().await {
            return messages.iter().map(|_| Err(error.clone())).collect();
        }
        let envelope = |message| Envelope::of(message).map_err(|error| Unpublished::Refused(error.to_string()));
        let publish = async |envelopes: &[Envelope]| self.publisher.publish(envelopes).await;
        let fates = publish_made(messages.iter().map(envelope), publish).await;
        if fates.iter().any(|fate| matches!(fate, Err(Unpublished::Unroutable(_)))) {
            self.declared.store(false, Ordering::Relaxed);
        }
        fates
    }

    fn receive(&self, prefetch: u16) -> Deliveries {
        let topology = Topology::clone(&self.topology);
        Deliveries::of(Subscription::start(self.broker.clone(), topology, prefetch, self.publisher.clone()))
    }

    /// With what is out and not acknowledged, if the management API was given.
    async fn depths(&self) -> Result<ichido::broker::Depths, String> {
        if let Some(management) = &self.management {
            match self.counted(management).await {
                Ok(Some(counted)) => return Ok(counted),
                Ok(None) => tracing::debug!("the management API has not counted all queues yet"),
                Err(error) => tracing::warn!(%error, "cannot count unacknowledged messages"),
            }
        }
        let seen = self.topology.depths(&self.broker).await.map_err(|error| error.to_string())?;
        Ok(ichido::broker::Depths {
            ready: seen.queue.into(),
            unacknowledged: None,
            busy: seen.busy.into(),
            dead: seen.dead.into(),
            stale: Duration::ZERO,
        })
    }
}

pub(crate) fn trouble(state: State) -> Option<String> {
    match state {
        State::Connected | State::Idle => None,
        State::Blocked(reason) => Some(format!("the broker accepts no messages: {reason}")),
        State::Away(reason) => Some(reason),
    }
}
