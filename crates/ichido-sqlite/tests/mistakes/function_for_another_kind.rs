//! The same for a kind.

use ichido::{Context, KindOf, Kinds, Outcome, Result};
use ichido_sqlite::Sqlite;

const NAMED: KindOf<String> = KindOf::named("events", "named");

async fn count(_: &mut Context<Sqlite>, _: i64) -> Result<Outcome> {
    Ok(Outcome::Done)
}

pub fn kinds() -> Kinds<Sqlite> {
    Kinds::by("kind").on(&NAMED, count)
}
