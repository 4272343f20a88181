//! How PostgreSQL writes a send in plain SQL, for programs that do not use ichido.

use ichido::{error::Result, store::ProcessId};
use ichido_sql::{PlainDialect, Tables};

use crate::{notify::CHANNEL, quote, schema, sql::PostgresDialect};

impl PlainDialect for PostgresDialect {
    const NAME: &'static str = "postgres";
    const VERSION: u32 = schema::VERSION;

    fn place(at: usize) -> String {
        format!("${at}")
    }

    fn text(place: String) -> String {
        format!("{place}::text")
    }

    fn number(place: String) -> String {
        format!("{place}::bigint")
    }

    fn bytes(place: String) -> String {
        format!("convert_to({place}::text, 'UTF8')")
    }

    fn hash(place: impl FnOnce() -> String) -> Option<String> {
        Some(format!("sha256({})", Self::bytes(place())))
    }

    fn process(id: ProcessId) -> String {
        format!("'{id}'::uuid")
    }

    fn last_id(tables: &Tables) -> String {
        format!("currval(pg_get_serial_sequence('{}', 'id'))", tables.message.replace('\'', "''"))
    }

    fn wake(queue: &str) -> Option<String> {
        Some(format!("select pg_notify('{CHANNEL}', {queue})"))
    }

    fn literal(text: &str) -> Result<String> {
        quote::literal(text)
    }

    fn name(text: &str) -> Result<String> {
        quote::name(text)
    }
}
