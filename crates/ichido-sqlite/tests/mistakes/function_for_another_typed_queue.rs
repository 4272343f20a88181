//! An async function that takes another message than its queue has.

use ichido::{Context, Outcome, Pool, Process, QueueOf, Result};
use ichido_sqlite::Sqlite;

const NAMES: QueueOf<String> = QueueOf::named("names");

async fn count(_: &mut Context<Sqlite>, _: i64) -> Result<Outcome> {
    Ok(Outcome::Done)
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).on(&NAMES, Pool::new("Count"), count)
}
