//! How SQLite writes a send in plain SQL, for programs that do not use ichido.

use ichido::error::Result;
use ichido_sql::{PlainDialect, Tables};

use crate::{quote, schema, sql::SqliteDialect};

impl PlainDialect for SqliteDialect {
    const NAME: &'static str = "sqlite";
    const VERSION: u32 = schema::VERSION;

    fn bytes(place: String) -> String {
        format!("cast({place} as blob)")
    }

    fn last_id(_: &Tables) -> String {
        "last_insert_rowid()".to_owned()
    }

    fn literal(text: &str) -> Result<String> {
        quote::literal(text)
    }

    fn name(text: &str) -> Result<String> {
        quote::name(text)
    }
}
