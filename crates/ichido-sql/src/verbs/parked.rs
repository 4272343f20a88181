//! Parked messages: put aside with a reason, returned when due, retried and discarded by operators. The parked row and the queue's row
//! always change in one transaction.

use std::collections::{BTreeSet, HashSet};

use ichido::{
    Delivery, Key, MessageId,
    error::Result,
    message::attempts_in,
    store::{Failure, ProcessId},
};

use crate::{
    Bind, Dialect, Kind, Query, Row, SqlQueue, SqlRows, SqlStore,
    past::Note,
    verbs::{audit, groups, inbox, outbox},
};

/// So many parked messages are looked at together.
const AT_A_TIME: usize = 500;

/// Parks in a transaction that is there; false if the claim was gone.
///
/// # Errors
/// The database failed.
pub async fn park_in<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    delivery: &Delivery,
    failure: &Failure,
) -> Result<bool> {
    let Some(claim) = &delivery.claim else { return Ok(false) };
    let queue = store.queue(&delivery.message.queue).await?;
    // What is only locked is free for others since the rollback: whoever is at it now decides.
    if claim.locked && !store.is_free(tx, queue, delivery).await? {
        return Ok(false);
    }
    let (key, group) = (&delivery.message.key, claim.group.as_ref());
    if queue.has_inbox() {
        if !store.set_aside(tx, queue, delivery, claim).await? {
            return Ok(false);
        }
    } else {
        let statement = if failure.retry_after.is_none() { &queue.park_dead } else { &queue.park_waiting };
        if store.execute(tx, SqlQueue::of_owner(statement, claim.in_row(), key)).await? != 1 {
            return Ok(false);
        }
        if failure.retry_after.is_none() {
            groups::hold(store, tx, queue, claim.owner, group, key).await?;
        } else {
            groups::free(store, tx, queue, claim.owner, group.cloned().into_iter().collect()).await?;
        }
    }
    outbox::keep_payload(store, tx, queue, delivery).await?;
    write_note(store, tx, queue, key, Note::failure(failure)).await?;
    Ok(true)
}

/// Writes what is known about a message, keeping its last failures.
pub(crate) async fn write_note<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
    note: Note<'_>,
) -> Result<()> {
    let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
    let of = |what| format!("(select {what} from {parked} where queue = ?1 and {column} = ?2)");
    let past = format!("select {}, {}, {}", S::Dialect::utc(S::Dialect::CLOCK), of("history"), of("snoozed"));
    let past = store.fetch(tx, Query::new(past).bind(&*queue.queue).exact(key.to_string())).await?;
    let (at, past, snoozed): (String, Option<String>, Option<i64>) = match past.first() {
        Some(row) => (row.get(0)?, row.get(1)?, row.get(2)?),
        None => (String::new(), None, None),
    };
    let snoozed = note.snoozes.after(snoozed.unwrap_or_default());
    let history = match note.error {
        Some(error) => ichido::inspect::history(past.as_deref(), note.attempts, at, error),
        None => past.unwrap_or_else(|| "[]".into()),
    };
    let write = format!(
        "insert into {parked} (queue, {column}, state, attempts, suspect, due_at, parked_at, history, snoozed) \
         values (?1, ?2, ?3, ?4, ?5, {}, {}, ?7, ?8) {}",
        S::Dialect::after('+', "?6"),
        S::Dialect::NOW,
        S::Dialect::or_replace(
            &format!("queue, {column}"),
            &["state", "attempts", "suspect", "due_at", "parked_at", "history", "snoozed"]
        )
    );
    let write = Query::new(write).bind(&*queue.queue).exact(key.to_string()).bind(note.state.as_str());
    store
        .execute(tx, write.bind(note.attempts).bind(note.suspect).bind(note.wait_ms()).bind(history).bind(snoozed))
        .await?;
    Ok(())
}

