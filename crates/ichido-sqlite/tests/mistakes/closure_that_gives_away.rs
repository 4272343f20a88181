//! A closure that gives away what it captured, although it is called once per message.

use ichido::{Outcome, Pool, Process};
use ichido_sqlite::Sqlite;

pub fn process(store: Sqlite) -> Process<Sqlite> {
    let greeting = String::from("hello");
    Process::new(store).action_closure(Pool::new("Greet"), move |cx, name: String| {
        Box::pin(async move {
            cx.send("mail", &format!("{greeting} {name}")).await?;
            Ok(Outcome::Done)
        })
    })
}
