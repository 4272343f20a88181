//! A type that is no action.

use ichido::{Pool, Process};
use ichido_sqlite::Sqlite;

struct CreateProject;

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).action(Pool::new("ProjectCreation"), CreateProject)
}
