//! Answers to requests that may come again, in `ichido_idempotency`, by the key that came with the request.

use ichido::{error::Result, store::Answered};

use crate::{Dialect, Query, SqlRows, SqlStore};

/// So long is an answer remembered.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Remembers an answer in a transaction. An insert waits for another one with the same key: whoever is committed first has answered. An answer
/// that is older than a day is in nobody's way, although nobody may have pruned it yet.
///
/// # Errors
/// The database failed.
pub async fn remember<S: SqlRows>(store: &S, tx: &mut S::Tx, key: &str, answered: &Answered) -> Result<bool> {
    let table = &store.tables().idempotency;
    let insert = S::Dialect::insert_new(table, "id, request, answer", "?1, ?2, ?3");
    let insert = Query::new(insert).bind(key).bind(answered.request.as_str()).bind(answered.answer.as_str());
    if store.execute(S::connection(tx), insert).await? > 0 {
        return Ok(true);
    }
    // Looked for without a lock: those that came second all share one on the row, and would be each other's deadlock.
    let old = format!("id = ?1 and answered_at <= {}", S::Dialect::after('-', "?2"));
    let look = Query::new(format!("select 1 from {table} where {old}")).bind(key).bind(DAY_MS);
    if store.fetch(S::connection(tx), look).await?.is_empty() {
        return Ok(false);
    }
    let again = format!("update {table} set request = ?3, answer = ?4, answered_at = {} where {old}", S::Dialect::NOW);
    let again = Query::new(again).bind(key).bind(DAY_MS);
    let again = again.bind(answered.request.as_str()).bind(answered.answer.as_str());
    Ok(store.execute(S::connection(tx), again).await? > 0)
}

/// What was answered within a day.
///
/// # Errors
/// The database failed.
pub async fn recall<S: SqlStore>(store: &S, key: &str) -> Result<Option<Answered>> {
    let read = format!(
        "select request, answer from {} where id = ?1 and answered_at > {}",
        store.tables().idempotency,
        S::Dialect::after('-', "?2")
    );
    let found = store.look(Query::new(read).bind(key).bind(DAY_MS)).await?;
    found.first().map(|row| Ok(Answered { request: row.get(0)?, answer: row.get(1)? })).transpose()
}

/// Prunes what is older than a day.
pub(crate) async fn prune<S: SqlStore>(store: &S) -> Result<()> {
    let old = format!("from {} where answered_at < {}", store.tables().idempotency, S::Dialect::after('-', "?1"));
    if !store.look(Query::new(format!("select 1 {old} limit 1")).bind(DAY_MS)).await?.is_empty() {
        store.write(Query::new(format!("delete {old}")).bind(DAY_MS)).await?;
    }
    Ok(())
}
