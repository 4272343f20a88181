//! Files that belong to a transaction: whether it was committed. The files themselves are the core's.

use ichido::Result;
use sqlx::{AssertSqlSafe, Row};

use crate::{
    Postgres, Tx,
    transaction::{Completion, broken},
};

impl Postgres {
    pub(crate) async fn note_set(&self, tx: &mut Tx, set: &str) -> Result<()> {
        let note = format!("insert into {} (name, revoked) values ($1, false)", self.shared.schema.files);
        let noted = sqlx::query(AssertSqlSafe(note)).bind(set).execute(&mut *tx.inner).await;
        noted.map(|_| ()).map_err(|error| broken(Completion::Failed(error)))
    }

    /// Two that write the same key wait for each other: whoever comes first has decided.
    pub(crate) async fn decide_set(&self, set: &str) -> Result<bool> {
        let files = &self.shared.schema.files;
        let mut tx = self.begin_own().await?;
        let revoke = format!("insert into {files} (name, revoked) values ($1, true) on conflict (name) do nothing");
        sqlx::query(AssertSqlSafe(revoke)).bind(set).execute(&mut *tx).await?;
        let look = format!("select not revoked from {files} where name = $1");
        let committed = sqlx::query(AssertSqlSafe(look)).bind(set).fetch_one(&mut *tx).await?.try_get(0)?;
        tx.commit().await?;
        Ok(committed)
    }

    /// What was revoked long ago is forgotten, too: nobody can still be about to commit it.
    pub(crate) async fn forget_set(&self, set: &str) -> Result<()> {
        let forget = format!(
            "delete from {} where name = $1 or revoked and noted_at < now() - interval '1 day'",
            self.shared.schema.files
        );
        self.own.execute(sqlx::query(AssertSqlSafe(forget)).bind(set)).await?;
        Ok(())
    }
}
