//! Looks at a table that may become a queue, explains how its rows would be claimed, and adds what it lacks. All looking is
//! done in transactions that cannot write.

use ichido::{
    Queue, Table,
    adopt::{
        Adopt, ClaimPlan, Column, Counts, FoundTable, Holds, MOST_VALUES, TableLook, TableName, UniqueKey, free_name,
        listed, literals, plain_default,
    },
    error::Result,
};
use ichido_sql::{ClaimIndex, Conditions, Sample, StatusColumn};
use sqlx::{AssertSqlSafe, Executor, MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    MySql,
    catalog::{self, full_name},
    connect::setup_error,
    quote,
    session::Own,
    statements::{self, Rows, Statements, is_generated},
};

/// What a new owner column is.
const OWNER_KIND: &str = "char(36) character set ascii";

/// What a new status column is.
const STATUS_KIND: &str = "varchar(10)";

/// Longer names are refused by the server.
const LONGEST_NAME: usize = 64;

/// A table that somebody uses is waited for no longer than this, in seconds.
const TIMEOUT: u32 = 5;

impl Adopt for MySql {
    async fn tables(&self, schema: Option<&str>) -> Result<Vec<FoundTable>> {
        let mut tx = self.read_only().await?;
        let tables = sqlx::query(
            "select table_name, lower(table_type), lower(coalesce(engine, '')), lower(table_schema), concat(table_schema, '.', table_name) from information_schema.tables \
             where table_schema = coalesce(?, database()) order by table_name",
        );
        let tables =
            self.shared.patient(tx.id(), tables.bind(schema).fetch_all(&mut *tx)).await.map_err(setup_error)?;
        let found = |row: &MySqlRow| {
            let unfit = unfit(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            Ok(FoundTable { schema: schema.map(str::to_owned), name: row.try_get(0)?, id: row.try_get(4)?, unfit })
        };
        tables.iter().map(found).collect()
    }

    async fn names(&self) -> Result<Vec<TableName>> {
        let mut tx = self.read_only().await?;
        self.shared.patiently(tx.id(), catalog::names(&mut tx)).await
    }

    async fn look(&self, table: &FoundTable) -> Result<TableLook> {
        let mut tx = self.read_only().await?;
        let (schema, name) = (table.schema.as_deref(), table.name.as_str());
        let columns = sqlx::query(
            "select column_name, lower(data_type), column_type, is_nullable = 'YES', cast(coalesce(character_maximum_length, -1) as signed), \
             column_default, lower(extra), lower(version()) like '%mariadb%', cast(coalesce(numeric_scale, 0) as signed) from information_schema.columns \
             where table_schema = coalesce(?, database()) and table_name = ? order by ordinal_position",
        );
        let columns = self
            .shared
            .patient(tx.id(), columns.bind(schema).bind(name).fetch_all(&mut *tx))
            .await
            .map_err(setup_error)?;
        let checks = self.shared.patiently(tx.id(), checks(&mut tx, table)).await?;
        let columns = columns.iter().map(|row| column(row, &checks)).collect::<Result<_>>()?;
        let keys = self.shared.patiently(tx.id(), catalog::unique(&mut tx, schema, name)).await?.into_iter();
        let keys = keys.map(|(name, columns, not_null)| UniqueKey { columns, primary: name == "PRIMARY", not_null });
        Ok(TableLook { table: table.clone(), columns, keys: keys.collect() })
    }

    async fn counts(&self, look: &TableLook, column: &str) -> Result<Counts> {
        let mut tx = self.read_only().await?;
        let (sample, all) = self.shared.patiently(tx.id(), sample(&mut tx, look, &quote::name(column)?)).await?;
        let (name, most) = (quote::name(column)?, MOST_VALUES);
        let counts = format!(
            "select cast(s.{name} as char), count(*), cast(sum(count(*)) over () as signed) from ({sample}) s group by s.{name} order by 2 desc, 1 limit {most}"
        );
        let counts = self
            .shared
            .patient(tx.id(), sqlx::query(AssertSqlSafe(counts)).fetch_all(&mut *tx))
            .await
            .map_err(setup_error)?;
        let rows = counts.first().map(|row| row.try_get::<i64, _>(2)).transpose()?.unwrap_or_default();
        let value = |row: &MySqlRow| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)?.unsigned_abs()));
        Ok(Counts { rows: rows.unsigned_abs(), all, values: counts.iter().map(value).collect::<Result<_>>()? })
    }

    async fn owned(&self, look: &TableLook, table: &Table) -> Result<u64> {
        let (owner, status) = (quote::name(&table.owner)?, quote::name(&table.status.column)?);
        let mut tx = self.read_only().await?;
        let (sample, _) = self.shared.patiently(tx.id(), sample(&mut tx, look, &format!("{status}, {owner}"))).await?;
        let new = quote::literal(&table.status.new)?;
        let count = format!("select count(*) from ({sample}) s where {status} = {new} and {owner} is not null");
        let count = self
            .shared
            .patient(tx.id(), sqlx::query(AssertSqlSafe(count)).fetch_one(&mut *tx))
            .await
            .map_err(setup_error)?;
        Ok(count.try_get::<i64, _>(0)?.unsigned_abs())
    }

    async fn claim_plan(&self, queue: &str, table: &Table, owner_is_there: bool) -> Result<ClaimPlan> {
        let queue = &Queue::table(queue, table.clone());
        let mut tx = self.read_only().await?;
        let to_come = if owner_is_there { None } else { Some(statements::Column::owner(&table.owner)?) };
        let (id, rows) = (tx.id(), Box::pin(catalog::business_table(&mut tx, queue, table, to_come)));
        let rows = self.shared.patiently(id, rows).await?;
        refuse_unindexable(queue, &rows)?;
        let Statements { rows, .. } = Statements::new(&self.shared.known.tables, queue, rows)?;
        let steps = self.shared.patiently(tx.id(), explain(&mut tx, &rows, owner_is_there)).await?;
        let indexes = self.shared.patiently(tx.id(), Indexes::of(&mut tx, table)).await?;
        // Where every row is in a group, there is nothing else to claim.
        let by_index = owner_is_there && (indexes.serve(&rows)? || rows.mapping.all_grouped);
        let mut ddl = Vec::new();
        if !owner_is_there {
            ddl.push(format!("alter table {} add column {} {OWNER_KIND}", rows.mapping.table, rows.owner.quoted));
        }
        if !by_index {
            ddl.push(indexes.missing(table, &rows)?);
        }
        Ok(ClaimPlan { steps, by_index, ddl })
    }

    fn add_status(&self, look: &TableLook, status: &str, done: Option<&str>) -> Result<Vec<String>> {
        let table = full_name(look.table.schema.as_deref(), &look.table.name)?;
        StatusColumn { table: &table, kind: STATUS_KIND, default_later: true }.add(status, done, quote::name)
    }

    /// DDL commits by itself here. The connection is not used again: its timeout is its own.
    async fn apply(&self, statements: &[String]) -> Result<()> {
        let mut connection = self.take(&self.own).await.map_err(|error| self.unreachable(error))?;
        self.within(connection.execute(AssertSqlSafe(format!("set session lock_wait_timeout = {TIMEOUT}")))).await?;
        for statement in statements {
            let (id, sql) = (connection.id.clone(), sqlx::raw_sql(AssertSqlSafe(statement.clone())));
            self.shared.patient(id, sql.execute(&mut **connection)).await.map_err(setup_error)?;
        }
        Ok(())
    }
}

