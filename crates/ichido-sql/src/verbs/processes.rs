//! Processes: how they become known, poll, deregister, and how what dead ones had is rescued.

use ichido::{
    Error, MessageId, Result,
    message::OnBusy,
    store::{Polled, ProcessId, Registration, Rescued, refuse_request_id},
};

use crate::{
    Bind, Dialect, Liveness, Owned, Query, SqlRows, SqlStore,
    past::Note,
    verbs::{flags, groups, outbox, parked, queues},
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
    let serve = format!("insert into {} (process, queue, place) values (?1, ?2, ?3)", tables.process_queue);
    for queue in process.queues.keys() {
        let place = &*store.queue(queue).await?.place;
        store.execute(&mut own, Query::new(&serve).bind(process.id).bind(&**queue).bind(place)).await?;
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
    for queue in served(store, &mut own, process).await? {
        loop {
            let owned = owned(store, &mut own, queue, process).await?;
            if owned.is_empty() {
                break;
            }
            queues::free(store, &mut own, queue, process, &owned).await?;
        }
        forget_queue(store, &mut own, queue, process).await?;
    }
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

/// Is there anything to return, to rescue or to publish, and what do operators ask?
///
/// # Errors
/// The database failed.
pub async fn poll<S: SqlStore>(store: &S, by: &Registration) -> Result<Polled> {
    let (tables, now) = (store.tables(), S::Dialect::NOW);
    let look = format!(
        "select exists (select 1 from {} where state = 'waiting' and due_at <= {now} and queue in ?4), \
         exists (select 1 from {} p where not ({}) and p.id <> ?1), r.request_id, r.stopped, r.paused, {}, \
         exists (select 1 from {} where published_at is null and due_at <= {now} and queue in ?2) \
         from (select 1 as one) one left join {} r on (r.stopped or r.paused) and r.request_id in ?3",
        tables.parked,
        tables.process,
        S::Dialect::ALIVE,
        S::Dialect::MINUTE,
        tables.outbox,
        tables.request
    );
    let relays = Bind::Texts(by.relays.iter().map(ToString::to_string).collect());
    let requests = Bind::Exacts(by.request_ids.iter().map(ToString::to_string).collect());
    let look = Query::new(look).bind(by.id).bind(relays).bind(requests).bind(queues::names(by));
    let rows = store.look(look).await?;
    let Some(row) = rows.first() else { return Ok(Polled::default()) };
    let flags = flags::read_flags(&rows, 2)?;
    Ok(Polled { due: row.get(0)?, dead: row.get(1)?, unsent: row.get(6)?, minute: row.get(5)?, flags })
}

/// Frees what dead processes had claimed in the queues that this process serves, as suspects.
///
/// # Errors
/// The database failed.
pub async fn rescue<S: SqlRows>(store: &S, by: &Registration) -> Result<Rescued> {
    let dead = format!(
        "select {} from {} p where not ({}) and p.id <> ?1",
        S::Dialect::id("p.id"),
        store.tables().process,
        S::Dialect::ALIVE
    );
    let mut rescued = Rescued::default();
    for row in store.look(Query::new(dead).bind(by.id)).await? {
        let process: ProcessId = row.get(0)?;
        if !store.is_alive(process, false)? {
            rescue_process(store, process, by, &mut rescued).await?;
        }
    }
    Ok(rescued)
}

/// Frees a dead process's rows, unless somebody else is at it.
async fn rescue_process<S: SqlRows>(
    store: &S,
    dead: ProcessId,
    by: &Registration,
    rescued: &mut Rescued,
) -> Result<()> {
    let mut own = store.begin_own().await?;
    let Some(running) = lock_dead(store, &mut own, dead).await? else {
        store.end_life(dead);
        return S::rollback_own(own).await;
    };
    for queue in served(store, &mut own, dead).await? {
        if let Some(attempts) = by.queues.get(&queue.queue) {
            rescue_queue(store, &mut own, dead, queue, running.as_deref(), *attempts, rescued).await?;
        }
    }
    let gone = forget(store, &mut own, dead).await?;
    S::commit_own(own).await?;
    if gone {
        rescued.processes += 1;
        store.end_life(dead);
    }
    Ok(())
}

/// What the dead process was running, if it is still dead and nobody else is at it. From now on it cannot claim any more, not even with
/// a claim that waits for this lock: the row it then finds says that it is dead.
async fn lock_dead<S: Liveness>(store: &S, tx: &mut S::Connection, dead: ProcessId) -> Result<Option<Option<String>>> {
    let lock = format!(
        "select p.running from {} p where p.id = ?1 and not ({}) {}",
        store.tables().process,
        S::Dialect::ALIVE,
        S::Dialect::LOCK_FREE
    );
    let locked = store.fetch(tx, Query::new(lock).bind(dead)).await?;
    let Some(locked) = locked.first() else { return Ok(None) };
    store.stop_claims(tx, dead).await?;
    locked.get(0).map(Some)
}

/// Rows that are still locked by a stopped process's transaction are left for another time.
async fn rescue_queue<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    dead: ProcessId,
    queue: &S::Queue,
    running: Option<&str>,
    most: u32,
    rescued: &mut Rescued,
) -> Result<()> {
    loop {
        let owned = owned(store, tx, queue, dead).await?;
        if owned.is_empty() {
            return forget_queue(store, tx, queue, dead).await;
        }
        let mut freed = Vec::new();
        for owned in owned {
            let id = MessageId { queue: queue.queue.clone(), key: owned.key.clone() };
            let killed = running == Some(id.to_string().as_str());
            let attempts = parked::past_attempts(store, tx, queue, &owned.key).await?;
            if killed && attempts + 1 >= most {
                parked::park_killer(store, tx, queue, dead, &owned, attempts + 1).await?;
                rescued.parked += 1;
            } else {
                parked::write_note(store, tx, queue, &owned.key, Note::suspect(attempts, killed)).await?;
                freed.push(owned);
            }
        }
        queues::free(store, tx, queue, dead, &freed).await?;
        if queue.rules.as_ref().is_some_and(|rules| rules.on_busy == OnBusy::DeadLetter) {
            // Its copies may all be among the dead letters, as busy.
            let keys: Vec<_> = freed.iter().map(|owned| owned.key.clone()).collect();
            outbox::republish(store, tx, queue, &keys).await?;
        }
        rescued.messages += freed.len() as u64;
    }
}

/// The queues that a process has registered and that we know as the same rows.
async fn served<'a, S: SqlStore>(
    store: &'a S,
    tx: &mut S::Connection,
    process: ProcessId,
) -> Result<Vec<&'a S::Queue>> {
    let served = format!("select queue, place from {} where process = ?1", store.tables().process_queue);
    let (served, known) = (store.fetch(tx, Query::new(served).bind(process)).await?, store.queues().await?);
    let mut ours = Vec::new();
    for row in served {
        let (queue, place): (String, String) = (row.get(0)?, row.get(1)?);
        ours.extend(known.iter().find(|known| *known.queue == *queue && known.place == place));
    }
    Ok(ours)
}

async fn owned<S: SqlStore>(
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
async fn forget_queue<S: SqlStore>(
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
async fn forget<S: SqlStore>(store: &S, tx: &mut S::Connection, process: ProcessId) -> Result<bool> {
    let forget = format!(
        "delete from {} where id = ?1 and not exists (select 1 from {} where process = ?1)",
        store.tables().process,
        store.tables().process_queue
    );
    Ok(store.execute(tx, Query::new(forget).bind(process)).await? == 1)
}
