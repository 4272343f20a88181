//! Files that belong to a transaction: the database knows whether it was committed. The handler `files` calls it.

use crate::error::Result;
use crate::store::Database;
use crate::store::ProcessId;

/// Sets of files that belong to transactions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Files: Database {
    /// Notes in a business transaction that a set of files belongs to it. Fails if it was decided that the set does not.
    fn note_files(&self, tx: &mut Self::Tx, set: FileSetId) -> impl Future<Output = Result<()>> + Send;

    /// Is the transaction that this set belongs to committed? Waits for one that is about to be. If it is not, it never
    /// will be: [`Files::note_files`] fails from now on.
    fn decide_files(&self, set: FileSetId) -> impl Future<Output = Result<bool>> + Send;

    /// The files of a committed set are in their places; without a number, those of all committed sets of that stage.
    fn delete_file_sets(&self, stage: ProcessId, number: Option<i64>) -> impl Future<Output = Result<()>> + Send;
}

/// A set of files that belongs to one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSetId {
    /// Where it waits until it is seen.
    pub stage: ProcessId,
    /// Its number there.
    pub number: i64,
}
