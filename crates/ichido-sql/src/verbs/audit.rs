//! The audit: what was changed by hand, by whom, from where and why. Whoever changes something writes it here, in the same transaction.

use ichido::{
    MessageId,
    error::Result,
    store::{Audited, By},
};

use crate::{Bind, Dialect, Query, Row, SqlStore};

/// In place of a queue, where something is done to a request id.
pub(crate) const NO_QUEUE: &str = "";

/// Writes what is done to a message, or to a request id, by whoever the store acts for.
pub(crate) async fn write<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    verb: &str,
    (queue, key): (&str, &str),
    detail: &str,
) -> Result<()> {
    write_by(store, tx, verb, (queue, key), detail, store.acts_for()).await
}

/// The same, by this one.
pub(crate) async fn write_by<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    verb: &str,
    (queue, key): (&str, &str),
    detail: &str,
    by: &By,
) -> Result<()> {
    let write = format!(
        "insert into {} (verb, queue, {}, detail, by_user, by_host, reason) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        store.tables().audit,
        S::Dialect::KEY
    );
    let write = Query::new(write).bind(verb).bind(queue).exact(key).bind(detail);
    store.execute(tx, write.bind(by.user.clone()).bind(by.host.clone()).bind(by.reason.clone())).await?;
    Ok(())
}

/// Notes something that has no transaction of its own.
///
/// # Errors
/// The database failed.
pub async fn note<S: SqlStore>(store: &S, verb: &str, id: &MessageId, detail: &str) -> Result<()> {
    let mut own = store.begin_own().await?;
    write(store, &mut own, verb, (&id.queue, &id.key.to_string()), detail).await?;
    S::commit_own(own).await
}

/// Notes something that is done in this transaction.
///
/// # Errors
/// The database failed.
pub async fn note_in<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    verb: &str,
    id: &MessageId,
    detail: &str,
) -> Result<()> {
    write(store, tx, verb, (&id.queue, &id.key.to_string()), detail).await
}

/// What was changed by hand, the newest first, after the entry with this number.
///
/// # Errors
/// The database failed.
pub async fn read<S: SqlStore>(store: &S, queue: Option<&str>, after: Option<i64>, limit: u32) -> Result<Vec<Audited>> {
    store.queues().await?;
    let of = if queue.is_some() { "and queue = ?3" } else { "" };
    let read = format!(
        "select id, {}, verb, queue, {}, detail, by_user, by_host, reason from {} where id < ?2 {of} order by id desc limit ?1",
        S::Dialect::utc("at"),
        S::Dialect::KEY,
        store.tables().audit
    );
    let read = Query::new(read).bind(limit).bind(after.unwrap_or(i64::MAX));
    let read = if let Some(queue) = queue { read.bind(queue) } else { read };
    store.look(read).await?.iter().map(audited).collect()
}

fn audited(row: &Row) -> Result<Audited> {
    let by = read_by(row, 6)?;
    Ok(Audited::new(row.get(0)?, row.get(1)?, row.get(2)?, (row.get(3)?, row.get(4)?), row.get(5)?, by))
}

/// Who did something: user, host and reason, from this column on.
pub(crate) fn read_by(row: &Row, at: usize) -> Result<By> {
    let mut by = By::default();
    (by.user, by.host, by.reason) = (row.get(at)?, row.get(at + 1)?, row.get(at + 2)?);
    Ok(by)
}

/// Was this done to a message? Its id must be one that is never used again.
pub(crate) async fn has<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    verbs: &[&str],
    (queue, key): (&str, &str),
) -> Result<bool> {
    let verbs = Bind::Texts(verbs.iter().map(ToString::to_string).collect());
    let has = format!(
        "select 1 from {} where queue = ?1 and {} = ?2 and verb in ?3 limit 1",
        store.tables().audit,
        S::Dialect::KEY
    );
    Ok(!store.fetch(tx, Query::new(has).bind(queue).exact(key).bind(verbs)).await?.is_empty())
}
