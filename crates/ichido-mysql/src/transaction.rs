//! Business transactions: begin, complete, commit, roll back. They run on connections without autocommit and begin with a
//! savepoint: when it is gone at completion, so is the transaction that was begun, and ROLLBACK takes back what came after.

use ichido::{Delivery, Error, Result};
use sqlx::{AssertSqlSafe, Executor, MySqlConnection, Transaction};
use tokio::sync::OwnedSemaphorePermit;

use crate::{MySql, fault, statements::Statements};

/// There is no such savepoint.
const NO_SAVEPOINT: u16 = 1305;

/// An open business transaction.
pub struct Tx {
    pub(crate) inner: Transaction<'static, sqlx::MySql>,
    _place: OwnedSemaphorePermit,
}

impl Tx {
    pub(crate) fn connection(&mut self) -> &mut MySqlConnection {
        &mut self.inner
    }
}

impl MySql {
    pub(crate) async fn begin_business(&self) -> Result<Tx> {
        let place = self.free.clone().acquire_owned().await?;
        // A BEGIN that fails is never a message's fault, whatever the server says.
        let begun = self.business.begin_with("start transaction; savepoint ichido_guard").await;
        Ok(Tx { inner: begun.map_err(|error| self.unreachable(error))?, _place: place })
    }

    pub(crate) async fn complete_in(&self, tx: &mut Tx, done: &[Delivery]) -> Result<()> {
        tx.inner.execute("release savepoint ichido_guard").await.map_err(broken)?;
        for delivery in done.iter().filter(|delivery| delivery.claim.is_some()) {
            self.complete_one(tx, self.queue(&delivery.message.queue).await?, delivery).await?;
        }
        Ok(())
    }

    async fn complete_one(&self, tx: &mut Tx, queue: &Statements, delivery: &Delivery) -> Result<()> {
        let Some(claim) = &delivery.claim else { return Ok(()) };
        if claim.parked {
            let forget = format!("delete from {} where queue = ? and `key` = ?", self.shared.schema.parked);
            let key = delivery.message.key.to_string().into_bytes();
            sqlx::query(AssertSqlSafe(forget)).bind(&*queue.queue).bind(key).execute(&mut *tx.inner).await?;
        }
        self.free_group(&mut tx.inner, queue, claim.owner, claim.group.as_ref()).await?;
        let mut complete = sqlx::query(AssertSqlSafe(queue.complete.clone())).bind(claim.owner.to_string());
        for column in delivery.message.key.columns() {
            complete = complete.bind(column);
        }
        match complete.execute(&mut *tx.inner).await?.rows_affected() {
            1 => Ok(()),
            _ => Err(Error::LostClaim),
        }
    }

    /// Waits for the row: a COMMIT that is still being applied holds it.
    pub(crate) async fn probe(&self, delivery: &Delivery) -> Result<bool> {
        let Some(claim) = &delivery.claim else { return Ok(false) };
        let queue = self.queue(&delivery.message.queue).await?;
        let mut tx = self.begin_own().await?;
        let mut probe = sqlx::query(AssertSqlSafe(queue.is_claimed.clone())).bind(claim.owner.to_string());
        for column in delivery.message.key.columns() {
            probe = probe.bind(column);
        }
        let there = probe.fetch_optional(&mut *tx).await?.is_some();
        tx.rollback().await?;
        Ok(there)
    }
}

fn broken(error: sqlx::Error) -> Error {
    if fault::number(&error) == Some(NO_SAVEPOINT) {
        let how = "it ended before its completion: by the action, by DDL, or by an error that the action swallowed";
        return Error::BrokenTransaction(how.into());
    }
    error.into()
}
