//! What operators see of queues and processes.

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    error::Result,
    inspect::{MOST_COUNTED, Overview, ProcessState, QueueCounts, RunningState, Statement},
    stat::Backlog,
    store::{ProcessId, Running},
};

use crate::{
    Bind, Dialect, Kind, LastHeartbeat, Liveness, Query, Row, SqlQueue, SqlRows, SqlStore,
    verbs::{flags, outbox},
};

/// A heartbeat that is longer ago than this, in seconds, has not been: a century.
const LONGEST_AGE: i64 = 100 * 366 * 24 * 3600;

/// How every queue and process is doing; what these queues hold is known.
///
/// # Errors
/// The database failed.
pub async fn overview_beside<S: Liveness>(store: &S, known: &[QueueCounts]) -> Result<Overview> {
    let mut queues = Vec::new();
    for queue in store.queues().await? {
        queues.push(match known.iter().find(|known| known.queue == *queue.queue) {
            Some(known) => known.clone(),
            None => counts(store, queue).await?,
        });
    }
    Ok(Overview::new(queues, processes(store).await?, flags::states(store).await?))
}

async fn counts<S: SqlStore>(store: &S, queue: &SqlQueue) -> Result<QueueCounts> {
    let parked = format!(
        "select {}, {}, (select count(*) from {} where queue = ?1 and owner = ?2)",
        parked::<S>(store, "waiting"),
        parked::<S>(store, "dead"),
        store.tables().group,
    );
    let parked = Query::new(parked).bind(&*queue.queue).bind(ProcessId::NOBODY);
    let (unparked, parked) = (unparked(store, queue).await?, store.look(parked).await?);
    let parked = first(&parked)?;
    Ok(QueueCounts { waiting: parked.get(0)?, failed: parked.get(1)?, held_groups: parked.get(2)?, ..unparked })
}

/// How many are parked in this state: as many entries of an index as the bound allows, and no row.
fn parked<S: SqlStore>(store: &S, state: &str) -> String {
    format!(
        "(select count(*) from (select 1 as one from {}{} where queue = ?1 and state = '{state}' limit {MOST_COUNTED}) {state})",
        store.tables().parked,
        S::Dialect::by_index("ichido_parked_since")
    )
}

/// What can be counted up to a bound: everything but what is parked.
async fn unparked<S: SqlStore>(store: &S, queue: &SqlQueue) -> Result<QueueCounts> {
    let rows = store.look(Query::written(&*queue.counts)).await?;
    let rows = first(&rows)?;
    Ok(QueueCounts {
        queue: queue.queue.to_string(),
        ready: rows.get(0)?,
        claimed: rows.get(1)?,
        waiting: 0,
        failed: 0,
        oldest_seconds: rows.get(2)?,
        recent: rows.get(3)?,
        held_groups: 0,
        outbox: outbox::state(store, queue).await?,
    })
}

/// What waits in a queue, and for how long; bounded, and without a look at what is parked.
///
/// # Errors
/// The database failed.
pub async fn backlog<S: SqlStore>(store: &S, queue: &str) -> Result<Backlog> {
    Ok(Backlog::of(&unparked(store, store.queue(queue).await?).await?))
}

/// The row of a count, which always has one.
fn first(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(|| "a count returned no row".into())
}

/// Every process that is known, with what it ran at its last heartbeat.
pub(crate) async fn processes<S: Liveness>(store: &S) -> Result<Vec<ProcessState>> {
    let tables = store.tables();
    let served = format!("select {}, queue from {} order by queue", S::Dialect::id("process"), tables.process_queue);
    let mut queues = BTreeMap::<ProcessId, Vec<String>>::new();
    for row in store.look(Query::new(served)).await? {
        queues.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    let states = format!(
        "select {}, p.request_id, p.host, p.pid, {}, {}, {} from {} p order by p.started_at",
        S::Dialect::id("p.id"),
        S::Dialect::age_ms("p.started_at"),
        S::Dialect::ALIVE,
        S::Dialect::RUNS,
        tables.process
    );
    let mut read = |row: &Row| {
        let id: ProcessId = row.get(0)?;
        let heartbeat = store.last_heartbeat(id, LastHeartbeat::read(row, 6)?);
        Ok(ProcessState {
            id: id.to_string(),
            request_id: row.get(1)?,
            host: row.get(2)?,
            pid: row.get(3)?,
            age_seconds: row.get::<i64>(4)? / 1000,
            alive: store.is_alive(id, row.get(5)?)?,
            queues: queues.remove(&id).unwrap_or_default(),
            heartbeat_seconds: heartbeat.age_ms.map(|age| age.max(0) / 1000).filter(|age| *age < LONGEST_AGE),
            running: running(heartbeat.runs.as_deref()),
        })
    };
    store.look(Query::new(states)).await?.iter().map(&mut read).collect()
}

fn running(runs: Option<&str>) -> Vec<RunningState> {
    let runs = runs.map(Running::read).unwrap_or_default();
    runs.into_iter().map(|running| RunningState { id: running.id, seconds: running.ms / 1000 }).collect()
}

/// How many messages of queues that this store does not have have failed, by queue.
///
/// # Errors
/// The database failed.
pub async fn failed_elsewhere<S: SqlStore>(store: &S) -> Result<Vec<(String, i64)>> {
    let failed = format!(
        "select queue, count(*) from (select queue from {} where state = 'dead' and not (queue in ?1) limit {MOST_COUNTED}) q \
         group by queue order by queue",
        store.tables().parked
    );
    let failed = store.look(Query::new(failed).bind(Bind::Texts(names(store).await?))).await?;
    failed.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// The queues that this store was given.
async fn names<S: SqlStore>(store: &S) -> Result<Vec<String>> {
    Ok(store.queues().await?.iter().map(|queue| queue.queue.to_string()).collect())
}

/// The statements that this store runs for its queues.
///
/// # Errors
/// The database failed.
pub async fn statements<S: SqlRows>(store: &S) -> Result<Vec<Statement>> {
    let mut all = Vec::new();
    for queue in store.queues().await? {
        let named = S::statements_of(queue).into_iter();
        all.extend(named.map(|(verb, sql)| Statement { queue: queue.queue.to_string(), verb, sql }));
    }
    Ok(all)
}

/// The columns of a table queue; none for others.
///
/// # Errors
/// The database failed.
pub async fn columns<S: SqlStore>(store: &S, queue: &str) -> Result<Option<Vec<String>>> {
    let queue = store.queue(queue).await?;
    Ok((queue.kind == Kind::Table).then(|| queue.columns.clone()))
}

/// Messages that took longer than this lease.
///
/// # Errors
/// The database failed.
pub async fn long_messages<S: SqlStore>(store: &S, lease: Duration) -> Result<Vec<String>> {
    let long = format!("select queue, longest_us from {} order by queue", store.tables().longest);
    let long = store.look(Query::new(long)).await?;
    let long = long.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect::<Result<_>>()?;
    Ok(crate::long_messages(long, lease))
}
