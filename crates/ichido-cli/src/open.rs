//! From the configuration to a store. Commands are written once for every store; this is the only place that knows them all, each
//! in a file of its own.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use ichido::{Guarded, Messages, Operate, Queue, adopt::Adopt, message::Place, sql::RunSql, store::Answers};

use crate::{
    config::{Config, QueueKind, RabbitMq},
    failure::Failure,
    features,
};

/// What the command line needs of a store; all three have it.
pub trait Backend: Operate + Messages + Answers + RunSql + Adopt {
    /// Its servers, host and port, that are not on this host and whose certificate is not verified.
    fn unverified(&self) -> Vec<String>;
}

/// A command that works on any store.
pub(crate) trait OnStore {
    /// Runs it and returns the exit code.
    fn run<S: Backend>(self, store: S, config: &Config) -> impl Future<Output = Result<u8, Failure>> + Send;
}

/// Opens the store of the configuration and runs a command on it.
pub(crate) async fn on_store(config: &Config, command: impl OnStore) -> Result<u8, Failure> {
    features::check(config)?;
    run(config, command).await.map_err(|failure| failure.in_file(config))
}

async fn run(config: &Config, command: impl OnStore) -> Result<u8, Failure> {
    let queues: Vec<_> = config.queues.iter().filter_map(|(name, queue)| queue_of(name, queue, config)).collect();
    match config.database.url.scheme() {
        #[cfg(feature = "sqlite")]
        "sqlite" => sqlite::run(config, queues, command).await,
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => mysql::run(config, queues, command).await,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => postgres::run(config, queues, command).await,
        scheme => unreachable!("`{scheme}` was refused above"),
    }
}

/// The queue as the library knows it; what is not built was refused when the configuration was read.
fn queue_of(name: &str, queue: &crate::config::Queue, config: &Config) -> Option<Queue> {
    let place = match &queue.kind {
        QueueKind::Managed => Place::Managed,
        QueueKind::Table(table) => Place::Table(table.clone()),
        QueueKind::RabbitMq(kept) => Place::Broker(Box::new(guarded(kept, config))),
        QueueKind::Sqs(_) => return None,
    };
    let mut made = Queue::managed(name).payload_limit(usize::try_from(queue.payload_limit).unwrap_or(usize::MAX));
    made.place = place;
    Some(made)
}

/// How a broker's queue is guarded.
fn guarded(queue: &RabbitMq, config: &Config) -> Guarded {
    let rules = &queue.mutex;
    let mut guarded =
        Guarded::new(&queue.exchange, &queue.routing_key).queue(&queue.queue).relay_after(rules.relay_after);
    guarded.by = rules.guard;
    guarded.claim = config.claim(rules);
    guarded.on_busy = rules.on_busy;
    guarded
}
