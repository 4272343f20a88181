//! Looks at a queue's table and refuses what cannot work, naming the thing and the nearest match. What it finds goes to
//! `statements`.

use ichido::{Error, Queue, Table, adopt::TableName, error::Result, message::Place};
use ichido_sql::{Mapping, Tables};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    connect::setup_error,
    quote,
    statements::{Column, Rows, Statements},
};

/// Builds the statements of a queue after a look at its table.
pub(crate) async fn look(connection: &mut SqliteConnection, tables: &Tables, queue: &Queue) -> Result<Statements> {
    let rows = match &queue.place {
        Place::Table(table) => business_table(connection, queue, table, None).await?,
        _ => Rows::own(tables, queue)?,
    };
    Statements::new(tables, queue, rows)
}

/// The rows of a business table; `to_come` is its owner column if that is not there yet.
pub(crate) async fn business_table(
    connection: &mut SqliteConnection,
    queue: &Queue,
    table: &Table,
    to_come: Option<Column>,
) -> Result<Rows> {
    if table.schema.as_deref().is_some_and(|schema| schema != "main") {
        return Err(ichido_sql::unfit(queue, "table", "SQLite's business tables must be in the schema `main`"));
    }
    let (mut columns, primary) = columns(connection, queue, table).await?;
    columns.extend(to_come);
    let find = |name: &str| find(queue, &columns, name);
    let key: Vec<Column> = if table.key.is_empty() {
        primary.clone()
    } else {
        table.key.iter().map(|name| find(name)).collect::<Result<_>>()?
    };
    refuse_key(connection, queue, table, &key, &primary).await?;
    let owner = find(&table.owner)?;
    let status = find(&table.status.column)?;
    for (key, column) in [("status", &status), ("owner", &owner)] {
        ichido_sql::refuse_generated(queue, key, &column.name, column.is_generated)?;
    }
    refuse_owner(queue, &owner)?;
    for column in key.iter().chain([&status]) {
        refuse_typeless(queue, column)?;
    }
    let table = &if status.is_numeric() { table.flags_as_numbers() } else { table.clone() };
    refuse_status(queue, table, &status)?;
    let quoted = key.iter().map(|column| column.quoted.clone()).collect();
    let mut mapping = Mapping::of(table, quote::name(&table.name)?, quoted, |name| Ok(find(name)?.quoted))?;
    mapping.identity = format!("{}:{}", table.name.to_lowercase(), table.part());
    if let Some(group) = &table.group_by {
        let group = find(group)?;
        refuse_typeless(queue, &group)?;
        mapping.all_grouped = group.not_null;
    }
    Ok(Rows { mapping, columns, key, owner })
}

/// All columns, and those of the primary key in its order.
async fn columns(
    connection: &mut SqliteConnection,
    queue: &Queue,
    table: &Table,
) -> Result<(Vec<Column>, Vec<Column>)> {
    let found = sqlx::query(
        "select name, type, \"notnull\", pk, hidden from pragma_table_xinfo(?) where hidden <> 1 order by cid",
    );
    let found = found.bind(&table.name).fetch_all(&mut *connection).await.map_err(setup_error)?;
    if found.is_empty() {
        let known = names(connection).await?;
        return Err(ichido_sql::unknown_table(queue, table, &known));
    }
    refuse_kind(connection, queue, table).await?;
    let mut columns = Vec::new();
    let mut primary = Vec::new();
    for row in &found {
        let mut column = Column::new(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)?;
        column.is_generated = row.try_get::<i64, _>(4)? > 1;
        let place: i64 = row.try_get(3)?;
        if place > 0 {
            primary.push((place, column.clone()));
        }
        columns.push(column);
    }
    primary.sort_by_key(|(place, _)| *place);
    Ok((columns, primary.into_iter().map(|(_, column)| column).collect()))
}

/// All tables.
pub(crate) async fn names(connection: &mut SqliteConnection) -> Result<Vec<TableName>> {
    let tables = sqlx::query("select name from sqlite_schema where type = 'table' order by name");
    let tables = tables.fetch_all(connection).await.map_err(setup_error)?;
    let name = |row: &SqliteRow| Ok(TableName { schema: "main".into(), name: row.try_get(0)?, plain: true });
    tables.iter().map(name).collect()
}

