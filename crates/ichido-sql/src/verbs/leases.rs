//! Leases: rights that one process or relay at a time has for a queue, for a while by the database's clock. The relay lease is
//! for publishing in order; the chore lease says who does what grows with a table, so that a fleet does it once.

use std::time::Duration;

use ichido::{error::Result, message::wait_ms, store::ProcessId};

use crate::{Dialect, Query, SqlStore};

/// Takes a lease over, or else is the first; true if it is ours.
pub(crate) async fn take<S: SqlStore>(
    store: &S,
    table: &str,
    owner: ProcessId,
    queue: &str,
    lasts_ms: i64,
) -> Result<bool> {
    let (now, end) = (S::Dialect::CLOCK, S::Dialect::after('+', "?3"));
    let take =
        format!("update {table} set owner = ?2, until = {end} where queue = ?1 and (owner = ?2 or until <= {now})");
    if store.write(Query::new(take).bind(queue).bind(owner).bind(lasts_ms)).await? == 1 {
        return Ok(true);
    }
    let first = S::Dialect::insert_new(table, "queue, owner, until", &format!("?1, ?2, {end}"));
    Ok(store.write(Query::new(first).bind(queue).bind(owner).bind(lasts_ms)).await? == 1)
}

/// Takes the chore lease of a queue; where the tidying had stopped, or none if another process has the lease.
///
/// # Errors
/// The database failed.
pub async fn take_chore_lease<S: SqlStore>(
    store: &S,
    process: ProcessId,
    queue: &str,
    lasts: Duration,
) -> Result<Option<String>> {
    let table = &store.tables().chore;
    if !take(store, table, process, queue, wait_ms(lasts)).await? {
        return Ok(None);
    }
    let tidied = Query::new(format!("select tidied from {table} where queue = ?1 and owner = ?2"));
    let tidied = store.look(tidied.bind(queue).bind(process)).await?;
    tidied.first().map(|row| row.get(0)).transpose()
}

/// Keeps the chore lease of a queue, and notes how far it is tidied; false if another process has taken it.
///
/// # Errors
/// The database failed.
pub async fn keep_chore_lease<S: SqlStore>(
    store: &S,
    process: ProcessId,
    queue: &str,
    lasts: Duration,
    tidied: &str,
) -> Result<bool> {
    let keep = format!(
        "update {} set until = {}, tidied = ?4 where queue = ?1 and owner = ?2",
        store.tables().chore,
        S::Dialect::after('+', "?3")
    );
    let keep = Query::new(keep).bind(queue).bind(process).bind(wait_ms(lasts)).exact(tidied);
    Ok(store.write(keep).await? == 1)
}

/// Releases the chore lease of a queue, if this process has it.
///
/// # Errors
/// The database failed.
pub async fn release_chore_lease<S: SqlStore>(store: &S, process: ProcessId, queue: &str) -> Result<()> {
    let (table, now) = (&store.tables().chore, S::Dialect::NOW);
    let release = format!("update {table} set until = {now} where queue = ?1 and owner = ?2");
    store.write(Query::new(release).bind(queue).bind(process)).await?;
    Ok(())
}

/// Releases all chore leases of a process that leaves or is dead.
pub(crate) async fn release_chore_leases<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    process: ProcessId,
) -> Result<()> {
    let (table, now) = (&store.tables().chore, S::Dialect::NOW);
    store.execute(tx, Query::new(format!("update {table} set until = {now} where owner = ?1")).bind(process)).await?;
    Ok(())
}
