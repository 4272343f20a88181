//! What the doctor looks at: the mutex rows of a broker's queue, and rows that belong to nobody who is known; and how those are given
//! back.

use std::collections::{BTreeMap, BTreeSet};

use ichido::{
    Key,
    broker::{MutexFilter, MutexRow, Original, Orphan, RawRow, RowState},
    error::Result,
    inspect::ParkedState,
    store::ProcessId,
};

use crate::{
    Bind, Dialect, Query, Row, SqlQueue, SqlRows, SqlStore,
    verbs::{audit, groups, outbox, parked::texts},
};

/// The mutex rows of a broker's queue.
///
/// # Errors
/// No broker keeps the queue, or the database failed.
pub async fn mutexes<S: SqlStore>(store: &S, queue: &str, which: MutexFilter<'_>) -> Result<Vec<MutexRow>> {
    let queue = store.queue(queue).await?;
    queue.rules()?;
    let (condition, ids, most) = match which {
        MutexFilter::After(after, most) => ("m.id > ?2", Bind::from(after.map_or("", id)), most),
        MutexFilter::These(keys) | MutexFilter::Probed(keys) => {
            let ids = keys.iter().map(id).filter(|id| !id.contains('\0')).map(ToOwned::to_owned);
            ("m.id in ?2", Bind::Texts(ids.collect()), usize::MAX)
        }
    };
    let since = "case when o.mutex is null then m.sent_at else coalesce(o.published_at, o.created_at) end";
    let rows = format!(
        "select m.id, {}, o.mutex is not null, o.mutex is not null and o.published_at is null, {}, m.hash \
         from {} m left join {} o on o.mutex = m.id where m.queue = ?1 and {condition} order by m.id limit ?3",
        S::Dialect::id("m.owner"),
        S::Dialect::age_ms(since),
        store.tables().mutex,
        store.tables().outbox
    );
    let rows = store.look(Query::new(rows).bind(&*queue.queue).bind(ids).bind(most)).await?;
    let found = rows.iter().map(|row| row.key(1)).collect::<Result<Vec<Key>>>()?;
    let parked = parked_states(store, queue, &found).await?;
    let read = |(row, key): (&Row, Key)| {
        let parked = parked.get(&key.to_string()).copied();
        let raw = RawRow { owner: row.get(1)?, parked, unsent: row.get(3)?, age_ms: row.get(4)? };
        Ok(MutexRow { key, state: raw.state(), kept: row.get(2)?, hash: row.get(5)? })
    };
    let mut found = rows.iter().zip(found).map(read).collect::<Result<Vec<_>>>()?;
    if matches!(which, MutexFilter::Probed(_)) {
        probe(store, queue, &mut found).await?;
    }
    Ok(found)
}

/// Marks as held what seems free and is locked.
async fn probe<S: SqlStore>(store: &S, queue: &SqlQueue, found: &mut [MutexRow]) -> Result<()> {
    for row in found.iter_mut() {
        if let RowState::Unsent(_) | RowState::Published(_) = row.state {
            let mut own = store.begin_own().await?;
            let free = outbox::is_there(store, &mut own, queue, &row.key, "and owner is null").await?;
            S::rollback_own(own).await?;
            row.state = if free { row.state } else { RowState::Held };
        }
    }
    Ok(())
}

/// Of what these dead letters are copies, each by its key and its payload.
///
/// # Errors
/// No broker keeps the queue, or the database failed.
pub async fn originals<S: SqlStore>(store: &S, queue: &str, letters: &[(Key, &[u8])]) -> Result<Vec<Option<Original>>> {
    let (queue, tables) = (store.queue(queue).await?, store.tables());
    queue.rules()?;
    let ids: Vec<String> = letters.iter().map(|(key, _)| id(key).to_owned()).filter(|id| !id.contains('\0')).collect();
    let done = format!("select id, hash from {} where queue = ?1 and done_at is not null and id in ?2", tables.inbox);
    let done = store.look(Query::new(done).bind(&*queue.queue).bind(Bind::Exacts(ids.clone()))).await?;
    let kept = format!("select mutex, payload from {} where queue = ?1 and mutex in ?2", tables.outbox);
    let kept = store.look(Query::new(kept).bind(&*queue.queue).bind(Bind::Texts(ids))).await?;
    let hashes = |rows: &[Row], hash: fn(&[u8]) -> Vec<u8>| {
        rows.iter().map(|row| Ok((row.get(0)?, hash(&row.get::<Vec<u8>>(1)?)))).collect::<Result<BTreeMap<String, _>>>()
    };
    let (done, kept) = (hashes(&done, <[u8]>::to_vec)?, hashes(&kept, crate::payload_hash)?);
    let original = |(key, payload): &(Key, &[u8])| {
        let hash = crate::payload_hash(payload);
        let is_in = |hashes: &BTreeMap<String, Vec<u8>>| hashes.get(id(key)) == Some(&hash);
        if is_in(&done) { Some(Original::Done) } else { is_in(&kept).then_some(Original::Kept) }
    };
    Ok(letters.iter().map(original).collect())
}

