//! ichido's own tables: their names, their version, and the way from one version to the next. A binary works with the
//! schema it knows and with newer ones that say so (`oldest`), so that processes one version apart can share a database.

use ichido::{error::Result, store::Version};
pub use ichido_sql::VERSION;
use ichido_sql::{Migrations, Tables};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::connect::setup_error;

static VERSIONS: [Version; VERSION as usize] = ichido_sql::versions!();

/// Refuses a schema that is missing, too old or too new for this binary.
pub(crate) async fn check(connection: &mut PgConnection, tables: &Tables) -> Result<()> {
    ichido_sql::refuse_version(version(connection, tables).await?, VERSION)
}

/// The version in the database and the oldest binary that works with it; zeros if there is none.
pub(crate) async fn version(connection: &mut PgConnection, tables: &Tables) -> Result<(u32, u32)> {
    let there = sqlx::query("select to_regclass($1) is not null").bind(&tables.schema);
    if !there.fetch_one(&mut *connection).await.map_err(setup_error)?.try_get::<bool, _>(0)? {
        return Ok((0, 0));
    }
    let newest = format!("select version, oldest from {} order by version desc limit 1", tables.schema);
    let newest = sqlx::query(AssertSqlSafe(newest)).fetch_optional(connection).await.map_err(setup_error)?;
    let Some(row) = newest else { return Ok((0, 0)) };
    Ok((row.try_get::<i32, _>(0)?.unsigned_abs(), row.try_get::<i32, _>(1)?.unsigned_abs()))
}

/// The way to the newest version. Its statements name tables without their schema: who runs them sets the search path.
pub(crate) fn migrations(tables: &Tables) -> Migrations {
    let version = &tables.schema;
    let (mut session, mut table) = (vec!["set lock_timeout = '1s'".to_owned()], Vec::new());
    if let Some(schema) = &tables.schema_name {
        session.push(format!("set search_path to {schema}"));
        // `if not exists` alone asks for the right to create one, also where it is there already.
        let name = schema.replace('\'', "''");
        table.push(format!(
            "do $ichido$ begin if to_regnamespace('{name}') is null then create schema if not exists {schema}; end if; end $ichido$"
        ));
    }
    table.push(format!(
        "create table if not exists {version} (version integer primary key, oldest integer not null, applied_at timestamptz not null default now())"
    ));
    Migrations { session, table, name: version.clone(), versions: &VERSIONS }
}

/// A table of ours with its schema.
pub(crate) fn qualified(tables: &Tables, table: &str) -> String {
    tables.schema_name.as_ref().map_or_else(|| table.to_owned(), |schema| format!("{schema}.{table}"))
}

/// Makes names without a schema mean ours, until the transaction ends.
pub(crate) fn search_path(tables: &Tables) -> Option<String> {
    tables.schema_name.as_ref().map(|schema| format!("set local search_path to {schema}"))
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
