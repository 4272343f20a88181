//! SQLite for the verbs that all stores share: how statements are written, run and read, and how a process shows that it is alive.

use std::ops::{Deref, DerefMut};

use ichido::{
    Error, Key,
    error::Result,
    store::{Answers, Files, ProcessId, Processes, Stats},
};
use ichido_sql::{Bind, Cell, Dialect, Kind, LastHeartbeat, Liveness, Query, Row, SqlRows, SqlStore};
use sqlx::{
    AssertSqlSafe, Row as _, SqliteConnection, TypeInfo, ValueRef,
    sqlite::{SqliteArguments, SqliteRow},
};

use crate::{Sqlite, Tx, fault, messages::key_list, statements::Statements, transaction, value};

/// How SQLite writes SQL. Times are text.
pub struct SqliteDialect;

impl Dialect for SqliteDialect {
    const NOW: &'static str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
    const LONG_AGO: &'static str = "null";
    const EPOCH: &'static str = "unixepoch()";
    const MINUTE: &'static str = "unixepoch() / 60";
    /// Its lock tells, and not its row.
    const ALIVE: &'static str = "0";
    /// Whoever may write is alone.
    const LOCK: &'static str = "";
    const LOCK_FREE: &'static str = "";
    const LOCK_ROWS: &'static str = "";
    const NUMBERED: bool = true;
    const NULLS_FIRST: bool = true;

    fn parameter(at: usize, _: &Bind) -> String {
        format!("?{at}")
    }

    fn is_in(at: usize, _: usize) -> String {
        format!("in (select value from json_each(?{at}))")
    }

    fn after(sign: char, parameter: &str) -> String {
        format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ({sign}{parameter} / 1000.0) || ' seconds')")
    }

    fn age_ms(moment: &str) -> String {
        format!("cast(round((julianday('now') - julianday({moment})) * 86400000) as integer)")
    }

    fn utc(moment: &str) -> String {
        moment.to_owned()
    }

    /// Nothing else is locked here, but the planner, which has no statistics, prefers a primary key to an index with more columns. Keys are
    /// found without being told.
    fn by_index(index: &str) -> String {
        match index {
            "primary" | "ichido_outbox_mutex" => String::new(),
            index => format!(" indexed by {index}"),
        }
    }

    fn moment(parameter: &str) -> String {
        parameter.to_owned()
    }

    fn due(since_1970: &str, from_now: &str) -> String {
        let at = format!("strftime('%Y-%m-%dT%H:%M:%fZ', {since_1970} / 1000.0, 'unixepoch')");
        format!("coalesce({at}, {})", Self::after('+', from_now))
    }
}

impl SqlStore for Sqlite {
    type Dialect = SqliteDialect;
    type Queue = Statements;
    type Own = Tx;

    ichido_sql::known!();

    async fn begin_own(&self) -> Result<Tx> {
        self.queues().await?;
        self.begin_tx().await
    }

    async fn commit_own(own: Tx) -> Result<()> {
        own.commit().await
    }

    async fn rollback_own(own: Tx) -> Result<()> {
        own.rollback().await
    }

    async fn execute(&self, connection: &mut SqliteConnection, query: Query) -> Result<u64> {
        Ok(bound(query)?.execute(connection).await?.rows_affected())
    }

    async fn fetch(&self, connection: &mut SqliteConnection, query: Query) -> Result<Vec<Row>> {
        bound(query)?.fetch_all(connection).await?.iter().map(read).collect()
    }

    async fn look(&self, query: Query) -> Result<Vec<Row>> {
        bound(query)?.fetch_all(&self.readers).await?.iter().map(read).collect()
    }
}

/// A process is alive while it holds its lock; nothing is written.
impl Liveness for Sqlite {
    /// The lock comes first: a process that is known is alive.
    async fn begin_life(&self, process: ProcessId) -> Result<()> {
        Ok(self.shared.alive.begin(process)?)
    }

    fn end_life(&self, process: ProcessId) {
        self.shared.alive.end(process);
    }

    fn is_alive(&self, process: ProcessId, _: bool) -> Result<bool> {
        Ok(self.shared.alive.dead(process)?.is_none())
    }

    /// The lock is the sign. But a process that others have declared dead must know.
    async fn write_heartbeat(&self, process: ProcessId, runs: Option<String>) -> Result<bool> {
        let known = Query::new("select 1 from ichido_process where id = ?1").bind(process);
        let alive = self.shared.alive.is_ours(process) && !self.look(known).await?.is_empty();
        if alive {
            self.shared.alive.tell(process, runs.as_deref().unwrap_or_default());
        }
        Ok(alive)
    }