/// What is known about these messages, by key.
async fn parked_states<S: SqlStore>(
    store: &S,
    queue: &SqlQueue,
    keys: &[Key],
) -> Result<BTreeMap<String, ParkedState>> {
    let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
    let states = format!("select {column}, state from {parked} where queue = ?1 and {column} in ?2");
    let states = store.look(Query::new(states).bind(&*queue.queue).bind(texts(keys))).await?;
    states.iter().map(|row| Ok((row.get(0)?, ParkedState::read(&row.get::<String>(1)?)))).collect()
}

/// Rows that are not processed and owned by a process that nobody knows, or put aside without anything known about it.
///
/// # Errors
/// The database failed.
pub async fn orphans<S: SqlStore>(store: &S, queue: &str) -> Result<Vec<Orphan>> {
    let queue = store.queue(queue).await?;
    let mut orphans = Vec::new();
    for owners in &queue.owners {
        for row in store.look(Query::written(&**owners)).await? {
            orphans.push(Orphan { key: row.key(queue.key_columns)?, owner: row.get(queue.key_columns)? });
        }
    }
    // After the rows: who has left meanwhile has left nothing behind.
    let processes = format!("select {} from {}", S::Dialect::id("id"), store.tables().process);
    let processes = store.look(Query::new(processes)).await?;
    let processes = processes.iter().map(|row| row.get(0)).collect::<Result<BTreeSet<ProcessId>>>()?;
    let aside: Vec<Key> = orphans.iter().filter(|orphan| orphan.is_aside()).map(|orphan| orphan.key.clone()).collect();
    let known = parked_states(store, queue, &aside).await?;
    orphans.retain(|orphan| !orphan.is_known(&processes, &known));
    Ok(orphans)
}

/// Frees a row that is owned by nobody who is known; false if that is not so (any more).
///
/// # Errors
/// The database failed.
pub async fn release_orphan<S: SqlRows>(store: &S, queue: &str, orphan: &Orphan) -> Result<bool> {
    let queue = store.queue(queue).await?;
    queue.refuse_key(&orphan.key)?;
    let Ok(owner) = orphan.owner.parse::<ProcessId>() else { return Ok(false) };
    let mut own = store.begin_own().await?;
    let key = std::slice::from_ref(&orphan.key);
    // The row is locked by then, so that what is read afterwards stays as it is.
    let freed = store.execute(&mut own, S::of_keys(queue, &queue.release, Some(owner), key, "")).await? == 1;
    let known = if owner == ProcessId::NOBODY {
        let known = format!("select 1 from {} where queue = ?1 and {} = ?2", store.tables().parked, S::Dialect::KEY);
        Query::new(known).bind(&*queue.queue).exact(orphan.key.to_string())
    } else {
        Query::new(format!("select 1 from {} where id = ?1", store.tables().process)).bind(owner)
    };
    if !freed || !store.fetch(&mut own, known).await?.is_empty() {
        S::rollback_own(own).await?;
        return Ok(false);
    }
    if owner != ProcessId::NOBODY {
        groups::free_all(store, &mut own, queue, owner).await?;
    }
    outbox::republish(store, &mut own, queue, key).await?;
    audit::write(store, &mut own, "release", (&queue.queue, &orphan.key.to_string()), &orphan.owner).await?;
    S::commit_own(own).await?;
    Ok(true)
}

fn id(key: &Key) -> &str {
    key.columns().first().map_or("", String::as_str)
}
