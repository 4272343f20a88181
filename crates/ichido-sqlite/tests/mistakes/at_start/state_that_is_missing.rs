//! An action declares what it needs, and the process was given something else: an `Arc` of it.

use std::sync::Arc;

use ichido::{Context, Outcome, Pool, Process, Result};
use ichido_sqlite::Sqlite;

struct Mailer;

async fn greet(cx: &mut Context<Sqlite>, _: String) -> Result<Outcome> {
    cx.state::<Mailer>()?;
    Ok(Outcome::Done)
}

pub(super) fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).state(Arc::new(Mailer)).action_fn(Pool::new("Greet").needs::<Mailer>(), greet)
}