    /// A heartbeat writes into the lock file: a transaction that is open would keep it out of the database.
    fn last_heartbeat(&self, process: ProcessId, _: LastHeartbeat) -> LastHeartbeat {
        self.shared.alive.told(process).unwrap_or_default()
    }

    /// Nobody else has a transaction while this one lasts.
    async fn stop_claims(&self, _: &mut SqliteConnection, _: ProcessId) -> Result<()> {
        Ok(())
    }
}

impl SqlRows for Sqlite {
    /// The keys are one JSON array.
    fn of_keys(_: &Statements, statement: &str, owner: Option<ProcessId>, keys: &[Key], _: &str) -> Query {
        let query = Query::written(statement);
        let query = if let Some(owner) = owner { query.bind(owner.to_string()) } else { query };
        query.bind(key_list(keys))
    }

    fn mapping_of(queue: &Statements) -> &ichido_sql::Mapping {
        &queue.rows.mapping
    }

    fn text_of(queue: &Statements, column: &str) -> Result<String> {
        let known = queue.rows.column(column);
        Ok(known.map_or_else(|| format!("cast(t.{column} as text)"), |column| column.out("t.")))
    }

    fn value_of(queue: &Statements, column: &str, parameter: &str) -> Result<String> {
        Ok(queue.rows.column(column).map_or_else(|| parameter.to_owned(), |column| column.value_of(parameter)))
    }

    async fn has_owner_index(&self, queue: &Statements) -> Result<bool> {
        self.finds_owner_by_index(queue).await
    }

    fn statements_of(queue: &Statements) -> Vec<(&'static str, String)> {
        queue.all()
    }

    async fn payload_of(&self, queue: &Statements, key: &Key) -> Result<Option<String>> {
        let rows = sqlx::query(AssertSqlSafe(queue.payload.clone()));
        let rows = key.columns().iter().fold(rows, sqlx::query::Query::bind);
        let Some(row) = rows.fetch_optional(&self.readers).await? else { return Ok(None) };
        if queue.kind != Kind::Table {
            let bytes: Option<Vec<u8>> = row.try_get(1)?;
            return Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
        let columns = value::object(&row, queue.rows.key.len(), &queue.rows.columns)?;
        Ok(Some(serde_json::to_string(&columns)?))
    }

    fn is_unique(error: &Error) -> bool {
        matches!(error, Error::Failed(cause) if cause.downcast_ref().is_some_and(fault::is_unique))
    }

    fn broken(error: Error) -> Error {
        transaction::broken(error)
    }
}

ichido_sql::cancelling!(Sqlite);

impl Files for Sqlite {
    ichido_sql::files!();
}

impl Answers for Sqlite {
    ichido_sql::answers!();
}

impl Stats for Sqlite {
    ichido_sql::stats!();
}

impl Processes for Sqlite {
    ichido_sql::processes!();
}

impl Deref for Tx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.inner
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.inner
    }
}

type Bound = sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>;

fn bound(query: Query) -> Result<Bound> {
    let (text, binds) = query.write::<SqliteDialect>();
    let mut query = sqlx::query(AssertSqlSafe(text));
    for bind in binds {
        query = match bind {
            Bind::Text(text) | Bind::Exact(text) => query.bind(text),
            Bind::Int(number) => query.bind(number),
            Bind::Bool(flag) => query.bind(flag),
            Bind::Bytes(bytes) => query.bind(bytes),
            Bind::Id(process) => query.bind(process.to_string()),
            Bind::Texts(texts) | Bind::Exacts(texts) => query.bind(serde_json::to_string(&texts)?),
        };
    }
    Ok(query)
}

fn read(row: &SqliteRow) -> Result<Row> {
    let cell = |at: usize| {
        let value = row.try_get_raw(at)?;
        Ok(match value.type_info().name() {
            _ if value.is_null() => Cell::Null,
            "TEXT" => Cell::Text(row.try_get(at)?),
            "BLOB" => Cell::Bytes(row.try_get(at)?),
            _ => Cell::Int(row.try_get_unchecked(at)?),
        })
    };
    Ok(Row::new((0..row.len()).map(cell).collect::<Result<_>>()?))
}
