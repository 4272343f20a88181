//! Looks at a queue's table in the server's catalog and refuses what cannot work, naming the thing and the nearest match.
//! What it finds goes to `statements`.

use ichido::{Error, Queue, Table, adopt::TableName, error::Result, message::Place};
use ichido_sql::{Mapping, Tables};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use crate::{
    connect::setup_error,
    quote,
    statements::{Column, Rows, Statements},
};

/// An owner column must hold a UUID as text.
const OWNER_WIDTH: i32 = 36;

/// Builds the statements of a queue after a look at its table.
pub(crate) async fn look(connection: &mut PgConnection, tables: &Tables, queue: &Queue) -> Result<Statements> {
    let rows = match &queue.place {
        Place::Table(table) => business_table(connection, queue, table, None).await?,
        _ => Rows::own(tables, queue)?,
    };
    Statements::new(tables, queue, rows)
}

/// The rows of a business table; `to_come` is its owner column if that is not there yet.
pub(crate) async fn business_table(
    connection: &mut PgConnection,
    queue: &Queue,
    table: &Table,
    to_come: Option<Column>,
) -> Result<Rows> {
    let full_name = full_name(table.schema.as_deref(), &table.name)?;
    let mut columns = columns(connection, queue, table, &full_name).await?;
    let owner_is_there = to_come.is_none();
    columns.extend(to_come);
    let key = key(connection, queue, table, &full_name).await?;
    let find = |name: &str| find(queue, &columns, name);
    let key: Vec<Column> = key.iter().map(|name| find(name)).collect::<Result<_>>()?;
    let quoted = key.iter().map(|column| column.quoted.clone()).collect();
    let oid = sqlx::query("select to_regclass($1)::oid::bigint").bind(&full_name).fetch_one(&mut *connection).await;
    let oid: i64 = oid.and_then(|row| row.try_get(0)).map_err(setup_error)?;
    let mut mapping = Mapping::of(table, full_name.clone(), quoted, |name| Ok(find(name)?.quoted))?;
    mapping.identity = format!("{oid}:{}", table.part());
    if let Some(sent_at) = &table.sent_at {
        ichido_sql::refuse_sent_at(queue, sent_at, &find(sent_at)?.kind)?;
    }
    if let Some(group) = &table.group_by {
        mapping.all_grouped = is_required(connection, &full_name, group).await?;
    }
    let rows = Rows { mapping, owner: find(&table.owner)?, key, columns };
    refuse_generated(connection, queue, &rows, table).await?;
    if owner_is_there {
        refuse_owner(connection, queue, table, &rows).await?;
    }
    refuse_status(connection, queue, &rows).await?;
    refuse_width(connection, queue, table, &rows).await?;
    Ok(rows)
}

pub(crate) fn full_name(schema: Option<&str>, name: &str) -> Result<String> {
    let name = quote::name(name)?;
    Ok(match schema {
        Some(schema) => format!("{}.{name}", quote::name(schema)?),
        None => name,
    })
}

async fn columns(connection: &mut PgConnection, queue: &Queue, table: &Table, full_name: &str) -> Result<Vec<Column>> {
    let found = sqlx::query(
        "select a.attname::text, format_type(a.atttypid, -1) \
         from pg_attribute a where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped order by a.attnum",
    );
    let found = found.bind(full_name).fetch_all(&mut *connection).await.map_err(setup_error)?;
    if found.is_empty() {
        let known = names(connection).await?;
        return Err(ichido_sql::unknown_table(queue, table, &known));
    }
    refuse_kind(connection, queue, table, full_name).await?;
    found.iter().map(|row| Column::new(row.try_get(0)?, row.try_get(1)?)).collect()
}

async fn is_required(connection: &mut PgConnection, full_name: &str, column: &str) -> Result<bool> {
    let about = sqlx::query("select attnotnull from pg_attribute where attrelid = to_regclass($1) and attname = $2");
    let about = about.bind(full_name).bind(column).fetch_one(connection).await.map_err(setup_error)?;
    Ok(about.try_get(0)?)
}

