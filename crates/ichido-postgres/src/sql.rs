//! PostgreSQL for the verbs that all stores share: how statements are written, run and read.

use ichido::{
    Error, Key,
    error::Result,
    store::{Answers, Files, ProcessId, Processes, Stats},
};
use ichido_sql::{Bind, Cell, Dialect, Liveness, Query, Row, SqlRows, SqlStore};
use sqlx::{
    AssertSqlSafe, Column as _, PgConnection, Row as _, TypeInfo, ValueRef,
    postgres::{PgArguments, PgRow},
};

use crate::{
    Postgres, fault,
    messages::key_columns,
    pooler::{self, OwnTx},
    statements::Statements,
    transaction::{Completion, broken},
};

/// How PostgreSQL writes SQL.
pub struct PostgresDialect;

impl Dialect for PostgresDialect {
    const NOW: &'static str = "now()";
    const CLOCK: &'static str = "clock_timestamp()";
    const LONG_AGO: &'static str = "'-infinity'";
    const EPOCH: &'static str = "extract(epoch from clock_timestamp())::bigint";
    const MINUTE: &'static str = "extract(epoch from clock_timestamp())::bigint / 60";
    const ALIVE: &'static str = "p.heartbeat_at > clock_timestamp() - p.lease";
    const HEARTBEAT: &'static str = "p.heartbeat_at::text";
    const RUNS: &'static str = "p.runs, case when isfinite(p.heartbeat_at) then (extract(epoch from clock_timestamp() - p.heartbeat_at) * 1000)::bigint end";
    const LIFE: (&'static str, &'static str) = (", lease", ", ?6 * interval '1 millisecond'");
    const LOCK_ROWS: &'static str = " for update of t skip locked";
    const NUMBERED: bool = true;
    const NULLS_FIRST: bool = false;

    fn parameter(at: usize, bind: &Bind) -> String {
        if matches!(bind, Bind::Id(_)) { format!("${at}::text::uuid") } else { format!("${at}") }
    }

    fn is_in(at: usize, _: usize) -> String {
        format!("= any(${at})")
    }

    fn after(sign: char, parameter: &str) -> String {
        format!("now() {sign} {parameter} * interval '1 millisecond'")
    }

    fn age_ms(moment: &str) -> String {
        format!("(extract(epoch from clock_timestamp() - {moment}) * 1000)::bigint")
    }

