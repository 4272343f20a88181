//! Looks at a queue's table in the server's catalog and refuses what cannot work, naming the thing and the nearest match.
//! What it finds goes to `statements`.

use ichido::{
    Error, Queue, Table,
    adopt::{TableName, literals},
    error::Result,
    message::Place,
};
use ichido_sql::{Mapping, Tables};
use sqlx::{AssertSqlSafe, MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    connect::setup_error,
    quote,
    statements::{Column, Rows, Statements},
};

/// An owner column must hold a UUID as text.
const OWNER_WIDTH: i64 = 36;

/// Builds the statements of a queue after a look at its table.
pub(crate) async fn look(connection: &mut MySqlConnection, tables: &Tables, queue: &Queue) -> Result<Statements> {
    let rows = match &queue.place {
        Place::Table(table) => business_table(connection, queue, table, None).await?,
        _ => Rows::own(tables, queue)?,
    };
    Statements::new(tables, queue, rows)
}

/// The rows of a business table; `to_come` is its owner column if that is not there yet.
pub(crate) async fn business_table(
    connection: &mut MySqlConnection,
    queue: &Queue,
    table: &Table,
    to_come: Option<Column>,
) -> Result<Rows> {
    let full_name = full_name(table.schema.as_deref(), &table.name)?;
    let mut columns = columns(connection, queue, table).await?;
    columns.extend(to_come);
    refuse_engine(connection, queue, table).await?;
    let find = |name: &str| find(queue, &columns, name);
    let key: Vec<Column> = key(connection, queue, table).await?.iter().map(|name| find(name)).collect::<Result<_>>()?;
    let quoted = key.iter().map(|column| column.quoted.clone()).collect();
    let (owner, status) = (find(&table.owner)?, find(&table.status.column)?);
    for (key, column) in [("status", &status), ("owner", &owner)] {
        ichido_sql::refuse_generated(queue, key, &column.name, column.is_generated())?;
    }
    refuse_owner(queue, &owner)?;
    let table = &if status.is_number() { table.flags_as_numbers() } else { table.clone() };
    refuse_status(connection, queue, table, &status).await?;
    let database = sqlx::query("select coalesce(?, database())").bind(&table.schema).fetch_one(connection).await;
    let database: String = database.and_then(|row| row.try_get(0)).map_err(setup_error)?;
    let mut mapping = Mapping::of(table, full_name, quoted, |name| Ok(find(name)?.quoted))?;
    mapping.identity = format!("{database}.{}:{}", table.name, table.part()).to_lowercase();
    if let Some(sent_at) = &table.sent_at {
        ichido_sql::refuse_sent_at(queue, sent_at, &find(sent_at)?.kind)?;
    }
    if let Some(group) = &table.group_by {
        mapping.all_grouped = !find(group)?.nullable;
    }
    Ok(Rows { mapping, columns, key, owner })
}

pub(crate) fn full_name(schema: Option<&str>, name: &str) -> Result<String> {
    let name = quote::name(name)?;
    Ok(match schema {
        Some(schema) => format!("{}.{name}", quote::name(schema)?),
        None => name,
    })
}

async fn columns(connection: &mut MySqlConnection, queue: &Queue, table: &Table) -> Result<Vec<Column>> {
    let found = sqlx::query(
        "select column_name, lower(data_type), lower(column_type), is_nullable = 'YES', cast(coalesce(character_maximum_length, -1) as signed), \
         collation_name, lower(extra) from information_schema.columns \
         where table_schema = coalesce(?, database()) and table_name = ? order by ordinal_position",
    );
    let found = found.bind(&table.schema).bind(&table.name).fetch_all(&mut *connection).await.map_err(setup_error)?;
    if found.is_empty() {
        let known = names(connection).await?;
        return Err(ichido_sql::unknown_table(queue, table, &known));
    }
    let mut columns = found.iter().map(Column::read).collect::<Result<Vec<_>>>()?;
    let json = json_columns(connection, table).await?;
    for column in &mut columns {
        column.is_json |= json.contains(&format!("json_valid({})", column.quoted));
    }
    Ok(columns)
}

