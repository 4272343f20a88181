//! Queues at SQS, as the command line needs them. Those of one service have one client.

use std::{sync::Arc, time::Duration};

use ichido::{
    BoxFuture,
    broker::{AnyBroker, DeadLetter, Received},
    store::is_loopback,
};
use ichido_sqs::{DeadLetters, Delivery, Error, Server, Settings, Sqs, Topology};

use super::{DUPLICATE, Found, Kept, Opened, Place, Reading, Seen};
use crate::{
    config::{self, Config},
    failure::{Failure, UNREACHABLE},
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
        let sqs = Sqs::new(server, topology(queue), settings(queue));
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
    fn failure(&self, error: &Error) -> Failure {
        let text = format!("queues.{}.sqs: {error}", self.name);
        match error {
            Error::Busy(_) => Failure { code: DUPLICATE, text },
            error if error.is_transient() => Failure { code: UNREACHABLE, text },
            _ => Failure::usage(text),
        }
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
            let warnings = found.warnings.iter().map(|told| format!("queues.{}.sqs: {told}", self.name)).collect();
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
        Box::pin(async {
            match self.sqs.dead_letters().await {
                Ok(reading) => Ok(Opened::Reading(Box::new(Letters { of: self.clone(), reading, page: Vec::new() }))),
                Err(Error::Busy(why)) => Ok(Opened::Busy(why)),
                Err(error) => Err(self.failure(&error)),
            }
        })
    }
}

/// A reading of dead letters.
struct Letters {
    of: AtSqs,
    reading: DeadLetters,
    /// The last page.
    page: Vec<Delivery>,
}

impl Reading for Letters {
    fn page(&mut self, most: usize) -> BoxFuture<'_, Result<Vec<DeadLetter>, Failure>> {
        Box::pin(async move {
            self.page = self.reading.page(most).await.map_err(|error| self.of.failure(&error))?;
            let told = |(tag, letter): (u64, &Delivery)| {
                let told = letter.dead_letter();
                DeadLetter { received: Received { tag, ..told.received }, ..told }
            };
            Ok((0..).zip(&self.page).map(told).collect())
        })
    }

    fn delete(&mut self, tag: u64) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            match usize::try_from(tag).ok().and_then(|at| self.page.get(at)) {
                Some(letter) => self.reading.delete(letter).await,
                None => false,
            }
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Failure>> {
        Box::pin(async move {
            self.reading.close().await;
            Ok(())
        })
    }
}