/// The tables of all schemas.
pub(crate) async fn names(connection: &mut PgConnection) -> Result<Vec<TableName>> {
    let tables = sqlx::query(
        "select n.nspname::text, c.relname::text, pg_table_is_visible(c.oid) from pg_class c \
         join pg_namespace n on n.oid = c.relnamespace where c.relkind in ('r', 'p') \
         and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') order by 1, 2",
    );
    let tables = tables.fetch_all(connection).await.map_err(setup_error)?;
    let name = |row: &PgRow| Ok(TableName { schema: row.try_get(0)?, name: row.try_get(1)?, plain: row.try_get(2)? });
    tables.iter().map(name).collect()
}

/// Views have no rows of their own, and those of a foreign table are in another transaction.
async fn refuse_kind(connection: &mut PgConnection, queue: &Queue, table: &Table, full_name: &str) -> Result<()> {
    let kind = sqlx::query("select relkind::text from pg_class where oid = to_regclass($1)").bind(full_name);
    let kind: String = kind.fetch_one(connection).await.and_then(|row| row.try_get(0)).map_err(setup_error)?;
    let what = match &*kind {
        "r" | "p" => return Ok(()),
        "v" => "a view",
        "m" => "a materialized view",
        "f" => "a foreign table",
        _ => "no table",
    };
    Err(ichido_sql::not_a_table(queue, table, what))
}

/// The server computes some columns, and numbers others itself.
async fn refuse_generated(connection: &mut PgConnection, queue: &Queue, rows: &Rows, table: &Table) -> Result<()> {
    for (key, column) in [("status", &table.status.column), ("owner", &table.owner)] {
        let about = sqlx::query(
            "select attgenerated <> '' or attidentity = 'a' from pg_attribute where attrelid = to_regclass($1) and attname = $2",
        );
        let about =
            about.bind(&rows.mapping.table).bind(column).fetch_optional(&mut *connection).await.map_err(setup_error)?;
        let generated = about.map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        ichido_sql::refuse_generated(queue, key, column, generated)?;
    }
    Ok(())
}

fn find(queue: &Queue, columns: &[Column], name: &str) -> Result<Column> {
    let found = columns.iter().find(|column| column.name == name).cloned();
    found
        .ok_or_else(|| ichido_sql::unknown_column(&queue.name, name, columns.iter().map(|column| column.name.as_str())))
}

/// The unique indexes: is it the primary key, its columns, can none of them be null?
pub(crate) async fn unique(connection: &mut PgConnection, full_name: &str) -> Result<Vec<(bool, Vec<String>, bool)>> {
    let unique = sqlx::query(
        "select i.indisprimary, array(select a.attname::text from unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) with ordinality k(n, at) \
            join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.n order by k.at), \
            (select bool_and(a.attnotnull) from pg_attribute a where a.attrelid = i.indrelid and a.attnum = any((i.indkey::int2[])[0:i.indnkeyatts - 1])) \
         from pg_index i where i.indrelid = to_regclass($1) and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null",
    );
    let unique = unique.bind(full_name).fetch_all(connection).await.map_err(setup_error)?;
    unique.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
}

/// The key columns: those of the configuration if a NOT NULL unique index has exactly them, else the primary key.
async fn key(connection: &mut PgConnection, queue: &Queue, table: &Table, full_name: &str) -> Result<Vec<String>> {
    let mut primary = None;
    for (is_primary, columns, not_null) in unique(connection, full_name).await? {
        let mut sorted = (columns.clone(), table.key.clone());
        sorted.0.sort_unstable();
        sorted.1.sort_unstable();
        if not_null && sorted.0 == sorted.1 {
            return Ok(table.key.clone());
        }
        if is_primary {
            primary = Some(columns);
        }
    }
    let given = table.key.join(", ");
    match primary {
        Some(primary) if table.key.is_empty() => Ok(primary),
        _ if table.key.is_empty() => Err(Error::Setup(format!(
            "queues.{}: the table `{}` has no primary key; name the columns of a NOT NULL unique index in `key`",
            queue.name, table.name
        ))),
        _ => {
            let hint = primary.map(|key| format!("; its primary key is ({})", key.join(", "))).unwrap_or_default();
            Err(ichido_sql::unfit(
                queue,
                "key",
                format!("the table `{}` has no NOT NULL unique index on exactly ({given}){hint}", table.name),
            ))
        }
    }
}