impl MySql {
    /// Ends when it is dropped, with its connection.
    async fn read_only(&self) -> Result<Own> {
        let begun = self.begin_with(&self.own, "start transaction read only").await;
        let lent = begun.map_err(|error| self.unreachable(error))?;
        Ok(Own { lent, shared: self.shared.clone() })
    }
}

/// A column without a length cannot be in the claim index.
fn refuse_unindexable(queue: &Queue, rows: &Rows) -> Result<()> {
    let status = rows.mapping.status.as_ref().map(|(_, status)| status.column.as_str()).unwrap_or_default();
    for (key, name) in [("owner", rows.owner.name.as_str()), ("status", status)] {
        let column = rows.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        if let Some(column) = column.filter(|column| column.kind.contains("text") || column.is_bytes()) {
            let reason = format!("the column `{name}` must not be {}: the claim index cannot hold it", column.kind);
            return Err(ichido_sql::unfit(queue, key, reason));
        }
    }
    Ok(())
}

fn unfit(kind: &str, engine: &str, schema: &str) -> Option<String> {
    match (kind, engine) {
        _ if ["mysql", "information_schema", "performance_schema", "sys"].contains(&schema) => {
            Some("is one of the server's own tables".into())
        }
        ("view" | "system view", _) => Some("is a view; adopt the table behind it".into()),
        ("temporary", _) => Some("is a temporary table, visible only to its own session; make it permanent".into()),
        ("sequence", _) => Some("is a sequence, not a table".into()),
        (_, "innodb") => None,
        (_, engine) => Some(format!(
            "has the engine {engine}, which has no transactions; change it with alter table … engine = InnoDB"
        )),
    }
}

