//! Not a mistake: what the others would be without theirs. It must compile.

use ichido::{Action, BatchAction, Context, Handler, Next, Outcome, Pool, Process, Result};
use ichido_sqlite::Sqlite;

async fn create_project(cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
    cx.send("mail", &name).await?;
    Ok(Outcome::Done)
}

struct CreateProject;

impl Action<Sqlite> for CreateProject {
    type Message = String;

    async fn handle(&self, cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
        create_project(cx, name).await
    }
}

struct CreateProjects;

impl BatchAction<Sqlite> for CreateProjects {
    type Message = String;

    async fn handle(&self, cx: &mut Context<Sqlite>, names: Vec<String>) -> Result<Outcome> {
        cx.send("mail", &names).await?;
        Ok(Outcome::Done)
    }
}

struct Elapsed;

impl Handler<Sqlite> for Elapsed {
    async fn handle(&self, cx: &mut Context<Sqlite>, next: Next<'_, Sqlite>) -> Result<Outcome> {
        next.run(cx).await
    }
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store)
        .action_fn(Pool::new("A"), create_project)
        .action(Pool::new("B"), CreateProject)
        .batch_action(Pool::new("C"), CreateProjects)
        .handlers(|queue| Ok(queue.then(Elapsed)))
}
