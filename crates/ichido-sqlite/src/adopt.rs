//! Looks at a table that may become a queue, explains how its rows would be claimed, and adds what it lacks. All looking is
//! done through a connection that cannot write, not even how the file keeps its journal.

use ichido::{
    Error, Queue, Table,
    adopt::{
        Adopt, ClaimPlan, Column, Counts, FoundTable, Holds, MOST_VALUES, TableLook, TableName, UniqueKey, checks_in,
        free_name, listed, plain_default,
    },
    error::Result,
};
use ichido_sql::{ClaimIndex, Conditions, OwnerIndex, Sample, StatusColumn};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteRow},
};

use crate::{
    Sqlite, catalog,
    connect::{BUSY, setup_error},
    quote,
    statements::{self, Rows, Statements},
};

/// What a new owner column is; a strict table knows no other type for it.
const OWNER_KIND: &str = "text";

/// What a new status column is.
const STATUS_KIND: &str = "text";

/// There is no limit here, but nobody reads longer names.
const LONGEST_NAME: usize = 120;

impl Adopt for Sqlite {
    async fn tables(&self, schema: Option<&str>) -> Result<Vec<FoundTable>> {
        if schema.is_some_and(|schema| !schema.eq_ignore_ascii_case("main")) {
            let text = "--table: SQLite's business tables must be in the schema `main`; other processes do not see \
             attached or temporary tables";
            return Err(Error::Setup(text.into()));
        }
        let mut connection = self.read_only().await?;
        let tables = sqlx::query(
            "select name, type from pragma_table_list where schema = 'main' and name not like 'sqlite\\_%' escape '\\' order by name",
        );
        let tables = tables.fetch_all(&mut connection).await.map_err(setup_error)?;
        let found = |row: &SqliteRow| {
            let unfit = match row.try_get(1)? {
                "table" => None,
                "view" => Some("is a view; adopt the table behind it".to_owned()),
                other => Some(format!("is a {other} table; only an ordinary table can be a queue")),
            };
            let name: String = row.try_get(0)?;
            Ok(FoundTable { schema: schema.map(str::to_owned), id: name.clone(), name, unfit })
        };
        tables.iter().map(found).collect()
    }

    async fn names(&self) -> Result<Vec<TableName>> {
        catalog::names(&mut self.read_only().await?).await
    }

    async fn look(&self, table: &FoundTable) -> Result<TableLook> {
        let mut connection = self.read_only().await?;
        let create = sqlx::query("select sql from sqlite_schema where type = 'table' and name = ?").bind(&table.name);
        let create: String = create.fetch_one(&mut connection).await.map_err(setup_error)?.try_get(0)?;
        let checks = checks_in(&create);
        let columns = sqlx::query(
            "select name, upper(type), \"notnull\", dflt_value, pk, hidden from pragma_table_xinfo(?) where hidden <> 1 order by cid",
        );
        let columns = columns.bind(&table.name).fetch_all(&mut connection).await.map_err(setup_error)?;
        let keys = keys(&mut connection, table, &columns).await?;
        let columns = columns.iter().map(|row| column(row, &checks)).collect::<Result<_>>()?;
        Ok(TableLook { table: table.clone(), columns, keys })
    }

