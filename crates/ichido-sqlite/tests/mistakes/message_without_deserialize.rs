//! The message type of an action cannot be read.

use ichido::{Context, Outcome, Pool, Process, Result};
use ichido_sqlite::Sqlite;

struct Order {
    pub name: String,
}

async fn create_project(_: &mut Context<Sqlite>, _: Order) -> Result<Outcome> {
    Ok(Outcome::Done)
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).action_fn(Pool::new("ProjectCreation"), create_project)
}
