//! Groups of messages that run one at a time: a row in `ichido_group` holds one. How messages are claimed from groups is the stores'.

use ichido::{Key, error::Result, store::ProcessId};

use crate::{Dialect, Query, SqlQueue, SqlStore};

/// Groups that an owner held are free again. One by one: each is found by its key, and no other row is locked.
///
/// # Errors
/// The database failed.
pub async fn free<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    owner: ProcessId,
    groups: Vec<String>,
) -> Result<()> {
    let free = format!("delete from {} where queue = ?1 and group_key = ?2 and owner = ?3", store.tables().group);
    for group in groups {
        store.execute(tx, Query::new(&free).bind(&*queue.queue).exact(group).bind(owner)).await?;
    }
    Ok(())
}

/// What a process still holds though it has no message any more: somebody took or changed its rows by hand.
pub(crate) async fn free_all<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    owner: ProcessId,
) -> Result<()> {
    let free = format!("delete from {} where queue = ?1 and owner = ?2", store.tables().group);
    store.execute(tx, Query::new(free).bind(&*queue.queue).bind(owner)).await?;
    Ok(())
}

/// A message that has failed goes on holding its group.
pub(crate) async fn hold<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    owner: ProcessId,
    group: Option<&String>,
    key: &Key,
) -> Result<()> {
    let Some(group) = group else { return Ok(()) };
    let hold = format!(
        "update {} set owner = ?3, {} = ?4 where queue = ?1 and group_key = ?5 and owner = ?2",
        store.tables().group,
        S::Dialect::KEY
    );
    let hold = Query::new(hold).bind(&*queue.queue).bind(owner).bind(ProcessId::NOBODY);
    store.execute(tx, hold.exact(key.to_string()).exact(group)).await?;
    Ok(())
}

/// What a failed message held is free again: an operator has decided about it, or it is gone.
pub(crate) async fn free_failed<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &str,
) -> Result<()> {
    if queue.grouped.is_some() {
        let free = format!(
            "delete from {} where queue = ?1 and owner = ?2 and {} = ?3",
            store.tables().group,
            S::Dialect::KEY
        );
        store.execute(tx, Query::new(free).bind(&*queue.queue).bind(ProcessId::NOBODY).exact(key)).await?;
    }
    Ok(())
}