async fn refuse_owner(connection: &mut PgConnection, queue: &Queue, table: &Table, rows: &Rows) -> Result<()> {
    let about = sqlx::query(
        "select attnotnull, case when atttypid in ('bpchar'::regtype, 'varchar'::regtype) and atttypmod > 4 then atttypmod - 4 end \
         from pg_attribute where attrelid = to_regclass($1) and attname = $2",
    );
    let about = about.bind(&rows.mapping.table).bind(&table.owner).fetch_one(connection).await.map_err(setup_error)?;
    let (not_null, width): (bool, Option<i32>) = (about.try_get(0)?, about.try_get(1)?);
    let reason = match (&*rows.owner.kind, width) {
        _ if not_null => "must be nullable",
        ("bpchar" | "character varying", Some(width)) if width < OWNER_WIDTH => "must have room for 36 characters",
        ("uuid" | "text" | "bpchar" | "character varying", _) => return Ok(()),
        _ => "must be UUID, TEXT, VARCHAR(36) or CHAR(36)",
    };
    Err(ichido_sql::unfit(queue, "owner", format!("the column `{}` {reason}", table.owner)))
}

/// The status values must be values of the column, and differ for the database (collation, padding).
async fn refuse_status(connection: &mut PgConnection, queue: &Queue, rows: &Rows) -> Result<()> {
    let Some((column, status)) = &rows.mapping.status else { return Ok(()) };
    let kind = rows.columns.iter().find(|candidate| candidate.quoted == *column).map_or("text", |found| &*found.kind);
    let values = [Some(&status.new), status.done.as_ref(), status.failed.as_ref()];
    let values: Vec<_> = values.into_iter().flatten().collect();
    for (at, one) in values.iter().enumerate() {
        for other in &values[..at] {
            let same = format!("select cast($1::text as {kind}) = cast($2::text as {kind})");
            let same = sqlx::query(AssertSqlSafe(same)).bind(one.as_str()).bind(other.as_str());
            let same = same.fetch_one(&mut *connection).await;
            let same = same.map_err(|error| ichido_sql::unfit(queue, "status", format!("{error}")))?;
            if same.try_get(0)? {
                return Err(ichido_sql::unfit(
                    queue,
                    "status",
                    format!("`{one}` and `{other}` are equal for the column {column}"),
                ));
            }
        }
    }
    Ok(())
}

/// A status value that the column would cut off could be written by nobody, and what was cut off never found again.
async fn refuse_width(connection: &mut PgConnection, queue: &Queue, table: &Table, rows: &Rows) -> Result<()> {
    let width = sqlx::query(
        "select case when atttypid in ('bpchar'::regtype, 'varchar'::regtype) and atttypmod > 4 then atttypmod - 4 end \
         from pg_attribute where attrelid = to_regclass($1) and attname = $2",
    );
    let width =
        width.bind(&rows.mapping.table).bind(&table.status.column).fetch_one(connection).await.map_err(setup_error)?;
    let Some(width) = width.try_get::<Option<i32>, _>(0)? else { return Ok(()) };
    let values = [Some(&table.status.new), table.status.done.as_ref(), table.status.failed.as_ref()];
    let wide = values.into_iter().flatten().find(|value| value.chars().count() > width.unsigned_abs() as usize);
    match wide {
        Some(value) => {
            Err(ichido_sql::unfit(queue, "status", format!("`{value}` does not fit into {width} characters")))
        }
        None => Ok(()),
    }
}
