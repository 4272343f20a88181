//! Not a mistake: what the others would be without theirs. It must compile.

use ichido::{
    Action, BatchAction, Client, Context, Handler, KindOf, Kinds, Next, Outcome, Pool, Process, QueueOf, Result,
};
use ichido_sqlite::Sqlite;

const NAMES: QueueOf<String> = QueueOf::named("names");
const NAMED: KindOf<String> = KindOf::named("events", "named");

async fn create_project(cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
    cx.send("mail", &name).await?;
    cx.to(&NAMES).level("member").send(&name).await?;
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
        .on(&NAMES, Pool::new("D"), create_project)
        .on(&NAMES, Pool::new("E"), CreateProject)
        .on_closure(&NAMES, Pool::new("G"), |cx, name| Box::pin(async move { create_project(cx, name).await }))
        .on_batch(&NAMES, Pool::new("F"), CreateProjects)
        .action(Pool::new("G"), Kinds::by("kind").on(&NAMED, create_project).on("other", CreateProject))
        .action(Pool::new("H"), Kinds::by("kind").on_closure("a", |cx, name: String| Box::pin(create_project(cx, name))))
        .handlers(|queue| Ok(queue.then(Elapsed)))
}

pub async fn send(client: Client<Sqlite>, tx: &mut <Sqlite as ichido::store::Database>::Connection) -> Result<()> {
    client.to(&NAMES).send(tx, &"anna".into()).await?;
    client.to(&NAMED).unique("ben").send_all(tx, &["ben".into()]).await?;
    Ok(())
}
