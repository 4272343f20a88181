//! An action that keeps something for one thread while it waits.

use std::rc::Rc;

use ichido::{Context, Outcome, Pool, Process, Result};
use ichido_sqlite::Sqlite;

async fn create_project(cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
    let name = Rc::new(name);
    cx.send("mail", &"a project is there").await?;
    drop(name);
    Ok(Outcome::Done)
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).action_fn(Pool::new("ProjectCreation"), create_project)
}
