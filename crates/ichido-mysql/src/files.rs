//! Files that belong to a transaction: whether it was committed. The files themselves are the core's.

use ichido::{
    Result,
    store::{FileSetId, Files, ProcessId},
};
use sqlx::{AssertSqlSafe, Row};

use crate::{MySql, Tx, transaction::broken};

impl Files for MySql {
    async fn note_files(&self, tx: &mut Tx, set: FileSetId) -> Result<()> {
        let note = format!("insert into {} (stage, number, revoked) values (?, ?, 0)", self.shared.schema.files);
        let noted =
            sqlx::query(AssertSqlSafe(note)).bind(set.stage.to_string()).bind(set.number).execute(&mut *tx.inner).await;
        noted.map(|_| ()).map_err(broken)
    }

    /// Two that write the same key wait for each other: whoever comes first has decided.
    async fn decide_files(&self, set: FileSetId) -> Result<bool> {
        let files = &self.shared.schema.files;
        let mut tx = self.begin_own().await?;
        let (stage, number) = (set.stage.to_string(), set.number);
        let revoke = format!(
            "insert into {files} (stage, number, revoked) values (?, ?, 1) on duplicate key update number = number"
        );
        sqlx::query(AssertSqlSafe(revoke)).bind(&stage).bind(number).execute(&mut *tx).await?;
        let look = format!("select cast(revoked as signed) from {files} where stage = ? and number = ?");
        let revoked: i64 =
            sqlx::query(AssertSqlSafe(look)).bind(&stage).bind(number).fetch_one(&mut *tx).await?.try_get(0)?;
        tx.commit().await?;
        Ok(revoked == 0)
    }

    /// What was revoked long ago is forgotten, too: nobody can still be about to commit it.
    async fn forget_files(&self, stage: ProcessId, number: Option<i64>) -> Result<()> {
        let forget = format!(
            "delete from {} where stage = ? and number = coalesce(?, number) and revoked = 0 \
             or revoked = 1 and noted_at < current_timestamp(6) - interval 1 day",
            self.shared.schema.files
        );
        sqlx::query(AssertSqlSafe(forget)).bind(stage.to_string()).bind(number).execute(&self.own).await?;
        Ok(())
    }
}
