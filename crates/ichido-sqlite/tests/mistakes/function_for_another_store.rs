//! The same for a function.

use ichido::{Context, Outcome, Pool, Process, Result, Store};
use ichido_sqlite::Sqlite;

async fn create_project(_: &mut Context<Sqlite>, _: String) -> Result<Outcome> {
    Ok(Outcome::Done)
}

pub fn process<Postgres: Store>(store: Postgres) -> Process<Postgres> {
    Process::new(store).action_fn(Pool::new("ProjectCreation"), create_project)
}