fn column(row: &MySqlRow, checks: &[String]) -> Result<Column> {
    let (name, kind, declared): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let (nullable, width): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
    let (default, extra): (Option<String>, String) = (row.try_get(5)?, row.try_get(6)?);
    let (mariadb, scale): (i64, i64) = (row.try_get(7)?, row.try_get(8)?);
    let generated = is_generated(&extra);
    let holds = match kind.as_str() {
        _ if generated || extra.contains("auto_increment") => Holds::Other,
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Holds::Number,
        "decimal" if scale == 0 => Holds::Number,
        "char" | "varchar" | "enum" => Holds::Text,
        _ => Holds::Other,
    };
    let admits = match declared.to_lowercase().as_str() {
        "tinyint(1)" => vec!["0".to_owned(), "1".to_owned()],
        declared_lower if declared_lower.starts_with("enum") => literals(&declared),
        _ => {
            let own = checks.iter().filter(|check| check.contains(&format!("`{}`", name.replace('`', "``"))));
            own.map(|check| listed(check)).find(|values| !values.is_empty()).unwrap_or_default()
        }
    };
    // MariaDB writes a default as SQL, MySQL as the bare value.
    let default = default.and_then(|text| match () {
        () if mariadb == 1 => plain_default(&text),
        () if extra.contains("default_generated") => None,
        () => Some(text),
    });
    let wide = matches!(&*kind, "char" | "varchar") && width >= 36 || kind == "uuid";
    let fits_owner = wide && nullable == 1 && !generated;
    Ok(Column { name, kind: declared, holds, nullable: nullable == 1, generated, default, admits, fits_owner })
}

/// The conditions of the table's check constraints; MariaDB knows them by table, MySQL by name.
async fn checks(connection: &mut MySqlConnection, table: &FoundTable) -> Result<Vec<String>> {
    let by_table = "select check_clause from information_schema.check_constraints \
         where constraint_schema = coalesce(?, database()) and table_name = ?";
    let by_name = "select c.check_clause from information_schema.check_constraints c join information_schema.table_constraints t \
         on t.constraint_schema = c.constraint_schema and t.constraint_name = c.constraint_name \
         where c.constraint_schema = coalesce(?, database()) and t.table_name = ?";
    let mut found = sqlx::query(by_table).bind(&table.schema).bind(&table.name).fetch_all(&mut *connection).await;
    if found.is_err() {
        found = sqlx::query(by_name).bind(&table.schema).bind(&table.name).fetch_all(connection).await;
    }
    // MySQL escapes the quotes in the text.
    let text = |row: &MySqlRow| Ok(row.try_get::<String, _>(0)?.replace("\\'", "'"));
    found.map_err(setup_error)?.iter().map(text).collect()
}

/// A query for these columns of the rows that are looked at, and whether these are all.
async fn sample(connection: &mut MySqlConnection, look: &TableLook, columns: &str) -> Result<(String, bool)> {
    let table = full_name(look.table.schema.as_deref(), &look.table.name)?;
    let sample = Sample::new(&table, look, quote::name)?;
    let size = sqlx::query(AssertSqlSafe(sample.size())).fetch_one(connection).await.map_err(setup_error)?;
    let all = Sample::is_all(size.try_get(0)?);
    Ok((sample.rows(columns, all), all))
}

