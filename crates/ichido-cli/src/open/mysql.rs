//! MariaDB and MySQL: the store of the feature `mysql`.

use ichido::Queue;
use ichido_mysql::MySql;

use super::OnStore;
use crate::{config::Config, failure::Failure};

pub(super) async fn run(config: &Config, queues: Vec<Queue>, command: impl OnStore) -> Result<u8, Failure> {
    let database = &config.database;
    let (url, schema) = (database.url.as_str(), database.schema.as_deref());
    let store = MySql::new(url, schema, config.pool(), database.single_writer, queues);
    let store = store.map_err(|error| Failure::of::<MySql>(&error))?;
    command.run(store.timeout(database.timeout), config).await
}