/// Owner null again and state released, attempts kept. What is not there any more as we left it is forgotten; rows that somebody has
/// locked are left for another time: the next of them must not wait.
pub(crate) async fn return_due_of<S: SqlRows>(store: &S, queue: &S::Queue) -> Result<u64> {
    let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
    let mut own = store.begin_own().await?;
    let due = format!(
        "select {column} from {parked} where queue = ?1 and state = 'waiting' and due_at <= {} order by due_at limit {AT_A_TIME} {}",
        S::Dialect::NOW,
        S::Dialect::LOCK_FREE
    );
    let due = store.fetch(&mut own, Query::new(due).bind(&*queue.queue)).await?;
    let keys = due.iter().map(|row| row.get::<String>(0)?.parse()).collect::<Result<Vec<Key>>>()?;
    let free = return_these(store, &mut own, queue, &keys).await?;
    let returned: HashSet<_> = free.iter().collect();
    let left: Vec<_> = keys.into_iter().filter(|key| !returned.contains(key)).collect();
    let still = keys_of(store, &mut own, queue, &left, "").await?;
    let forget = format!("delete from {parked} where queue = ?1 and {column} = ?2");
    for gone in left.iter().filter(|key| !still.contains(key)) {
        store.execute(&mut own, Query::new(&forget).bind(&*queue.queue).exact(gone.to_string())).await?;
    }
    S::commit_own(own).await?;
    Ok(free.len() as u64)
}

/// Those of these messages whose rows are put aside, and that nobody has locked, can be claimed again.
pub(crate) async fn return_these<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    keys: &[Key],
) -> Result<Vec<Key>> {
    let free = keys_of(store, tx, queue, keys, S::Dialect::LOCK_ROWS).await?;
    if free.is_empty() {
        return Ok(free);
    }
    store.execute(tx, S::of_keys(queue, &queue.return_due, None, &free, "")).await?;
    let (delayed, past) = without_past(store, tx, queue, &free).await?;
    let parked = &store.tables().parked;
    let these = format!("where queue = ?1 and {} in ?2", S::Dialect::KEY);
    if !delayed.is_empty() {
        let forget = format!("{} {these}", S::Dialect::delete_by_index(parked, "primary"));
        store.execute(tx, Query::new(forget).bind(&*queue.queue).bind(texts(&delayed))).await?;
    }
    if !past.is_empty() {
        let by_index = S::Dialect::by_index("primary");
        let release = format!("update {parked}{by_index} set state = 'released', due_at = null {these}");
        store.execute(tx, Query::new(release).bind(&*queue.queue).bind(texts(&past))).await?;
    }
    outbox::republish(store, tx, queue, &free).await?;
    Ok(free)
}

/// Messages that were only delayed, and those that have a past: of the first, nothing needs to be kept once they are returned, and neither their claim nor
/// their completion has to look for it.
async fn without_past<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    keys: &[Key],
) -> Result<(Vec<Key>, Vec<Key>)> {
    if queue.kind == Kind::Mutex {
        return Ok((Vec::new(), keys.to_vec()));
    }
    let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
    let delayed = format!(
        "select {column} from {parked} where queue = ?1 and {column} in ?2 \
         and attempts = 0 and suspect = false and snoozed = 0 and history = '[]'"
    );
    let delayed = store.fetch(tx, Query::new(delayed).bind(&*queue.queue).bind(texts(keys))).await?;
    let delayed = delayed.iter().map(|row| row.get::<String>(0)).collect::<Result<HashSet<_>>>()?;
    Ok(keys.iter().cloned().partition(|key| delayed.contains(&key.to_string())))
}

/// Which of these keys have a row that is put aside.
async fn keys_of<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    keys: &[Key],
    end: &str,
) -> Result<Vec<Key>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let rows = store.fetch(tx, S::of_keys(queue, &queue.waiting, None, keys, end)).await?;
    rows.iter().map(|row| row.key(queue.key_columns)).collect()
}

/// Keys as a parameter.
pub(crate) fn texts(keys: &[Key]) -> Bind {
    Bind::Exacts(keys.iter().map(ToString::to_string).collect())
}

