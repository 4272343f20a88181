//! PostgreSQL: the store of the feature `postgres`.

use ichido::Queue;
use ichido_postgres::Postgres;

use super::{Backend, OnStore};
use crate::{config::Config, failure::Failure};

pub(super) async fn run(config: &Config, queues: Vec<Queue>, command: impl OnStore) -> Result<u8, Failure> {
    let database = &config.database;
    let builder = Postgres::builder()
        .url(database.url.as_str())
        .connections(0, config.pool())
        .timeout(database.timeout)
        .notify(config.process.notify)
        .queues(queues);
    let store = database.schema.iter().fold(builder, |builder, schema| builder.schema(schema)).build();
    command.run(store.map_err(|error| Failure::of::<Postgres>(&error))?, config).await
}

impl Backend for Postgres {
    fn unverified(&self) -> Vec<String> {
        Postgres::unverified(self)
    }
}
