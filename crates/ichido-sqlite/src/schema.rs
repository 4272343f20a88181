//! ichido's own tables: their version, and the way from one version to the next. A binary works with the schema it knows and
//! with newer ones that say so (`oldest`), so that processes one version apart can share a database.

use ichido::{
    Migration, Result,
    backend::{self, Migrations},
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection};

use crate::{Sqlite, connect::setup_error};

/// The version of the schema that this binary was written for.
pub const VERSION: u32 = 6;

/// Each version's statements, and the oldest binary that still works with it.
const MIGRATIONS: [(u32, u32, &str); 6] = [
    (1, 1, include_str!("migrations/0001.sql")),
    (2, 2, include_str!("migrations/0002.sql")),
    (3, 2, include_str!("migrations/0003.sql")),
    (4, 3, include_str!("migrations/0004.sql")),
    (5, 4, include_str!("migrations/0005.sql")),
    (6, 5, include_str!("migrations/0006.sql")),
];

const TABLE: &str = "create table if not exists ichido_schema (version integer primary key, oldest integer not null, \
    applied_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) strict";

/// Refuses a schema that is missing, too old or too new for this binary.
pub(crate) async fn check(connection: &mut SqliteConnection) -> Result<()> {
    let (version, oldest) = version(connection).await?;
    backend::refuse_version(version, oldest, VERSION)
}

/// The version in the database and the oldest binary that works with it; zeros if there is none.
async fn version(connection: &mut SqliteConnection) -> Result<(u32, u32)> {
    let there = sqlx::query("select 1 from sqlite_schema where type = 'table' and name = 'ichido_schema'");
    if there.fetch_optional(&mut *connection).await.map_err(setup_error)?.is_none() {
        return Ok((0, 0));
    }
    let newest = sqlx::query("select version, oldest from ichido_schema order by version desc limit 1");
    let Some(row) = newest.fetch_optional(connection).await.map_err(setup_error)? else { return Ok((0, 0)) };
    Ok((row.try_get(0)?, row.try_get(1)?))
}

fn migrations() -> Migrations {
    Migrations { table: TABLE.into(), name: "ichido_schema".into(), versions: &MIGRATIONS }
}

impl Sqlite {
    /// What [`Sqlite::migrate_schema`] would do.
    pub(crate) async fn pending_schema(&self) -> Result<Migration> {
        let from = if self.path().exists() {
            let mut connection = self.readers.acquire().await.map_err(|error| self.unreachable(error))?;
            version(&mut connection).await?.0
        } else {
            0
        };
        Ok(migrations().from(from))
    }

    /// Creates the file and ichido's tables, or upgrades them, all in one transaction, one process at a time.
    pub(crate) async fn migrate_schema(&self) -> Result<Migration> {
        let _turn = self.shared.line.wait().await.map_err(|error| self.unreachable(error))?;
        let mut connection = self.creating().connect().await.map_err(|error| self.unreachable(error))?;
        let mut tx = connection.begin_with("begin immediate").await.map_err(|error| self.unreachable(error))?;
        let (from, _) = version(&mut tx).await?;
        let migration = migrations().from(from);
        for step in &migration.statements {
            sqlx::raw_sql(AssertSqlSafe(step.clone())).execute(&mut *tx).await.map_err(setup_error)?;
        }
        tx.commit().await?;
        connection.close().await?;
        Ok(migration)
    }
}
