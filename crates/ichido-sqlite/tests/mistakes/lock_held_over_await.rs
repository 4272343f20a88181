//! A type whose action holds a lock of the standard library while it waits.

use std::sync::Mutex;

use ichido::{Action, Context, Outcome, Pool, Process, Result};
use ichido_sqlite::Sqlite;

struct CreateProject {
    count: Mutex<u32>,
}

impl Action<Sqlite> for CreateProject {
    type Message = String;

    async fn handle(&self, cx: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
        let mut count = self.count.lock().unwrap();
        *count += 1;
        cx.send("mail", &name).await?;
        Ok(Outcome::Done)
    }
}

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).action(Pool::new("ProjectCreation"), CreateProject { count: Mutex::new(0) })
}