/// The constraints by which MariaDB keeps JSON; MySQL has a type for it.
async fn json_columns(connection: &mut MySqlConnection, table: &Table) -> Result<Vec<String>> {
    let version = sqlx::query("select version()").fetch_one(&mut *connection).await.map_err(setup_error)?;
    if !version.try_get::<String, _>(0)?.contains("MariaDB") {
        return Ok(Vec::new());
    }
    let found = sqlx::query(
        "select check_clause from information_schema.check_constraints \
         where constraint_schema = coalesce(?, database()) and table_name = ? and check_clause like 'json_valid(%'",
    );
    let found = found.bind(&table.schema).bind(&table.name).fetch_all(connection).await.map_err(setup_error)?;
    found.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// The tables of all databases of the server that are the user's.
pub(crate) async fn names(connection: &mut MySqlConnection) -> Result<Vec<TableName>> {
    let tables = sqlx::query(
        "select table_schema, table_name, coalesce(table_schema = database(), false) from information_schema.tables \
         where table_type = 'BASE TABLE' and lower(table_schema) not in ('mysql', 'information_schema', 'performance_schema', 'sys') \
         order by 1, 2",
    );
    let tables = tables.fetch_all(connection).await.map_err(setup_error)?;
    let name = |row: &MySqlRow| {
        Ok(TableName { schema: row.try_get(0)?, name: row.try_get(1)?, plain: row.try_get::<i64, _>(2)? == 1 })
    };
    tables.iter().map(name).collect()
}

/// Other engines know no transactions.
async fn refuse_engine(connection: &mut MySqlConnection, queue: &Queue, table: &Table) -> Result<()> {
    let engine = sqlx::query(
        "select coalesce(engine, ''), lower(table_type) from information_schema.tables where table_schema = coalesce(?, database()) and table_name = ?",
    );
    let engine = engine.bind(&table.schema).bind(&table.name).fetch_one(connection).await.map_err(setup_error)?;
    let (engine, kind): (String, String) = (engine.try_get(0)?, engine.try_get(1)?);
    if kind.contains("view") {
        return Err(ichido_sql::not_a_table(queue, table, "a view"));
    }
    if engine.eq_ignore_ascii_case("InnoDB") {
        return Ok(());
    }
    Err(ichido_sql::unfit(
        queue,
        "table",
        format!("`{}` has the engine {engine}; only InnoDB has transactions", table.name),
    ))
}

fn find(queue: &Queue, columns: &[Column], name: &str) -> Result<Column> {
    let found = columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)).cloned();
    found
        .ok_or_else(|| ichido_sql::unknown_column(&queue.name, name, columns.iter().map(|column| column.name.as_str())))
}