/// What the optimizer would do. Before there is an owner column, every unprocessed row is one that nobody has.
async fn explain(connection: &mut MySqlConnection, rows: &Rows, owner_is_there: bool) -> Result<Vec<String>> {
    let Conditions { new, order, .. } = rows.mapping.conditions(quote::literal)?;
    let order: Vec<_> =
        order.iter().map(|(column, down)| format!("t.{column}{}", if *down { " desc" } else { "" })).collect();
    let nobodys = if owner_is_there { format!(" and t.{} is null", rows.owner.quoted) } else { String::new() };
    let look = format!(
        "explain select 1 from {} t where {new}{nobodys} order by {} limit 64",
        rows.mapping.table,
        order.join(", ")
    );
    let plan = sqlx::query(AssertSqlSafe(look)).fetch_all(connection).await.map_err(setup_error)?;
    let step = |row: &MySqlRow| {
        let text = |name: &str| row.try_get::<Option<String>, _>(name).ok().flatten().unwrap_or_else(|| "-".to_owned());
        format!("{} by {}: {}", text("type"), text("key"), text("Extra"))
    };
    Ok(plan.iter().map(step).collect())
}

/// A column of an index, and whether it descends.
type Part = (String, bool);

/// The indexes of a table.
struct Indexes(Vec<(String, Vec<Part>)>);

impl Indexes {
    async fn of(connection: &mut MySqlConnection, table: &Table) -> Result<Self> {
        let parts = sqlx::query(
            "select index_name, lower(column_name), coalesce(collation, '') = 'D' from information_schema.statistics \
             where table_schema = coalesce(?, database()) and table_name = ? order by index_name, seq_in_index",
        );
        let mut indexes: Vec<(String, Vec<Part>)> = Vec::new();
        for row in parts.bind(&table.schema).bind(&table.name).fetch_all(connection).await.map_err(setup_error)? {
            let (name, column, down): (String, String, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            match indexes.last_mut() {
                Some((last, parts)) if *last == name => parts.push((column, down == 1)),
                _ => indexes.push((name, vec![(column, down == 1)])),
            }
        }
        Ok(Indexes(indexes))
    }

    /// Is there one that begins with what every claimable row has in common, and goes on in claim order? `InnoDB` appends the
    /// primary key to every index.
    fn serve(&self, rows: &Rows) -> Result<bool> {
        let order = lower(rows.mapping.conditions(quote::literal)?.order);
        let common = ClaimIndex::of(&rows.mapping, quote::literal)?.common;
        let same: Vec<_> = common.into_iter().map(|column| column.to_lowercase()).collect();
        let primary =
            self.0.iter().find(|(name, _)| name == "PRIMARY").map(|(_, parts)| parts.clone()).unwrap_or_default();
        let serves = |parts: &[Part]| {
            let Some((first, rest)) = parts.split_at_checked(same.len()) else { return false };
            let begins = same.iter().all(|column| first.iter().any(|(name, _)| quoted(name) == *column));
            let rest: Vec<_> = rest.iter().chain(&primary).map(|(name, down)| (quoted(name), *down)).collect();
            let turned: Vec<_> = rest.iter().map(|(name, down)| (name.clone(), !down)).collect();
            begins && (rest.starts_with(&order) || turned.starts_with(&order))
        };
        Ok(self.0.iter().any(|(_, parts)| serves(parts)))
    }

    /// The statement for the one that is missing.
    fn missing(&self, table: &Table, rows: &Rows) -> Result<String> {
        let ClaimIndex { common, order, .. } = ClaimIndex::of(&rows.mapping, quote::literal)?;
        let taken = |name: &str| self.0.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let name = quote::name(&free_name(&table.name, "claim", LONGEST_NAME, taken))?;
        Ok(format!("create index {name} on {} ({})", rows.mapping.table, [common, order].concat().join(", ")))
    }
}

fn lower(order: Vec<(String, bool)>) -> Vec<(String, bool)> {
    order.into_iter().map(|(column, down)| (column.to_lowercase(), down)).collect()
}

fn quoted(name: &str) -> String {
    quote::name(name).unwrap_or_default()
}
