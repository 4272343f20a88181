//! How MariaDB and MySQL write a send in plain SQL, for programs that do not use ichido.

use ichido::error::Result;
use ichido_sql::{PlainDialect, Tables};

use crate::{quote, schema, sql::MySqlDialect};

impl PlainDialect for MySqlDialect {
    const NAME: &'static str = "mysql";
    const VERSION: u32 = schema::VERSION;
    /// `last_insert_id()` is the first one's then, so that its id is known either way.
    const UNLESS_THERE: &'static str = "on duplicate key update id = last_insert_id(id)";

    fn exact(place: String) -> String {
        format!("cast(convert({place} using utf8mb4) as binary)")
    }

    fn bytes(place: String) -> String {
        Self::exact(place)
    }

    fn hash(place: impl FnOnce() -> String) -> Option<String> {
        Some(format!("unhex(sha2({}, 256))", Self::bytes(place())))
    }

    fn key(column: &str) -> String {
        format!("cast({column} as binary)")
    }

    fn last_id(_: &Tables) -> String {
        "last_insert_id()".to_owned()
    }

    fn literal(text: &str) -> Result<String> {
        quote::literal(text)
    }

    fn name(text: &str) -> Result<String> {
        quote::name(text)
    }
}
