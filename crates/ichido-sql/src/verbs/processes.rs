//! Processes: how they become known, poll and deregister. `rescue` is about those that do not.

use ichido::{
    Error, MessageId,
    error::Result,
    store::{Polled, ProcessId, Registration, WHOLE_DATABASE, refuse_request_id},
};

use crate::{
    Bind, Dialect, Liveness, Owned, Query, SqlRows, SqlStore,
    verbs::{cancel, flags, groups, leases, queues},
};

/// Makes a process known, with its queues and request ids.
///
/// # Errors
/// [`Error::Duplicate`] if another live process serves a request id that it must serve alone.
pub async fn register<S: Liveness>(store: &S, process: &Registration) -> Result<()> {
    process.request_ids.iter().try_for_each(|id| refuse_request_id(id))?;
    store.begin_life(process.id).await?;
    let written = write(store, process).await;
    if matches!(written, Err(Error::Duplicate { .. })) {
        store.end_life(process.id);
    }
    written
}

async fn write<S: Liveness>(store: &S, process: &Registration) -> Result<()> {
    let (tables, (columns, values)) = (store.tables(), S::Dialect::LIFE);
    let insert = format!(
        "insert into {} (id, request_id, host, pid, version{columns}) values (?1, ?2, ?3, ?4, ?5{values})",
        tables.process
    );
    let insert = Query::new(insert).bind(process.id).bind(process.title()).bind(ichido::store::host());
    let insert = insert.bind(std::process::id()).bind(env!("CARGO_PKG_VERSION"));
    let lease = i64::try_from(process.lease.as_millis()).unwrap_or(i64::MAX);
    let mut own = store.begin_own().await?;
    store.execute(&mut own, insert.bind(lease)).await?;
    let serve = format!("insert into {} (process, queue, place, slots) values (?1, ?2, ?3, ?4)", tables.process_queue);
    for queue in process.queues.keys() {
        let place = &*store.queue(queue).await?.place;
        let slots = process.slots.get(queue).map(|slots| i64::from(*slots));
        store.execute(&mut own, Query::new(&serve).bind(process.id).bind(&**queue).bind(place).bind(slots)).await?;
    }
    flags::serve(store, &mut own, process).await?;
    S::commit_own(own).await
}

/// The durable mark that spends a suspect's attempt if the process dies.
///
/// # Errors
/// The database failed.
pub async fn mark_running<S: SqlStore>(store: &S, process: ProcessId, suspect: Option<&MessageId>) -> Result<()> {
    let mark = Query::new(format!("update {} set running = ?2 where id = ?1", store.tables().process));
    store.write(mark.bind(process).bind(Bind::Exact(suspect.map(ToString::to_string)))).await?;
    Ok(())
}

/// Frees what the process has, except rows that are being completed right now; those are rescued later.
///
/// # Errors
/// The database failed.
pub async fn deregister<S: SqlRows>(store: &S, process: ProcessId) -> Result<()> {
    let mut own = store.begin_own().await?;
    store.stop_claims(&mut own, process).await?;
    for (queue, _) in served(store, &mut own, process).await? {
        loop {
            let owned = owned(store, &mut own, queue, process).await?;
            if owned.is_empty() {
                break;
            }
            queues::free(store, &mut own, queue, process, &owned).await?;
        }
        forget_queue(store, &mut own, queue, process).await?;
    }
    leases::release_chore_leases(store, &mut own, process).await?;
    forget(store, &mut own, process).await?;
    S::commit_own(own).await?;
    store.end_life(process);
    Ok(())
}

/// From now on the process does not serve this request id any more.
///
/// # Errors
/// The database failed.
pub async fn quit<S: SqlStore>(store: &S, process: ProcessId, request_id: &str) -> Result<()> {
    let quit = format!("delete from {} where process = ?1 and request_id = ?2", store.tables().process_request);
    store.write(Query::new(quit).bind(process).exact(request_id)).await?;
    Ok(())
}

