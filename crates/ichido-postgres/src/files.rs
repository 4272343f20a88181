//! Files that belong to a transaction: whether it was committed. The files themselves are the core's.

use ichido::{
    Result,
    store::{FileSetId, Files, ProcessId},
};
use sqlx::{AssertSqlSafe, Row};

use crate::{
    Postgres, Tx,
    transaction::{Completion, broken},
};

impl Files for Postgres {
    async fn note_files(&self, tx: &mut Tx, set: FileSetId) -> Result<()> {
        let note = format!(
            "insert into {} (stage, number, revoked) values ($1::text::uuid, $2, false)",
            self.shared.schema.files
        );
        let noted = sqlx::query(AssertSqlSafe(note))
            .bind(set.stage.to_string())
            .bind(set.number)
            .execute(tx.connection())
            .await;
        noted.map(|_| ()).map_err(|error| broken(Completion::Failed(error)))
    }

    /// Two that write the same key wait for each other: whoever comes first has decided.
    async fn decide_files(&self, set: FileSetId) -> Result<bool> {
        let files = &self.shared.schema.files;
        let mut tx = self.begin_own().await?;
        let (stage, number) = (set.stage.to_string(), set.number);
        let revoke = format!(
            "insert into {files} (stage, number, revoked) values ($1::text::uuid, $2, true) on conflict do nothing"
        );
        sqlx::query(AssertSqlSafe(revoke)).bind(&stage).bind(number).execute(&mut *tx).await?;
        let look = format!("select not revoked from {files} where stage = $1::text::uuid and number = $2");
        let committed =
            sqlx::query(AssertSqlSafe(look)).bind(&stage).bind(number).fetch_one(&mut *tx).await?.try_get(0)?;
        tx.commit().await?;
        Ok(committed)
    }

    /// What was revoked long ago is forgotten, too: nobody can still be about to commit it.
    async fn forget_files(&self, stage: ProcessId, number: Option<i64>) -> Result<()> {
        let forget = format!(
            "delete from {} where stage = $1::text::uuid and number = coalesce($2, number) and not revoked \
             or revoked and noted_at < now() - interval '1 day'",
            self.shared.schema.files
        );
        self.own.execute(sqlx::query(AssertSqlSafe(forget)).bind(stage.to_string()).bind(number)).await?;
        Ok(())
    }
}