    async fn counts(&self, look: &TableLook, column: &str) -> Result<Counts> {
        let mut connection = self.read_only().await?;
        let (name, most) = (quote::name(column)?, MOST_VALUES);
        let (sample, all) = sample(&mut connection, look, &name).await?;
        let counts = format!(
            "select cast({name} as text), count(*), sum(count(*)) over () from ({sample}) group by 1 order by 2 desc, 1 limit {most}"
        );
        let counts = sqlx::query(AssertSqlSafe(counts)).fetch_all(&mut connection).await.map_err(setup_error)?;
        let rows = counts.first().map(|row| row.try_get::<i64, _>(2)).transpose()?.unwrap_or_default();
        let value = |row: &SqliteRow| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)?.unsigned_abs()));
        Ok(Counts { rows: rows.unsigned_abs(), all, values: counts.iter().map(value).collect::<Result<_>>()? })
    }

    async fn owned(&self, look: &TableLook, table: &Table) -> Result<u64> {
        let (owner, status) = (quote::name(&table.owner)?, quote::name(&table.status.column)?);
        let mut connection = self.read_only().await?;
        let (sample, _) = sample(&mut connection, look, &format!("{status}, {owner}")).await?;
        let new = quote::literal(&table.status.new)?;
        let count = format!("select count(*) from ({sample}) where {status} = {new} and {owner} is not null");
        let count = sqlx::query(AssertSqlSafe(count)).fetch_one(&mut connection).await.map_err(setup_error)?;
        Ok(count.try_get::<i64, _>(0)?.unsigned_abs())
    }

    async fn claim_plan(&self, queue: &str, table: &Table, owner_is_there: bool) -> Result<ClaimPlan> {
        let queue = &Queue::table(queue, table.clone());
        let mut connection = self.read_only().await?;
        let column = || statements::Column::new(table.owner.clone(), OWNER_KIND, false);
        let to_come = if owner_is_there { None } else { Some(column()?) };
        let rows = catalog::business_table(&mut connection, queue, table, to_come).await?;
        let Statements { rows, pick, .. } = Statements::new(&self.shared.known.tables, queue, rows)?;
        let pick = if owner_is_there { pick.to_string() } else { ownerless(&rows)? };
        let (steps, by_index) = explain(&mut connection, &rows, &pick).await?;
        // Where every row is in a group, there is nothing else to claim.
        let by_index = owner_is_there && (by_index || rows.mapping.all_grouped);
        let mut ddl = Vec::new();
        if !owner_is_there {
            ddl.push(format!("alter table {} add column {} {OWNER_KIND}", rows.mapping.table, rows.owner.quoted));
        }
        if !by_index {
            ddl.push(claim_index(&mut connection, table, &rows).await?);
        }
        if !owner_is_there || !finds_owner(&mut connection, &rows).await? {
            ddl.push(owner_index(&mut connection, table, &rows).await?);
        }
        Ok(ClaimPlan { steps, by_index, ddl })
    }

    fn add_status(&self, look: &TableLook, status: &str, done: Option<&str>) -> Result<Vec<String>> {
        let table = quote::name(&look.table.name)?;
        StatusColumn { table: &table, kind: STATUS_KIND, default_later: false }.add(status, done, quote::name)
    }

    async fn apply(&self, statements: &[String]) -> Result<()> {
        let _turn = self.shared.line.wait().await.map_err(|error| self.unreachable(error))?;
        let mut connection = self.creating().connect().await.map_err(|error| self.unreachable(error))?;
        let mut tx = connection.begin_with("begin immediate").await.map_err(|error| self.unreachable(error))?;
        for statement in statements {
            sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&mut *tx).await.map_err(setup_error)?;
        }
        tx.commit().await?;
        Ok(connection.close().await?)
    }
}

impl Sqlite {
    async fn read_only(&self) -> Result<SqliteConnection> {
        if !self.path().exists() {
            return Err(Error::Setup(format!("the database {} does not exist", self.path().display())));
        }
        let options = SqliteConnectOptions::new().filename(self.path()).read_only(true).busy_timeout(BUSY);
        options.connect().await.map_err(|error| self.unreachable(error))
    }
}

