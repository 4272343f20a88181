//! An action for one message at a time, given as a batch action.

use ichido::{Action, Context, Outcome, Pool, Process, Result};
use ichido_sqlite::Sqlite;

struct CreateProjects;

impl Action<Sqlite> for CreateProjects {
    type Message = String;

    async fn handle(&self, _: &mut Context<Sqlite>, _: String) -> Result<Outcome> {
        Ok(Outcome::Done)
    }
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).batch_action(Pool::new("ProjectCreation"), CreateProjects)
}
