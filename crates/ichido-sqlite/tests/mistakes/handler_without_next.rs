//! A handler that does not take the rest of the queue.

use ichido::{Context, Handler, Outcome, Result};
use ichido_sqlite::Sqlite;

pub struct Elapsed;

impl Handler<Sqlite> for Elapsed {
    async fn handle(&self, _: &mut Context<Sqlite>) -> Result<Outcome> {
        Ok(Outcome::Done)
    }
}
