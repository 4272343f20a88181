//! Queues at SQS, as the command line needs them. Those of one service have one client.

use std::{sync::Arc, time::Duration};

use ichido::{
    BoxFuture,
    broker::{AnyBroker, DeadLetter},
    store::is_loopback,
};
use ichido_sqs::{DeadLetters, Delivery, Error, Server, Settings, Sqs, Topology};

use super::{
    Found, Kept, Opened, Place, Seen,
    dead_letters::{ReadsDeadLetters, opened},
    failing::{FailsAtBroker, failure},
};
use crate::{
    config::{self, Config},
    failure::Failure,
};

/// A queue at SQS.
#[derive(Clone)]
struct AtSqs {
    name: String,
    sqs: Sqs,
}

pub(super) fn all(config: &Config) -> Result<Vec<Kept>, Failure> {
    let mut servers: Vec<(Service, Server)> = Vec::new();
    let mut all = Vec::new();
    for (name, queue) in config.sqs() {
        let service = service(queue);
        let known = servers.iter().find(|(other, _)| *other == service).map(|(_, server)| server.clone());
        let server = match known {
            Some(server) => server,
            None => server_of(name, queue)?,
        };
        servers.push((service, server.clone()));
        let mut topology = topology(queue);
        topology.payload_limit = config.queues.get(name).map(|queue| queue.payload_limit);
        let sqs = Sqs::new(server, topology, settings(queue));
        let broker = AnyBroker::new(sqs.clone());
        let name = name.to_owned();
        all.push(Kept { name: name.clone(), kind: "sqs", broker, place: Arc::new(AtSqs { name, sqs }) });
    }
    Ok(all)
}

type Service = (Option<String>, Option<String>, String);

/// Where it is, as it is written; a queue's own address says so too.
fn service(queue: &config::Sqs) -> Service {
    let own = queue.queue.rsplit_once('/').map_or("", |(place, _)| place).to_owned();
    (queue.region.clone(), queue.endpoint.as_ref().map(|url| url.as_str().to_owned()), own)
}

fn server_of(name: &str, queue: &config::Sqs) -> Result<Server, Failure> {
    let (region, endpoint) = (queue.region.as_deref(), queue.endpoint.as_ref().map(config::Url::as_str));
    if !queue.queue.contains("://") {
        return Ok(Server::new(region, endpoint));
    }
    let refused = |error: Error| Failure::usage(format!("queues.{name}.sqs.queue: {error}"));
    Server::of_url(&queue.queue, region, endpoint).map_err(refused)
}

fn topology(queue: &config::Sqs) -> Topology {
    let mut topology = Topology::new(&queue.queue);
    if let Some(dead_letter) = &queue.dead_letter {
        topology.dead_letter.clone_from(dead_letter);
    }
    topology.declare = queue.declare;
    topology
}

fn settings(queue: &config::Sqs) -> Settings {
    let mut settings = Settings::default();
    settings.visibility = queue.visibility;
    settings.wait = queue.wait;
    settings.busy_delay = queue.mutex.busy_delay;
    settings.publish_deadline = queue.mutex.publish_deadline;
    // What runs on this host counts what it has, and does not sum up what many servers had.
    if queue.endpoint.as_ref().is_some_and(|url| is_loopback(url.host())) {
        settings.stale = Duration::from_secs(1);
    }
    settings
}

impl AtSqs {
    fn key(&self) -> String {
        format!("queues.{}.sqs", self.name)
    }

    fn failure(&self, error: &Error) -> Failure {
        failure(&self.key(), error)
    }
}

impl Place for AtSqs {
    fn addresses(&self) -> String {
        self.sqs.server().address()
    }

    fn declares(&self) -> bool {
        self.sqs.topology().declare
    }

    fn look(&self) -> BoxFuture<'_, Result<Found, Failure>> {
        Box::pin(async {
            let found = self.sqs.topology().look(self.sqs.server()).await.map_err(|error| self.failure(&error))?;
            let warnings = found.warnings.iter().map(|told| format!("{}: {told}", self.key())).collect();
            Ok(Found { version: "SQS".to_owned(), missing: found.missing, warnings })
        })
    }

    fn declare(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { self.sqs.declare().await.map_err(|error| self.failure(&error)) })
    }

    /// A queue has nobody else's messages here: there are no exchanges.
    fn refuse_fan_out(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }

    fn depths(&self) -> BoxFuture<'_, Result<Option<Seen>, Failure>> {
        Box::pin(async {
            match self.sqs.depths().await {
                Ok(counted) => Ok(Some(Seen { counted, consumers: None })),
                Err(Error::Missing(_)) => Ok(None),
                Err(error) => Err(self.failure(&error)),
            }
        })
    }

    fn dead_letters(&self) -> BoxFuture<'_, Result<Opened, Failure>> {
        Box::pin(async { opened(self.key(), self.sqs.dead_letters().await) })
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
        self.page(most).await
    }

    fn dead_letter(delivery: &Delivery) -> DeadLetter {
        delivery.dead_letter()
    }

    async fn delete(&mut self, delivery: &Delivery) -> bool {
        self.delete(delivery).await
    }

    async fn close(self) -> Result<(), Error> {
        self.close().await;
        Ok(())
    }
}
