//! An action that does not say what becomes of the message.

use ichido::{Context, Pool, Process, Result};
use ichido_sqlite::Sqlite;

async fn create_project(_: &mut Context<Sqlite>, _: String) -> Result<()> {
    Ok(())
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).action_fn(Pool::new("ProjectCreation"), create_project)
}