/// A dead or discarded row that is not failed any more, or a released one that is done or gone, has nothing to be known about. Looks at some rows after this
/// key; the last of them, or none if there are no more. However many rows wait between them, no more are read.
pub(crate) async fn tidy_some<S: SqlRows>(store: &S, queue: &S::Queue, after: &str) -> Result<Option<String>> {
    let (parked, column, stamp) = (&store.tables().parked, S::Dialect::KEY, S::Dialect::stamp("parked_at"));
    let page = format!(
        "select {column}, state, {stamp} from {parked} where queue = ?1 and {column} > ?2 order by {column} limit {AT_A_TIME}"
    );
    let page = store.look(Query::new(page).bind(&*queue.queue).exact(after)).await?;
    let last = page.last().map(|row| row.get::<String>(0)).transpose()?;
    let mut settled = Vec::new();
    for row in &page {
        let (key, state, stamp): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if state == "dead" || state == "released" || state == "discarded" {
            settled.push((key, state, stamp));
        }
    }
    let keys = settled.iter().map(|(key, ..)| key.parse()).collect::<Result<Vec<Key>>>()?;
    let fits = fitting(store, queue, &keys).await?;
    for (key, state, stamp) in settled {
        if !fits.contains(&(key.clone(), state.clone())) {
            forget(store, queue, &key, &state, &stamp).await?;
        }
    }
    Ok(last.filter(|_| page.len() == AT_A_TIME))
}

/// Forgets what is known about a message, if that is still what we saw and nobody is at it.
async fn forget<S: SqlRows>(store: &S, queue: &S::Queue, key: &str, state: &str, stamp: &str) -> Result<()> {
    let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
    let same = format!("{column} = ?2 and state = ?3 and {} = ?4", S::Dialect::stamp("parked_at"));
    let lock = format!("select 1 from {parked} where queue = ?1 and {same} {}", S::Dialect::LOCK_FREE);
    let mut own = store.begin_own().await?;
    let lock = Query::new(lock).bind(&*queue.queue).exact(key).bind(state).bind(stamp);
    if !store.fetch(&mut own, lock).await?.is_empty() {
        let forget = format!("delete from {parked} where queue = ?1 and {column} = ?2");
        store.execute(&mut own, Query::new(forget).bind(&*queue.queue).exact(key)).await?;
        groups::free_failed(store, &mut own, queue, key).await?;
    }
    S::commit_own(own).await
}

/// Which of these keys have a row that fits which state.
async fn fitting<S: SqlRows>(store: &S, queue: &S::Queue, keys: &[Key]) -> Result<BTreeSet<(String, String)>> {
    let mut fits = BTreeSet::new();
    if keys.is_empty() {
        return Ok(fits);
    }
    for row in store.look(S::of_keys(queue, &queue.dead_or_new, None, keys, "")).await? {
        let key = row.key(queue.key_columns)?.to_string();
        let (failed, new) = (queue.key_columns, queue.key_columns + 1);
        for (at, state) in [(failed, "dead"), (failed, "discarded"), (new, "released")] {
            if row.get(at)? {
                fits.insert((key.clone(), state.to_owned()));
            }
        }
    }
    Ok(fits)
}

/// An operator's retry: back into circulation as attempt one; its past is kept.
///
/// # Errors
/// Another message has its unique key, nothing of it is kept, or the database failed.
pub async fn retry<S: SqlRows>(store: &S, id: &MessageId) -> Result<bool> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    let mut own = store.begin_own().await?;
    let Some(history) = dead(store, &mut own, queue, &id.key).await? else { return give_up::<S>(own).await };
    match store.execute(&mut own, Query::written(&*queue.retry).key(&id.key)).await {
        Ok(1) => {}
        Ok(_) => return give_up::<S>(own).await,
        Err(error) => {
            S::rollback_own(own).await?;
            let taken = queue.kind == Kind::Managed && S::is_unique(&error);
            return Err(if taken { crate::unique_taken(&queue.queue, &id.key) } else { error });
        }
    }
    let past = "set state = 'released', attempts = 0, suspect = false, due_at = null";
    let past = format!("update {} {past} where queue = ?1 and {} = ?2", store.tables().parked, S::Dialect::KEY);
    store.execute(&mut own, Query::new(past).bind(&*queue.queue).exact(id.key.to_string())).await?;
    groups::free_failed(store, &mut own, queue, &id.key.to_string()).await?;
    let published = outbox::republish(store, &mut own, queue, std::slice::from_ref(&id.key)).await?;
    if published == 0 && queue.kind == Kind::Mutex {
        S::rollback_own(own).await?;
        return Err(crate::nothing_kept(&queue.queue, &id.key));
    }
    audit::write(store, &mut own, "retry", (&id.queue, &id.key.to_string()), &history).await?;
    S::commit_own(own).await?;
    Ok(true)
}

