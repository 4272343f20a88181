//! PostgreSQL: the store of the feature `postgres`.

use ichido::Queue;
use ichido_postgres::Postgres;

use super::OnStore;
use crate::{config::Config, failure::Failure};

pub(super) async fn run(config: &Config, queues: Vec<Queue>, command: impl OnStore) -> Result<u8, Failure> {
    let (url, schema) = (config.database.url.as_str(), config.database.schema.as_deref());
    let store = Postgres::new(url, schema, config.pool(), queues).map_err(|error| Failure::of::<Postgres>(&error))?;
    let store = store.timeout(config.database.timeout);
    command.run(if config.process.notify { store } else { store.without_notify() }, config).await
}