    fn utc(moment: &str) -> String {
        format!("to_char({moment} at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
    }

    fn moment(parameter: &str) -> String {
        format!("{parameter}::timestamptz")
    }

    fn due(since_1970: &str, from_now: &str) -> String {
        format!(
            "coalesce(to_timestamp({since_1970} / 1000.0), clock_timestamp() + {from_now} * interval '1 millisecond')"
        )
    }

    fn id(column: &str) -> String {
        format!("{column}::text")
    }

    fn stamp(moment: &str) -> String {
        format!("to_char({moment} at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    }
}

impl SqlStore for Postgres {
    type Dialect = PostgresDialect;
    type Queue = Statements;
    type Own = OwnTx;

    ichido_sql::known!();

    /// Whatever isolation the server has as its default.
    async fn begin_own(&self) -> Result<Self::Own> {
        // Before a connection is held: the first look at the queues needs its own.
        self.queues().await?;
        self.own.begin(pooler::OWN).await.map_err(|error| self.unreachable(error))
    }

    async fn commit_own(own: Self::Own) -> Result<()> {
        Ok(own.commit().await?)
    }

    async fn rollback_own(own: Self::Own) -> Result<()> {
        Ok(own.rollback().await?)
    }

    async fn execute(&self, connection: &mut PgConnection, query: Query) -> Result<u64> {
        Ok(self.shared.deadline.within(bound(query).execute(connection)).await?.rows_affected())
    }

    async fn fetch(&self, connection: &mut PgConnection, query: Query) -> Result<Vec<Row>> {
        self.shared.deadline.within(bound(query).fetch_all(connection)).await?.iter().map(read).collect()
    }

    async fn look(&self, query: Query) -> Result<Vec<Row>> {
        self.own.fetch_all(bound(query)).await?.iter().map(read).collect()
    }

    async fn write(&self, query: Query) -> Result<u64> {
        Ok(self.own.execute(bound(query)).await?.rows_affected())
    }
}

impl Liveness for Postgres {
    async fn begin_life(&self, _: ProcessId) -> Result<()> {
        self.warn_of_pooler().await
    }
}

impl SqlRows for Postgres {
    /// The keys are one array per column.
    fn of_keys(queue: &Statements, statement: &str, owner: Option<ProcessId>, keys: &[Key], end: &str) -> Query {
        let query = Query::written(format!("{statement}{end}"));
        let query = if let Some(owner) = owner { query.bind(owner.to_string()) } else { query };
        let keys: Vec<&Key> = keys.iter().collect();
        key_columns(queue, &keys).into_iter().fold(query, |query, column| query.bind(Bind::Texts(column)))
    }

    fn mapping_of(queue: &Statements) -> &ichido_sql::Mapping {
        &queue.rows.mapping
    }

    fn text_of(_: &Statements, column: &str) -> Result<String> {
        Ok(format!("t.{column}::text"))
    }

    fn value_of(queue: &Statements, column: &str, parameter: &str) -> Result<String> {
        Ok(format!("cast({parameter}::text as {})", queue.rows.kind(column)))
    }

    async fn has_owner_index(&self, queue: &Statements) -> Result<bool> {
        self.finds_owner_by_index(queue).await
    }

    fn statements_of(queue: &Statements) -> Vec<(&'static str, String)> {
        queue.all()
    }

    fn is_unique(error: &Error) -> bool {
        matches!(error, Error::Failed(cause) if cause.downcast_ref().is_some_and(fault::is_unique))
    }

    fn broken(error: Error) -> Error {
        match error {
            Error::Failed(cause) => match cause.downcast::<sqlx::Error>() {
                Ok(error) => broken(Completion::Failed(*error)),
                Err(cause) => Error::Failed(cause),
            },
            error => error,
        }
    }
}

ichido_sql::cancelling!(Postgres);

impl Files for Postgres {
    ichido_sql::files!();
}

impl Answers for Postgres {
    ichido_sql::answers!();
}

impl Stats for Postgres {
    ichido_sql::stats!();
}

impl Processes for Postgres {
    ichido_sql::processes!();
}

fn bound(query: Query) -> sqlx::query::Query<'static, sqlx::Postgres, PgArguments> {
    let (text, binds) = query.write::<PostgresDialect>();
    binds.into_iter().fold(sqlx::query(AssertSqlSafe(text)), |query, bind| match bind {
        Bind::Text(text) | Bind::Exact(text) => query.bind(text),
        Bind::Int(number) => query.bind(number),
        Bind::Bool(flag) => query.bind(flag),
        Bind::Bytes(bytes) => query.bind(bytes),
        Bind::Id(process) => query.bind(process.to_string()),
        Bind::Texts(texts) | Bind::Exacts(texts) => query.bind(texts),
    })
}

fn read(row: &PgRow) -> Result<Row> {
    let cell = |at: usize| {
        Ok(match row.column(at).type_info().name() {
            _ if row.try_get_raw(at)?.is_null() => Cell::Null,
            "BOOL" => Cell::Int(row.try_get::<bool, _>(at)?.into()),
            "INT2" => Cell::Int(row.try_get::<i16, _>(at)?.into()),
            "INT4" => Cell::Int(row.try_get::<i32, _>(at)?.into()),
            "INT8" => Cell::Int(row.try_get(at)?),
            "BYTEA" => Cell::Bytes(row.try_get(at)?),
            _ => Cell::Text(row.try_get(at)?),
        })
    };
    Ok(Row::new((0..row.len()).map(cell).collect::<Result<_>>()?))
}