/// Views and virtual tables have no rows of their own.
async fn refuse_kind(connection: &mut SqliteConnection, queue: &Queue, table: &Table) -> Result<()> {
    let kind = sqlx::query("select type from pragma_table_list where schema = 'main' and name = ? collate nocase");
    let kind = kind.bind(&table.name).fetch_optional(connection).await.map_err(setup_error)?;
    let kind = kind.map(|row| row.try_get::<String, _>(0)).transpose()?.unwrap_or_default();
    match &*kind {
        "view" => Err(ichido_sql::not_a_table(queue, table, "a view")),
        "virtual" | "shadow" => Err(ichido_sql::not_a_table(queue, table, &format!("a {kind} table"))),
        _ => Ok(()),
    }
}

fn find(queue: &Queue, columns: &[Column], name: &str) -> Result<Column> {
    let found = columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)).cloned();
    found
        .ok_or_else(|| ichido_sql::unknown_column(&queue.name, name, columns.iter().map(|column| column.name.as_str())))
}

/// The key must be the primary key, or the columns of a unique index that cannot be null.
async fn refuse_key(
    connection: &mut SqliteConnection,
    queue: &Queue,
    table: &Table,
    key: &[Column],
    primary: &[Column],
) -> Result<()> {
    if key.is_empty() {
        return Err(Error::Setup(format!(
            "queues.{}: the table `{}` has no primary key; name the columns of a NOT NULL unique index in `key`",
            queue.name, table.name
        )));
    }
    let names = |columns: &[Column]| {
        let mut names: Vec<_> = columns.iter().map(|column| column.name.clone()).collect();
        names.sort_unstable();
        names
    };
    if names(key) == names(primary) {
        return Ok(());
    }
    let unique = sqlx::query(
        "select (select json_group_array(name) from (select i.name from pragma_index_info(l.name) i order by i.name)) \
         from pragma_index_list(?) l where l.\"unique\" and not l.partial",
    );
    for row in unique.bind(&table.name).fetch_all(connection).await.map_err(setup_error)? {
        let columns: Vec<Option<String>> = serde_json::from_str(row.try_get(0)?)?;
        if columns == names(key).into_iter().map(Some).collect::<Vec<_>>() && key.iter().all(|column| column.not_null) {
            return Ok(());
        }
    }
    Err(ichido_sql::unfit(
        queue,
        "key",
        format!(
            "the table `{}` has no NOT NULL unique index on exactly ({}); its primary key is ({})",
            table.name,
            names(key).join(", "),
            names(primary).join(", ")
        ),
    ))
}

fn refuse_owner(queue: &Queue, owner: &Column) -> Result<()> {
    let reason = match () {
        () if owner.not_null => "must be nullable",
        () if !owner.can_hold_text() => "must be TEXT, VARCHAR(36) or CHAR(36)",
        () => return Ok(()),
    };
    Err(ichido_sql::unfit(queue, "owner", format!("the column `{}` {reason}", owner.name)))
}

/// Without a type a column holds 1 and '1' side by side, and neither finds the other.
fn refuse_typeless(queue: &Queue, column: &Column) -> Result<()> {
    if column.has_type() {
        return Ok(());
    }
    Err(Error::Setup(format!(
        "queues.{}: the column `{}` has no type; a key or a status needs one",
        queue.name, column.name
    )))
}

/// Values that differ as text can still be one number for the column.
fn refuse_status(queue: &Queue, table: &Table, column: &Column) -> Result<()> {
    let status = &table.status;
    let values = [Some(&status.new), status.done.as_ref(), status.failed.as_ref()];
    let values: Vec<_> = values.into_iter().flatten().collect();
    let same = |one: &str, other: &str| match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) if column.is_numeric() => one.to_bits() == other.to_bits(),
        // The column may compare without case or trailing spaces, and SQLite does not tell.
        _ => one.trim_end().eq_ignore_ascii_case(other.trim_end()),
    };
    for (at, one) in values.iter().enumerate() {
        if let Some(other) = values[..at].iter().find(|other| same(one, other)) {
            let column = &column.name;
            return Err(ichido_sql::unfit(
                queue,
                "status",
                format!("`{one}` and `{other}` are equal for the column `{column}`"),
            ));
        }
    }
    Ok(())
}