fn column(row: &SqliteRow, checks: &[&str]) -> Result<Column> {
    let (name, kind): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let (not_null, generated): (bool, bool) = (row.try_get(2)?, row.try_get::<i64, _>(5)? > 1);
    let has = |parts: &[&str]| parts.iter().any(|part| kind.contains(part));
    let holds = match () {
        () if generated || kind.is_empty() => Holds::Other,
        () if has(&["BLOB", "REAL", "FLOA", "DOUB", "DATE", "TIME", "UUID", "JSON"]) => Holds::Other,
        () if has(&["INT", "BOOL", "NUM", "DEC"]) => Holds::Number,
        () => Holds::Text,
    };
    let admits = match () {
        () if has(&["BOOL"]) => vec!["0".to_owned(), "1".to_owned()],
        () => checks
            .iter()
            .filter(|check| mentions(check, &name))
            .map(|check| listed(check))
            .find(|values| !values.is_empty())
            .unwrap_or_default(),
    };
    let default: Option<String> = row.try_get(3)?;
    let default = default.as_deref().and_then(plain_default).map(|value| match value.as_str() {
        "false" if holds == Holds::Number => "0".to_owned(),
        "true" if holds == Holds::Number => "1".to_owned(),
        _ => value,
    });
    let width = kind.split(['(', ')']).nth(1).and_then(|width| width.trim().parse::<u32>().ok()).unwrap_or(36);
    let fits_owner = !not_null && !generated && has(&["CHAR", "TEXT", "CLOB", "UUID"]) && width >= 36;
    Ok(Column { name, kind: kind.to_lowercase(), holds, nullable: !not_null, generated, default, admits, fits_owner })
}

/// Is a constraint about this column?
fn mentions(check: &str, name: &str) -> bool {
    let (check, name) = (check.to_lowercase(), name.to_lowercase());
    let word = check.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    word || check.contains(&format!("\"{name}\"")) || check.contains(&format!("`{name}`"))
}

/// The primary key, whose null rows are no messages, and the unique indexes.
async fn keys(connection: &mut SqliteConnection, table: &FoundTable, columns: &[SqliteRow]) -> Result<Vec<UniqueKey>> {
    let mut primary: Vec<(i64, String)> = Vec::new();
    let mut not_null: Vec<String> = Vec::new();
    for row in columns {
        let (name, place): (String, i64) = (row.try_get(0)?, row.try_get(4)?);
        if row.try_get(2)? {
            not_null.push(name.clone());
        }
        if place > 0 {
            primary.push((place, name));
        }
    }
    primary.sort();
    let mut keys = Vec::new();
    if !primary.is_empty() {
        let columns = primary.into_iter().map(|(_, name)| name).collect();
        keys.push(UniqueKey { columns, primary: true, not_null: true });
    }
    let unique = sqlx::query(
        "select (select json_group_array(name) from (select i.name from pragma_index_info(l.name) i order by i.seqno)) \
         from pragma_index_list(?) l where l.\"unique\" and not l.partial and l.origin <> 'pk' order by l.name",
    );
    for row in unique.bind(&table.name).fetch_all(connection).await.map_err(setup_error)? {
        let columns: Vec<Option<String>> = serde_json::from_str(row.try_get(0)?)?;
        // An index on an expression has no column there.
        if let Some(columns) = columns.into_iter().collect::<Option<Vec<_>>>() {
            let not_null = columns.iter().all(|name| not_null.contains(name));
            keys.push(UniqueKey { columns, primary: false, not_null });
        }
    }
    Ok(keys)
}

/// A query for these columns of the rows that are looked at, and whether these are all.
async fn sample(connection: &mut SqliteConnection, look: &TableLook, columns: &str) -> Result<(String, bool)> {
    let table = quote::name(&look.table.name)?;
    let sample = Sample::new(&table, look, quote::name)?;
    let size = sqlx::query(AssertSqlSafe(sample.size())).fetch_one(connection).await.map_err(setup_error)?;
    let all = Sample::is_all(size.try_get(0)?);
    Ok((sample.rows(columns, all), all))
}

/// A look for unprocessed rows before there is an owner column.
fn ownerless(rows: &Rows) -> Result<String> {
    let Conditions { new, order, .. } = rows.mapping.conditions(quote::literal)?;
    let order = order.iter().map(|(column, down)| format!("t.{column}{}", if *down { " desc" } else { "" }));
    Ok(format!(
        "select 1 from {} t where {new} order by {} limit ?1",
        rows.mapping.table,
        order.collect::<Vec<_>>().join(", ")
    ))
}

