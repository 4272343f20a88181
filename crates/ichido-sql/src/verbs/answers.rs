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
    let bound = |text| Query::new(text).bind(key).bind(answered.request.as_str()).bind(answered.answer.as_str());
    let insert = bound(S::Dialect::insert_new(table, "id, request, answer", "?1, ?2, ?3"));
    if store.execute(S::connection(tx), insert).await? > 0 {
        return Ok(true);
    }
    let again = bound(format!(
        "update {table} set request = ?2, answer = ?3, answered_at = {} where id = ?1 and answered_at <= {}",
        S::Dialect::NOW,
        S::Dialect::after('-', "?4")
    ));
    Ok(store.execute(S::connection(tx), again.bind(DAY_MS)).await? > 0)
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
