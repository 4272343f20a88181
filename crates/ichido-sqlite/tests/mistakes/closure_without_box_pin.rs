//! A closure that returns its future as it is.

use ichido::{Outcome, Pool, Process};
use ichido_sqlite::Sqlite;

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).action_closure(Pool::new("Greet"), move |cx, name: String| async move {
        cx.send("mail", &name).await?;
        Ok(Outcome::Done)
    })
}