/// The unique indexes: name, columns, can none of them be null or cut off?
pub(crate) async fn unique(
    connection: &mut MySqlConnection,
    schema: Option<&str>,
    table: &str,
) -> Result<Vec<(String, Vec<String>, bool)>> {
    let unique = sqlx::query(
        "select index_name, column_name, nullable = 'YES' or sub_part is not null from information_schema.statistics \
         where table_schema = coalesce(?, database()) and table_name = ? and non_unique = 0 order by index_name, seq_in_index",
    );
    let mut indexes: Vec<(String, Vec<String>, bool)> = Vec::new();
    for row in unique.bind(schema).bind(table).fetch_all(connection).await.map_err(setup_error)? {
        let (index, column, unfit): (String, String, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if indexes.last().is_none_or(|(last, ..)| *last != index) {
            indexes.push((index, Vec::new(), true));
        }
        if let Some((_, columns, fits)) = indexes.last_mut() {
            columns.push(column);
            *fits &= unfit == 0;
        }
    }
    Ok(indexes)
}

/// The key columns: those of the configuration if a NOT NULL unique index has exactly them, else the primary key.
async fn key(connection: &mut MySqlConnection, queue: &Queue, table: &Table) -> Result<Vec<String>> {
    let indexes = unique(connection, table.schema.as_deref(), &table.name).await?;
    let sorted = |columns: &[String]| {
        let mut columns: Vec<_> = columns.iter().map(|column| column.to_lowercase()).collect();
        columns.sort_unstable();
        columns
    };
    let primary = indexes.iter().find(|(name, ..)| name == "PRIMARY").map(|(_, columns, _)| columns.clone());
    if indexes.iter().any(|(_, columns, fits)| *fits && sorted(columns) == sorted(&table.key)) {
        return Ok(table.key.clone());
    }
    match primary {
        Some(primary) if table.key.is_empty() => Ok(primary),
        _ if table.key.is_empty() => Err(Error::Setup(format!(
            "queues.{}: the table `{}` has no primary key; name the columns of a NOT NULL unique index in `key`",
            queue.name, table.name
        ))),
        _ => {
            let hint = primary.map(|key| format!("; its primary key is ({})", key.join(", "))).unwrap_or_default();
            let given = table.key.join(", ");
            let text = format!("the table `{}` has no NOT NULL unique index on exactly ({given}){hint}", table.name);
            Err(ichido_sql::unfit(queue, "key", text))
        }
    }
}

fn refuse_owner(queue: &Queue, owner: &Column) -> Result<()> {
    let reason = match owner.kind.as_str() {
        _ if !owner.nullable => "must be nullable",
        "char" | "varchar" if owner.width < OWNER_WIDTH => "must have room for 36 characters",
        "char" | "varchar" | "text" | "uuid" => return Ok(()),
        _ => "must be CHAR(36), VARCHAR(36) or UUID",
    };
    Err(ichido_sql::unfit(queue, "owner", format!("the column `{}` {reason}", owner.name)))
}

/// What the server would silently take for something else: a text for a number, or what an enum does not have.
fn refuse_value(queue: &Queue, column: &Column, value: &str) -> Result<()> {
    let labels = if column.kind == "enum" { literals(&column.declared) } else { Vec::new() };
    let reason = match () {
        () if column.is_number() && value.parse::<i128>().is_err() => "is not an integer",
        () if !labels.is_empty() && !labels.iter().any(|label| label.eq_ignore_ascii_case(value)) => {
            "is not in the enum"
        }
        () => return Ok(()),
    };
    Err(ichido_sql::unfit(queue, "status", format!("`{value}` {reason} of the column `{}`", column.name)))
}

/// The status values must fit into the column, and differ for the database (collation, padding).
async fn refuse_status(connection: &mut MySqlConnection, queue: &Queue, table: &Table, column: &Column) -> Result<()> {
    let status = &table.status;
    let values = [Some(&status.new), status.done.as_ref(), status.failed.as_ref()];
    let values: Vec<_> = values.into_iter().flatten().collect();
    for (at, one) in values.iter().enumerate() {
        refuse_value(queue, column, one)?;
        if column.width >= 0 && i64::try_from(one.chars().count()).unwrap_or(i64::MAX) > column.width {
            let width = column.width;
            return Err(ichido_sql::unfit(queue, "status", format!("`{one}` does not fit into {width} characters")));
        }
        for other in &values[..at] {
            let same = format!("select cast(({}) = ({}) as signed)", column.value_of("?"), column.value_of("?"));
            let same = sqlx::query(AssertSqlSafe(same)).bind(one.as_str()).bind(other.as_str());
            let same =
                same.fetch_one(&mut *connection).await.map_err(|error| ichido_sql::unfit(queue, "status", error))?;
            if same.try_get::<i64, _>(0)? == 1 {
                let text = format!("`{one}` and `{other}` are equal for the column `{}`", column.name);
                return Err(ichido_sql::unfit(queue, "status", text));
            }
        }
    }
    Ok(())
}
