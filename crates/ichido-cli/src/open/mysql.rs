//! MariaDB and MySQL: the store of the feature `mysql`.

use ichido::Queue;
use ichido_mysql::MySql;

use super::{Backend, OnStore};
use crate::{config::Config, failure::Failure};

pub(super) async fn run(config: &Config, queues: Vec<Queue>, command: impl OnStore) -> Result<u8, Failure> {
    let database = &config.database;
    let builder = MySql::builder()
        .url(database.url.as_str())
        .connections(0, config.pool())
        .timeout(database.timeout)
        .single_writer(database.single_writer)
        .queues(queues);
    let store = database.schema.iter().fold(builder, |builder, schema| builder.schema(schema)).build();
    command.run(store.map_err(|error| Failure::of::<MySql>(&error))?, config).await
}

impl Backend for MySql {
    fn unverified(&self) -> Vec<String> {
        MySql::unverified(self)
    }
}
