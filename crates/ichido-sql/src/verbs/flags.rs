//! Request ids: who serves them, who must serve one alone, and what operators ask of them.

use std::collections::BTreeMap;

use ichido::{
    error::Result,
    process::{Flag, Flags, RequestState},
    store::{ProcessId, Registration, refuse_request_id},
};

use crate::{Dialect, Liveness, Other, Query, Row, SqlStore, Tables, verbs::audit};

/// Writes down which request ids a process serves, unless another live process serves one that it must serve alone.
pub(crate) async fn serve<S: Liveness>(store: &S, tx: &mut S::Connection, process: &Registration) -> Result<()> {
    for request_id in &process.alone {
        keep(store, tx, request_id).await?;
        if let Some(other) = other(store, tx, process.id, request_id).await? {
            return Err(other.refusal());
        }
    }
    let insert = format!("insert into {} (process, request_id) values (?1, ?2)", store.tables().process_request);
    for request_id in &process.request_ids {
        store.execute(tx, Query::new(&insert).bind(process.id).exact(&**request_id)).await?;
    }
    Ok(())
}

/// The request id has a row, and nobody else changes it until this transaction ends.
async fn keep<S: SqlStore>(store: &S, tx: &mut S::Connection, request_id: &str) -> Result<()> {
    refuse_request_id(request_id)?;
    let request = &store.tables().request;
    let same = S::Dialect::or_replace("request_id", &["request_id"]);
    let keep = format!("insert into {request} (request_id) values (?1) {same}");
    store.execute(tx, Query::new(keep).exact(request_id)).await?;
    Ok(())
}

/// The request ids that processes serve, as `r`, with their processes, as `p`.
fn requests(tables: &Tables) -> String {
    format!("{} r join {} p on p.id = r.process", tables.process_request, tables.process)
}

/// Another live process that serves this request id. A statement of its own: it must see who has registered while this transaction
/// waited for the row.
async fn other<S: Liveness>(
    store: &S,
    tx: &mut S::Connection,
    process: ProcessId,
    request_id: &str,
) -> Result<Option<Other>> {
    let (tables, alive) = (store.tables(), S::Dialect::ALIVE);
    let others = format!(
        "select {}, p.host, p.pid, {alive}, {} from {} where r.request_id = ?1 and p.id <> ?2",
        S::Dialect::id("p.id"),
        S::Dialect::HEARTBEAT,
        requests(tables)
    );
    for row in store.fetch(tx, Query::new(others).exact(request_id).bind(process)).await? {
        let id: ProcessId = row.get(0)?;
        if store.is_alive(id, row.get(3)?)? {
            let (host, pid, heartbeat) = (row.get(1)?, row.get(2)?, row.get(4)?);
            return Ok(Some(Other { request_id: request_id.to_owned(), id, host, pid, heartbeat }));
        }
    }
    Ok(None)
}

/// Sets a flag of a request id or takes it away; false if it was so already.
///
/// # Errors
/// The request id cannot be one, or the database failed.
pub async fn set<S: SqlStore>(store: &S, request_id: &str, flag: Flag, on: bool) -> Result<bool> {
    let (column, verb) = match flag {
        Flag::Stop => ("stopped", if on { "stop" } else { "unstop" }),
        Flag::Pause => ("paused", if on { "pause" } else { "resume" }),
    };
    refuse_request_id(request_id)?;
    let mut own = store.begin_own().await?;
    keep(store, &mut own, request_id).await?;
    let (request, now) = (&store.tables().request, S::Dialect::NOW);
    let write =
        format!("update {request} set {column} = ?2, changed_at = {now} where request_id = ?1 and {column} <> ?2");
    let changed = store.execute(&mut own, Query::new(write).exact(request_id).bind(on)).await? == 1;
    if changed {
        audit::write(store, &mut own, verb, (audit::NO_QUEUE, request_id), "").await?;
    }
    S::commit_own(own).await?;
    Ok(changed)
}

/// How every request id is doing that is served, or of which operators ask something.
///
/// # Errors
/// The database failed.
pub async fn states<S: Liveness>(store: &S) -> Result<Vec<RequestState>> {
    store.queues().await?;
    let tables = store.tables();
    let served =
        format!("select r.request_id, {}, {} from {}", S::Dialect::id("p.id"), S::Dialect::ALIVE, requests(tables));
    let read = |row: &Row| Ok((row.get(0)?, store.is_alive(row.get(1)?, row.get(2)?)?));
    let served = store.look(Query::new(served)).await?.iter().map(read).collect::<Result<Vec<_>>>()?;
    let flags = format!("select request_id, stopped, paused from {} where stopped or paused", tables.request);
    Ok(crate::requests(served, read_flags(&store.look(Query::new(flags)).await?, 0)?))
}

/// The flags in these rows: request id, stopped, paused, from this column on. A row without a request id has none.
pub(crate) fn read_flags(rows: &[Row], at: usize) -> Result<BTreeMap<String, Flags>> {
    let mut flags = BTreeMap::new();
    for row in rows {
        if let Some(request_id) = row.get::<Option<String>>(at)? {
            flags.insert(request_id, Flags { stopped: row.get(at + 1)?, paused: row.get(at + 2)? });
        }
    }
    Ok(flags)
}
