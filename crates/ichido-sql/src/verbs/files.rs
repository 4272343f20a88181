//! Files that belong to a transaction: whether it was committed. The files themselves are the core's.

use ichido::{
    Result,
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

/// Forgets sets whose files are in their places. What was revoked long ago is forgotten, too: nobody can still be about to commit it.
///
/// # Errors
/// The database failed.
pub async fn delete_sets<S: SqlStore>(store: &S, stage: ProcessId, number: Option<i64>) -> Result<()> {
    let forget = format!(
        "delete from {} where stage = ?1 and number = coalesce(?2, number) and not revoked or revoked and noted_at < {}",
        store.tables().files,
        S::Dialect::after('-', "?3")
    );
    store.write(Query::new(forget).bind(stage).bind(number).bind(DAY_MS)).await?;
    Ok(())
}

/// A day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
