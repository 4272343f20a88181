//! An action for another database than the process has.

use ichido::{Action, Context, Outcome, Pool, Process, Result, Store};
use ichido_sqlite::Sqlite;

struct CreateProject;

impl Action<Sqlite> for CreateProject {
    type Message = String;

    async fn handle(&self, _: &mut Context<Sqlite>, _: String) -> Result<Outcome> {
        Ok(Outcome::Done)
    }
}

pub fn process<Postgres: Store>(store: Postgres) -> Process<Postgres> {
    Process::new(store).action(Pool::new("ProjectCreation"), CreateProject)
}