/// What SQLite would do, and whether an index serves the claim: one that holds claimable rows only, or one by status. Rows
/// must come in claim order by themselves.
pub(crate) async fn explain(connection: &mut SqliteConnection, rows: &Rows, pick: &str) -> Result<(Vec<String>, bool)> {
    let plan = sqlx::query(AssertSqlSafe(format!("explain query plan {pick}"))).bind(1);
    let plan = plan.fetch_all(&mut *connection).await.map_err(setup_error)?;
    let steps: Vec<String> = plan.iter().map(|row| row.try_get("detail")).collect::<Result<_, _>>()?;
    let partial =
        "select l.name from sqlite_schema s, pragma_index_list(s.name) l where s.type = 'table' and l.partial";
    let partial = sqlx::query(partial).fetch_all(connection).await.map_err(setup_error)?;
    let partial: Vec<String> = partial.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let status = rows.mapping.status.as_ref().map(|(_, status)| format!("({}=?", status.column)).unwrap_or_default();
    let served = |step: &String| {
        let by = |name: &String| step.ends_with(&format!("INDEX {name}")) || step.contains(&format!("INDEX {name} ("));
        partial.iter().any(by) || step.starts_with("SEARCH") && step.contains(&status)
    };
    let sorted = steps.iter().any(|step| step.contains("TEMP B-TREE"));
    let by_index = !sorted && steps.iter().any(served);
    Ok((steps, by_index))
}

/// Asks the planner: are the unprocessed rows of an owner found by the owner?
pub(crate) async fn finds_owner(connection: &mut SqliteConnection, rows: &Rows) -> Result<bool> {
    let (owner, conditions) = (&rows.owner, rows.mapping.conditions(quote::literal)?);
    let (table, nobody, new) = (&rows.mapping.table, &conditions.nobody, &conditions.new);
    let look = format!("explain query plan select 1 from {table} t where t.{} = {nobody} and {new}", owner.quoted);
    let plan = sqlx::query(AssertSqlSafe(look)).persistent(false).fetch_all(connection).await.map_err(setup_error)?;
    let mut steps = plan.iter().filter_map(|row| row.try_get::<String, _>("detail").ok());
    Ok(steps.any(|step| step.starts_with("SEARCH") && step.contains(&format!("{}=?", owner.name))))
}

/// The index on claimable rows in claim order. It begins with what they have in common, which costs little and makes SQLite
/// prefer it to an index by status that is there already.
async fn claim_index(connection: &mut SqliteConnection, table: &Table, rows: &Rows) -> Result<String> {
    let ClaimIndex { common, order, claimable } = ClaimIndex::of(&rows.mapping, quote::literal)?;
    index(connection, (table, "claim"), rows, &[common, order].concat(), &claimable).await
}

/// The index by which the rows of a process are found; it begins with the same for the same reason.
async fn owner_index(connection: &mut SqliteConnection, table: &Table, rows: &Rows) -> Result<String> {
    let OwnerIndex { common, owner, claimed } = OwnerIndex::of(&rows.mapping, quote::literal)?;
    index(connection, (table, "owner"), rows, &[common, vec![owner]].concat(), &claimed).await
}

/// The statement that makes an index of these columns on the rows of which all of this is true.
async fn index(
    connection: &mut SqliteConnection,
    (table, purpose): (&Table, &str),
    rows: &Rows,
    columns: &[String],
    holds: &[String],
) -> Result<String> {
    let taken = sqlx::query("select name from sqlite_schema").fetch_all(connection).await.map_err(setup_error)?;
    let taken: Vec<String> = taken.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let is_taken = |name: &str| taken.iter().any(|known| known.eq_ignore_ascii_case(name));
    let name = free_name(&table.name, purpose, LONGEST_NAME, is_taken);
    Ok(format!(
        "create index {} on {} ({}) where {}",
        quote::name(&name)?,
        rows.mapping.table,
        columns.join(", "),
        holds.join(" and "),
    ))
}