/// An operator's discard: out of sight, with a note.
///
/// # Errors
/// The database failed.
pub async fn discard<S: SqlRows>(store: &S, id: &MessageId) -> Result<bool> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    let mut own = store.begin_own().await?;
    let Some(history) = dead(store, &mut own, queue, &id.key).await? else { return give_up::<S>(own).await };
    let hash = inbox::kept_hash(store, &mut own, queue, &id.key).await?;
    if store.execute(&mut own, Query::written(&*queue.discard).key(&id.key)).await? != 1 {
        return give_up::<S>(own).await;
    }
    if queue.kind == Kind::Table && !queue.has_failed_value {
        let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
        let past = format!("update {parked} set state = 'discarded' where queue = ?1 and {column} = ?2");
        store.execute(&mut own, Query::new(past).bind(&*queue.queue).exact(id.key.to_string())).await?;
    } else {
        forget_past(store, &mut own, queue, &id.key).await?;
    }
    groups::free_failed(store, &mut own, queue, &id.key.to_string()).await?;
    outbox::republish(store, &mut own, queue, std::slice::from_ref(&id.key)).await?;
    if let Some(hash) = hash {
        inbox::mark_done(store, &mut own, queue, &id.key, hash).await?;
    }
    audit::write(store, &mut own, "discard", (&id.queue, &id.key.to_string()), &history).await?;
    S::commit_own(own).await?;
    Ok(true)
}

/// The history of a message that has failed, whose row nobody else changes now.
async fn dead<S: SqlStore>(store: &S, tx: &mut S::Connection, queue: &SqlQueue, key: &Key) -> Result<Option<String>> {
    let dead = locked_past(store, tx, queue, key, ("history", "and state = 'dead'")).await?;
    dead.map(|row| row.get(0)).transpose()
}

/// These columns of a message's parked row, if this holds for it; nobody else changes the row now.
pub(crate) async fn locked_past<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
    (columns, condition): (&str, &str),
) -> Result<Option<Row>> {
    let (parked, column, lock) = (&store.tables().parked, S::Dialect::KEY, S::Dialect::LOCK);
    let past = format!("select {columns} from {parked} where queue = ?1 and {column} = ?2 {condition} {lock}");
    let past = store.fetch(tx, Query::new(past).bind(&*queue.queue).exact(key.to_string())).await?;
    Ok(past.into_iter().next())
}

/// It has not failed, or not any more.
async fn give_up<S: SqlStore>(own: S::Own) -> Result<bool> {
    S::rollback_own(own).await?;
    Ok(false)
}

/// Nothing is known about a message any more.
pub(crate) async fn forget_past<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
) -> Result<()> {
    let forget = format!("delete from {} where queue = ?1 and {} = ?2", store.tables().parked, S::Dialect::KEY);
    store.execute(tx, Query::new(forget).bind(&*queue.queue).exact(key.to_string())).await?;
    Ok(())
}

/// How often a message has failed by itself, if it is neither dead nor discarded.
pub(crate) async fn past_attempts<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
) -> Result<u32> {
    let past = format!(
        "select attempts from {} where queue = ?1 and {} = ?2 and state not in ('dead', 'discarded') {}",
        store.tables().parked,
        S::Dialect::KEY,
        S::Dialect::LOCK
    );
    let past = store.fetch(tx, Query::new(past).bind(&*queue.queue).exact(key.to_string())).await?;
    Ok(past.first().map(|row| row.get(0)).transpose()?.unwrap_or_default())
}

/// How many attempts a message gets, if its sender has said so and it is kept here.
pub(crate) async fn own_attempts<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
) -> Result<Option<u32>> {
    if queue.headers.is_empty() {
        return Ok(None);
    }
    let headers = store.fetch(tx, Query::written(&*queue.headers).key(key)).await?;
    let headers: Option<String> = headers.first().map(|row| row.get(0)).transpose()?.flatten();
    Ok(headers.as_deref().and_then(attempts_in))
}

/// Parks a message that killed its process once too often, for good.
pub(crate) async fn park_killer<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    dead: ProcessId,
    owned: &crate::Owned,
    attempts: u32,
) -> Result<()> {
    store.execute(tx, SqlQueue::of_owner(&queue.park_dead, Some(dead), &owned.key)).await?;
    groups::hold(store, tx, queue, dead, owned.group.as_ref(), &owned.key).await?;
    write_note(store, tx, queue, &owned.key, Note::killer(attempts)).await
}
