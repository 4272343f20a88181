//! Files that belong to a transaction: whether it was committed. The files themselves are the core's.

use ichido::{
    error::Result,
    store::{FileSetId, ProcessId},
};

use crate::{Dialect, Query, SqlRows, SqlStore};

/// Notes in a business transaction that a set of files belongs to it.
///
/// # Errors
/// It was decided that the set does not, or the transaction is broken.
pub async fn note<S: SqlRows>(store: &S, tx: &mut S::Tx, set: FileSetId) -> Result<()> {
    let files = &store.tables().files;
    let note = Query::new(format!("insert into {files} (stage, number, revoked) values (?1, ?2, false)"));
    let noted = store.execute(S::connection(tx), note.bind(set.stage).bind(set.number)).await;
    noted.map(|_| ()).map_err(S::broken)
}

/// Is the set's transaction committed? Two that write the same key wait for each other: whoever comes first has decided.
///
/// # Errors
/// The database failed.
pub async fn decide<S: SqlStore>(store: &S, set: FileSetId) -> Result<bool> {
    let files = &store.tables().files;
    let mut own = store.begin_own().await?;
    let revoke = S::Dialect::insert_new(files, "stage, number, revoked", "?1, ?2, true");
    store.execute(&mut own, Query::new(revoke).bind(set.stage).bind(set.number)).await?;
    let look = Query::new(format!("select revoked from {files} where stage = ?1 and number = ?2"));
    let revoked = store.fetch(&mut own, look.bind(set.stage).bind(set.number)).await?;
    S::commit_own(own).await?;
    Ok(!revoked.first().map(|row| row.get::<bool>(0)).transpose()?.unwrap_or(true))
}

/// Forgets sets whose files are in their places, by their key: there is one such statement for each message with files.
///
/// # Errors
/// The database failed.
pub async fn delete_sets<S: SqlStore>(store: &S, stage: ProcessId, number: Option<i64>) -> Result<()> {
    let files = &store.tables().files;
    let forget = match number {
        Some(number) => {
            let one = format!("delete from {files} where stage = ?1 and number = ?2 and not revoked");
            Query::new(one).bind(stage).bind(number)
        }
        None => Query::new(format!("delete from {files} where stage = ?1 and not revoked")).bind(stage),
    };
    store.write(forget).await?;
    Ok(())
}

/// Prunes what was revoked long ago: nobody can still be about to commit it.
pub(crate) async fn prune<S: SqlStore>(store: &S) -> Result<()> {
    let old = format!("from {} where revoked and noted_at < {}", store.tables().files, S::Dialect::after('-', "?1"));
    if !store.look(Query::new(format!("select 1 {old} limit 1")).bind(DAY_MS)).await?.is_empty() {
        store.write(Query::new(format!("delete {old}")).bind(DAY_MS)).await?;
    }
    Ok(())
}

/// A day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
