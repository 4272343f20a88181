//! SQLite, which is built in: the store of the feature `sqlite`.

use ichido::Queue;
use ichido_sqlite::Sqlite;

use super::{Backend, OnStore};
use crate::{config::Config, failure::Failure};

pub(super) async fn run(config: &Config, queues: Vec<Queue>, command: impl OnStore) -> Result<u8, Failure> {
    let store = Sqlite::new(config.database.url.as_str(), queues);
    command.run(store.map_err(|error| Failure::of::<Sqlite>(&error))?, config).await
}

/// There is no server.
impl Backend for Sqlite {
    fn unverified(&self) -> Vec<String> {
        Vec::new()
    }
}
