//! An action that does not take a message.

use ichido::{Context, Outcome, Pool, Process, Result};
use ichido_sqlite::Sqlite;

async fn create_project(_: &mut Context<Sqlite>) -> Result<Outcome> {
    Ok(Outcome::Done)
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).action_fn(Pool::new("ProjectCreation"), create_project)
}
