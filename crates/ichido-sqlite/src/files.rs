//! Files that belong to a transaction: whether it was committed. The files themselves are the core's.

use ichido::{
    Result,
    store::{FileSetId, Files, ProcessId},
};
use sqlx::Row;

use crate::{Sqlite, Tx, transaction::broken};

impl Files for Sqlite {
    async fn note_files(&self, tx: &mut Tx, set: FileSetId) -> Result<()> {
        let note = sqlx::query("insert into ichido_files (stage, number, revoked) values (?, ?, 0)");
        note.bind(set.stage.to_string()).bind(set.number).execute(tx.connection()).await.map(|_| ()).map_err(broken)
    }

    /// Whoever has the turn decides.
    async fn decide_files(&self, set: FileSetId) -> Result<bool> {
        self.queues().await?;
        let mut tx = self.begin_tx().await?;
        let revoke = sqlx::query("insert or ignore into ichido_files (stage, number, revoked) values (?, ?, 1)");
        let (stage, number) = (set.stage.to_string(), set.number);
        revoke.bind(&stage).bind(number).execute(tx.connection()).await?;
        let look =
            sqlx::query("select revoked from ichido_files where stage = ? and number = ?").bind(&stage).bind(number);
        let revoked: i64 = look.fetch_one(tx.connection()).await?.try_get(0)?;
        tx.commit().await?;
        Ok(revoked == 0)
    }

    /// What was revoked long ago is forgotten, too: nobody can still be about to commit it.
    async fn forget_files(&self, stage: ProcessId, number: Option<i64>) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        let forget = "delete from ichido_files where stage = ? and number = coalesce(?, number) and revoked = 0 \
             or revoked = 1 and noted_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 day')";
        sqlx::query(forget).bind(stage.to_string()).bind(number).execute(tx.connection()).await?;
        tx.commit().await
    }
}
