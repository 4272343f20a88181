//! A type that is no handler.

use ichido::{Process, handlers::Scope};
use ichido_sqlite::Sqlite;

struct Elapsed;

pub fn process(store: Sqlite) -> Process<Sqlite> {
    Process::new(store).handlers(|queue| queue.before(Scope::Worker, "transaction", Elapsed))
}
