//! MariaDB and MySQL for the verbs that all stores share: how statements are written, run and read.

use ichido::{
    Error, Key,
    error::Result,
    store::{Answers, Files, ProcessId, Processes, Stats},
};
use ichido_sql::{Bind, Cell, Dialect, Liveness, Query, Row, SqlRows, SqlStore, padded};
use sqlx::{AssertSqlSafe, Column as _, MySqlConnection, Row as _, TypeInfo, ValueRef, mysql::MySqlRow};

use crate::{
    MySql, fault,
    session::{Own, Statement},
    statements::Statements,
    transaction::broken,
};

/// How MariaDB and MySQL write SQL. Times are UTC; texts that are compared byte by byte are bytes.
pub struct MySqlDialect;

impl Dialect for MySqlDialect {
    const KEY: &'static str = "`key`";
    const NOW: &'static str = "utc_timestamp(6)";
    const LONG_AGO: &'static str = "'1000-01-01'";
    const EPOCH: &'static str = "cast(unix_timestamp() as signed)";
    const MINUTE: &'static str = "cast(unix_timestamp() div 60 as signed)";
    const ALIVE: &'static str = "p.heartbeat_at > utc_timestamp(6) - interval p.lease_us microsecond";
    const HEARTBEAT: &'static str = "cast(p.heartbeat_at as char)";
    const RUNS: &'static str =
        "p.runs, cast(timestampdiff(microsecond, p.heartbeat_at, utc_timestamp(6)) div 1000 as signed)";
    const LIFE: (&'static str, &'static str) =
        (", started_at, heartbeat_at, lease_us", ", utc_timestamp(6), utc_timestamp(6), ?6 * 1000");
    const NUMBERED: bool = false;
    const NULLS_FIRST: bool = true;

    fn parameter(_: usize, _: &Bind) -> String {
        "?".to_owned()
    }

    fn is_in(_: usize, count: usize) -> String {
        if count == 0 { "in (null)".to_owned() } else { format!("in ({})", vec!["?"; count].join(", ")) }
    }

    fn after(sign: char, parameter: &str) -> String {
        format!("utc_timestamp(6) {sign} interval {parameter} * 1000 microsecond")
    }

    fn age_ms(moment: &str) -> String {
        format!("cast(timestampdiff(microsecond, {moment}, utc_timestamp(6)) div 1000 as signed)")
    }

    fn utc(moment: &str) -> String {
        format!("date_format({moment}, '%Y-%m-%dT%H:%i:%s.%fZ')")
    }

    fn moment(parameter: &str) -> String {
        format!("str_to_date({parameter}, '%Y-%m-%dT%H:%i:%s.%fZ')")
    }

    fn due(since_1970: &str, from_now: &str) -> String {
        format!(
            "coalesce(cast('1970-01-01' as datetime(6)) + interval {since_1970} * 1000 microsecond, \
             utc_timestamp(6) + interval {from_now} * 1000 microsecond)"
        )
    }

    fn stamp(moment: &str) -> String {
        Self::utc(moment)
    }

    fn by_index(index: &str) -> String {
        format!(" force index ({index})")
    }

    fn delete_by_index(table: &str, index: &str) -> String {
        format!("delete p from {table} p{}", Self::by_index(index))
    }

    fn insert_new(table: &str, columns: &str, values: &str) -> String {
        format!("insert ignore into {table} ({columns}) values ({values})")
    }

    fn or_replace(_: &str, columns: &[&str]) -> String {
        let set: Vec<_> = columns.iter().map(|column| format!("{column} = values({column})")).collect();
        format!("on duplicate key update {}", set.join(", "))
    }
}

impl SqlStore for MySql {
    type Dialect = MySqlDialect;
    type Queue = Statements;
    type Own = Own;

    ichido_sql::known!();

    async fn begin_own(&self) -> Result<Self::Own> {
        // Before a connection is held: the first look at the queues needs its own.
        self.queues().await?;
        let lent = self.begin_with(&self.own, "start transaction").await.map_err(|error| self.unreachable(error))?;
        Ok(Own { lent, shared: self.shared.clone() })
    }