/// Is there anybody to rescue, are chores nobody's, and what do operators ask? Only small tables are read: this comes with the heartbeat.
///
/// # Errors
/// The database failed.
pub async fn poll<S: SqlStore>(store: &S, by: &Registration) -> Result<Polled> {
    let (tables, now) = (store.tables(), S::Dialect::CLOCK);
    let served = format!("select 1 from {} q where q.process = p.id", tables.process_queue);
    let look = format!(
        "select exists (select 1 from {} p where not ({}) and p.id <> ?1 \
         and (exists ({served} and q.queue in ?2) or not exists ({served}))), \
         (select count(*) from {} where queue in ?2 and until > {now}), \
         {}, exists (select 1 from {} c where c.process = ?1 or (c.process = ?4 and c.queue in ?2)), \
         (select count(*) from {}), r.request_id, r.stopped, r.paused from (select 1 as one) one left join {} r on (r.stopped or r.paused) and r.request_id in ?3",
        tables.process,
        S::Dialect::ALIVE,
        tables.chore,
        S::Dialect::MINUTE,
        tables.cancel,
        tables.process,
        tables.request
    );
    let mut names: Vec<_> = by.queues.keys().map(ToString::to_string).collect();
    names.push(WHOLE_DATABASE.to_owned());
    let chores = names.len();
    let requests = Bind::Exacts(by.request_ids.iter().map(ToString::to_string).collect());
    let look = Query::new(look).bind(by.id).bind(Bind::Texts(names.clone())).bind(requests);
    let rows = store.look(look.bind(ProcessId::NOBODY)).await?;
    let Some(row) = rows.first() else { return Ok(Polled::default()) };
    let taken: i64 = row.get(1)?;
    let free = usize::try_from(taken).is_ok_and(|taken| taken < chores);
    let cancelled = if row.get(3)? { cancel::told(store, by.id, names).await? } else { Vec::new() };
    let (dead, minute, flags) = (row.get(0)?, row.get(2)?, flags::read_flags(&rows, 5)?);
    let processes = u32::try_from(row.get::<i64>(4)?).unwrap_or(u32::MAX);
    Ok(Polled { dead, free, minute, processes, flags, cancelled: cancelled.into_iter().collect() })
}

/// The queues that a process has registered and that we know as the same rows, and how many messages of each it may have begun at
/// once.
pub(super) async fn served<'a, S: SqlStore>(
    store: &'a S,
    tx: &mut S::Connection,
    process: ProcessId,
) -> Result<Vec<(&'a S::Queue, Option<u32>)>> {
    let served = format!("select queue, place, slots from {} where process = ?1", store.tables().process_queue);
    let (served, known) = (store.fetch(tx, Query::new(served).bind(process)).await?, store.queues().await?);
    let mut ours = Vec::new();
    for row in served {
        let (queue, place): (String, String) = (row.get(0)?, row.get(1)?);
        let slots: Option<u32> = row.get(2)?;
        let found = known.iter().find(|known| *known.queue == *queue && known.place == place);
        ours.extend(found.map(|found| (found, slots)));
    }
    Ok(ours)
}

pub(super) async fn owned<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    process: ProcessId,
) -> Result<Vec<Owned>> {
    let owned = store.fetch(tx, Query::written(&*queue.owned).bind(process.to_string())).await?;
    let read = |row: &crate::Row| Ok(Owned { key: row.key(queue.key_columns)?, group: row.get(queue.key_columns)? });
    owned.iter().map(read).collect()
}

/// Forgets that a process served a queue, when it owns nothing there any more, not even a group.
pub(super) async fn forget_queue<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    process: ProcessId,
) -> Result<()> {
    let left = store.fetch(tx, Query::written(&*queue.owns_any).bind(process.to_string())).await?;
    if left.is_empty() {
        groups::free_all(store, tx, queue, process).await?;
        let forget = format!("delete from {} where process = ?1 and queue = ?2", store.tables().process_queue);
        store.execute(tx, Query::new(forget).bind(process).bind(&*queue.queue)).await?;
    }
    Ok(())
}

/// Forgets a process that serves no queue any more.
pub(super) async fn forget<S: SqlStore>(store: &S, tx: &mut S::Connection, process: ProcessId) -> Result<bool> {
    cancel::forget_process(store, tx, process).await?;
    let forget = format!(
        "delete from {} where id = ?1 and not exists (select 1 from {} where process = ?1)",
        store.tables().process,
        store.tables().process_queue
    );
    Ok(store.execute(tx, Query::new(forget).bind(process)).await? == 1)
}
