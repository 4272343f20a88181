//! ichido's own tables: their names, their version, and the way from one version to the next. A binary works with the
//! schema it knows and with newer ones that say so (`oldest`), so that processes one version apart can share a database.

use ichido::{error::Result, store::Version};
pub use ichido_sql::VERSION;
use ichido_sql::{Migrations, Tables};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::connect::setup_error;

static VERSIONS: [Version; VERSION as usize] = ichido_sql::versions!();

/// Refuses a schema that is missing, too old or too new for this binary.
pub(crate) async fn check(connection: &mut MySqlConnection, tables: &Tables) -> Result<()> {
    ichido_sql::refuse_version(version(connection, tables).await?, VERSION)
}

/// The version in the database and the oldest binary that works with it; zeros if there is none.
pub(crate) async fn version(connection: &mut MySqlConnection, tables: &Tables) -> Result<(u32, u32)> {
    let there = "select count(*) from information_schema.tables where table_schema = coalesce(?, database()) and table_name = 'ichido_schema'";
    let there = sqlx::query(there).bind(database(tables)).fetch_one(&mut *connection).await.map_err(setup_error)?;
    if there.try_get::<i64, _>(0)? == 0 {
        return Ok((0, 0));
    }
    let newest = format!("select version, oldest from {} order by version desc limit 1", tables.schema);
    let newest = sqlx::query(AssertSqlSafe(newest)).fetch_optional(connection).await.map_err(setup_error)?;
    let Some(row) = newest else { return Ok((0, 0)) };
    Ok((row.try_get::<i32, _>(0)?.unsigned_abs(), row.try_get::<i32, _>(1)?.unsigned_abs()))
}

/// The way to the newest version. Its statements name tables without their schema: who runs them says which it is.
pub(crate) fn migrations(tables: &Tables) -> Migrations {
    let version = &tables.schema;
    let (mut session, mut table) = (vec!["set session lock_wait_timeout = 1".to_owned()], Vec::new());
    if let Some(schema) = &tables.schema_name {
        session.push(format!("create database if not exists {schema}"));
        session.push(format!("use {schema}"));
    }
    table.push(format!(
        "create table if not exists {version} (version int primary key, oldest int not null, applied_at timestamp(6) not null default current_timestamp(6)) engine = InnoDB"
    ));
    Migrations { session, table, name: version.clone(), versions: &VERSIONS }
}

/// The database that our tables are in, if it is another than the connection's.
pub(crate) fn database(tables: &Tables) -> Option<String> {
    tables.schema_name.as_ref().map(|name| name.trim_matches('`').replace("``", "`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_locks_one_table_at_most() {
        let migrations = migrations(&Tables::new(None));
        assert_eq!(migrations.versions.last().map(|version| version.number), Some(VERSION));
        assert_eq!(migrations.steps_with_several_locks(), Vec::<String>::new());
    }
}
