//! The inbox, as far as all stores treat it alike: what counts as done without having run, and what is old. How a message enters is the
//! stores'.

use ichido::{Key, error::Result};

use crate::{Bind, Dialect, Query, SqlQueue, SqlStore, payload_hash};

/// Old ids are forgotten so many at a time.
const AT_A_TIME: i64 = 1000;

/// What a discarded message said, as far as it is kept: no copy of it may pass the inbox later. None if there is no inbox.
pub(crate) async fn kept_hash<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
) -> Result<Option<Vec<u8>>> {
    if !queue.has_inbox() {
        return Ok(None);
    }
    let kept = Query::new(format!("select payload from {} where mutex = ?1", store.tables().outbox)).key(key);
    let kept = store.fetch(tx, kept).await?;
    let payload = kept.first().map(|row| row.get::<Vec<u8>>(0)).transpose()?;
    Ok(Some(payload.map(|payload| payload_hash(&payload)).unwrap_or_default()))
}

/// The message counts as done.
pub(crate) async fn mark_done<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
    hash: Vec<u8>,
) -> Result<()> {
    let (inbox, now, id) = (&store.tables().inbox, S::Dialect::NOW, &key.columns()[0]);
    let done = S::Dialect::insert_new(inbox, "id, queue, hash, done_at", &format!("?1, ?2, ?3, {now}"));
    store.execute(tx, Query::new(done).exact(id).bind(&*queue.queue).bind(hash.clone())).await?;
    let done = format!("update {inbox} set hash = ?2, done_at = {now} where id = ?1 and done_at is null");
    store.execute(tx, Query::new(done).exact(id).bind(hash)).await?;
    Ok(())
}

/// Prunes ids of messages that were done so long ago, some at a time; true if there may be more.
pub(crate) async fn prune<S: SqlStore>(store: &S, age_ms: i64) -> Result<bool> {
    let inbox = &store.tables().inbox;
    let old = format!("from {inbox} where done_at < {}", S::Dialect::after('-', "?1"));
    if store.look(Query::new(format!("select 1 {old} limit 1")).bind(age_ms)).await?.is_empty() {
        return Ok(false);
    }
    let mut own = store.begin_own().await?;
    let some = format!("select id {old} order by done_at limit {AT_A_TIME} {}", S::Dialect::LOCK_FREE);
    let some = store.fetch(&mut own, Query::new(some).bind(age_ms)).await?;
    let some = some.iter().map(|row| row.get(0)).collect::<Result<Vec<String>>>()?;
    let full = some.len() == usize::try_from(AT_A_TIME).unwrap_or_default();
    let forget = Query::new(format!("delete from {inbox} where id in ?1")).bind(Bind::Exacts(some));
    store.execute(&mut own, forget).await?;
    S::commit_own(own).await?;
    Ok(full)
}