    async fn commit_own(own: Self::Own) -> Result<()> {
        Ok(own.end("COMMIT").await?)
    }

    async fn rollback_own(own: Self::Own) -> Result<()> {
        Ok(own.end("ROLLBACK").await?)
    }

    async fn execute(&self, connection: &mut MySqlConnection, query: Query) -> Result<u64> {
        Ok(self.within(bound(query).execute(connection)).await?.rows_affected())
    }

    async fn fetch(&self, connection: &mut MySqlConnection, query: Query) -> Result<Vec<Row>> {
        self.within(bound(query).fetch_all(connection)).await?.iter().map(read).collect()
    }

    async fn look(&self, query: Query) -> Result<Vec<Row>> {
        self.rows_alone(|| bound(query.clone())).await?.iter().map(read).collect()
    }

    async fn write(&self, query: Query) -> Result<u64> {
        Ok(self.run_alone(bound(query)).await?)
    }
}

impl Liveness for MySql {}

impl SqlRows for MySql {
    /// The keys are written one by one, so that rows are locked by primary key.
    fn of_keys(queue: &Statements, statement: &str, owner: Option<ProcessId>, keys: &[Key], end: &str) -> Query {
        let query = Query::written(queue.of_many(statement, keys.len(), end));
        let query = if let Some(owner) = owner { query.bind(owner.to_string()) } else { query };
        padded(keys).fold(query, Query::key)
    }

    fn mapping_of(queue: &Statements) -> &ichido_sql::Mapping {
        &queue.rows.mapping
    }

    fn text_of(queue: &Statements, column: &str) -> Result<String> {
        Ok(queue.rows.named(column)?.out())
    }

    fn value_of(queue: &Statements, column: &str, parameter: &str) -> Result<String> {
        Ok(queue.rows.named(column)?.value_of(parameter))
    }

    fn statements_of(queue: &Statements) -> Vec<(&'static str, String)> {
        queue.all()
    }

    fn is_unique(error: &Error) -> bool {
        matches!(error, Error::Failed(cause) if cause.downcast_ref().is_some_and(fault::is_unique))
    }

    fn broken(error: Error) -> Error {
        broken(error)
    }
}

ichido_sql::cancelling!(MySql);

impl Files for MySql {
    ichido_sql::files!();
}

impl Answers for MySql {
    ichido_sql::answers!();
}

impl Stats for MySql {
    ichido_sql::stats!();
}

impl Processes for MySql {
    ichido_sql::processes!();
}

fn bound(query: Query) -> Statement<'static> {
    let (text, binds) = query.write::<MySqlDialect>();
    binds.into_iter().fold(sqlx::query(AssertSqlSafe(text)), |query, bind| match bind {
        Bind::Text(text) => query.bind(text),
        Bind::Exact(text) => query.bind(text.map(String::into_bytes)),
        Bind::Int(number) => query.bind(number),
        Bind::Bool(flag) => query.bind(flag),
        Bind::Bytes(bytes) => query.bind(bytes),
        Bind::Id(process) => query.bind(process.to_string()),
        // `Query::write` has made single parameters of these.
        Bind::Texts(_) | Bind::Exacts(_) => query,
    })
}

fn read(row: &MySqlRow) -> Result<Row> {
    let cell = |at: usize| {
        let kind = row.column(at).type_info().name();
        Ok(match kind {
            _ if row.try_get_raw(at)?.is_null() => Cell::Null,
            _ if kind.ends_with("UNSIGNED") => Cell::Int(row.try_get::<u64, _>(at)?.try_into()?),
            _ if kind.ends_with("INT") || kind == "BOOLEAN" => Cell::Int(row.try_get(at)?),
            _ if kind.ends_with("BLOB") || kind.ends_with("BINARY") => Cell::Bytes(row.try_get(at)?),
            _ => Cell::Text(row.try_get(at)?),
        })
    };
    Ok(Row::new((0..row.len()).map(cell).collect::<Result<_>>()?))
}
