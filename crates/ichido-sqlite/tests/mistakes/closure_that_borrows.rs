//! A closure that borrows what it needs, although it runs as long as the process does.

use ichido::{Outcome, Pool, Process};
use ichido_sqlite::Sqlite;

pub fn process(store: Sqlite) -> Process<Sqlite> {
    let greeting = String::from("hello");
    Process::new(store).action_closure(Pool::new("Greet"), |cx, name: String| {
        let text = format!("{greeting} {name}");
        Box::pin(async move {
            cx.send("mail", &text).await?;
            Ok(Outcome::Done)
        })
    })
}
