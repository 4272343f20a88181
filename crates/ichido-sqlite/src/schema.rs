//! ichido's own tables: their version, and the way from one version to the next. A binary works with the schema it knows and
//! with newer ones that say so (`oldest`), so that processes one version apart can share a database.

use ichido::{error::Result, store::Version};
use ichido_sql::Migrations;
pub use ichido_sql::VERSION;
use sqlx::{Row, SqliteConnection};

use crate::connect::setup_error;

static VERSIONS: [Version; VERSION as usize] = ichido_sql::versions!();

const TABLE: &str = "create table if not exists ichido_schema (version integer primary key, oldest integer not null, \
    applied_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) strict";

/// Refuses a schema that is missing, too old or too new for this binary.
pub(crate) async fn check(connection: &mut SqliteConnection) -> Result<()> {
    ichido_sql::refuse_version(version(connection).await?, VERSION)
}

/// The version in the database and the oldest binary that works with it; zeros if there is none.
pub(crate) async fn version(connection: &mut SqliteConnection) -> Result<(u32, u32)> {
    let there = sqlx::query("select 1 from sqlite_schema where type = 'table' and name = 'ichido_schema'");
    if there.fetch_optional(&mut *connection).await.map_err(setup_error)?.is_none() {
        return Ok((0, 0));
    }
    let newest = sqlx::query("select version, oldest from ichido_schema order by version desc limit 1");
    let Some(row) = newest.fetch_optional(connection).await.map_err(setup_error)? else { return Ok((0, 0)) };
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// The way to the newest version.
pub(crate) fn migrations() -> Migrations {
    Migrations { session: Vec::new(), table: vec![TABLE.into()], name: "ichido_schema".into(), versions: &VERSIONS }
}
