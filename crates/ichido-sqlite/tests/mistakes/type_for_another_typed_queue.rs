//! The same for a type.

use ichido::{Action, Context, Outcome, Pool, Process, QueueOf, Result};
use ichido_sqlite::Sqlite;

const NAMES: QueueOf<String> = QueueOf::named("names");

struct Count;

impl Action<Sqlite> for Count {
    type Message = i64;

    async fn handle(&self, _: &mut Context<Sqlite>, _: i64) -> Result<Outcome> {
        Ok(Outcome::Done)
    }
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).on(&NAMES, Pool::new("Count"), Count)
}
