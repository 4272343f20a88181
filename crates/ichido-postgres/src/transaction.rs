//! Business transactions: begin, complete, commit, roll back. BEGIN carries a token that the completion tests, so that a
//! transaction that ended behind our back cannot complete anything.

use ichido::{Delivery, Error, Result};
use sqlx::{AssertSqlSafe, PgConnection, Row, Transaction};
use tokio::sync::OwnedSemaphorePermit;

use crate::{Postgres, fault, statements::Statements};

/// A session that idles in its transaction this long is ended by the server, and its rows can be rescued.
const IDLE: &str = "10min";

/// How long the probe after an unknown COMMIT waits for the row.
const PROBE: &str = "5s";

/// The transaction was aborted by an error.
const ABORTED: &str = "25P02";

/// A write outside the transaction that was begun: business connections are read-only by default.
const READ_ONLY: &str = "25006";

/// An open business transaction.
pub struct Tx {
    pub(crate) inner: Transaction<'static, sqlx::Postgres>,
    token: String,
    _place: OwnedSemaphorePermit,
}

impl Tx {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.inner
    }
}

impl Postgres {
    pub(crate) async fn begin_business(&self) -> Result<Tx> {
        let place = self.free.clone().acquire_owned().await?;
        let token = ichido::ProcessId::random().to_string();
        let begin = format!(
            "begin isolation level read committed read write; set local ichido.tx = '{token}'; \
             set local idle_in_transaction_session_timeout = '{IDLE}'"
        );
        // A BEGIN that fails is never a message's fault, whatever the server says (a standby, a connection that died).
        let inner = self.business.begin_with(AssertSqlSafe(begin)).await.map_err(|error| self.unreachable(error))?;
        Ok(Tx { inner, token, _place: place })
    }

    pub(crate) async fn complete_in(&self, tx: &mut Tx, done: &[Delivery]) -> Result<()> {
        if done.iter().all(|delivery| delivery.claim.is_none()) {
            // Nothing to complete; the transaction must still be the one that was begun.
            return match self.why_not(tx).await {
                Completion::Lost => Ok(()),
                other => Err(broken(other)),
            };
        }
        for delivery in done.iter().filter(|delivery| delivery.claim.is_some()) {
            let queue = self.queue(&delivery.message.queue).await?;
            self.complete_one(tx, queue, delivery).await.map_err(broken)?;
        }
        Ok(())
    }

    async fn complete_one(&self, tx: &mut Tx, queue: &Statements, delivery: &Delivery) -> Result<(), Completion> {
        let Some(claim) = &delivery.claim else { return Ok(()) };
        if claim.parked {
            let forget = format!("delete from {} where queue = $1 and key = $2", self.shared.schema.parked);
            let key = delivery.message.key.to_string();
            sqlx::query(AssertSqlSafe(forget)).bind(&*queue.queue).bind(key).execute(&mut *tx.inner).await?;
        }
        if let Some(group) = &claim.group {
            self.free_groups(&mut tx.inner, queue, claim.owner, std::slice::from_ref(group)).await?;
        }
        let mut complete =
            sqlx::query(AssertSqlSafe(queue.complete.clone())).bind(claim.owner.to_string()).bind(&tx.token);
        for column in delivery.message.key.columns() {
            complete = complete.bind(column);
        }
        match complete.execute(&mut *tx.inner).await?.rows_affected() {
            1 => Ok(()),
            _ => Err(self.why_not(tx).await),
        }
    }

    /// Nothing was completed: is the claim gone, or the transaction?
    async fn why_not(&self, tx: &mut Tx) -> Completion {
        let token = sqlx::query("select current_setting('ichido.tx', true)").fetch_one(&mut *tx.inner).await;
        match token.and_then(|row| row.try_get::<Option<String>, _>(0)) {
            Ok(Some(token)) if token == tx.token => Completion::Lost,
            Ok(_) => Completion::Ended,
            Err(error) => Completion::Failed(error),
        }
    }

    /// Waits for the row: a COMMIT that is still being applied holds it.
    pub(crate) async fn probe(&self, delivery: &Delivery) -> Result<bool> {
        let Some(claim) = &delivery.claim else { return Ok(false) };
        let queue = self.queue(&delivery.message.queue).await?;
        let begin = format!("begin isolation level read committed; set local lock_timeout = '{PROBE}'");
        let mut tx = self.own.begin_with(AssertSqlSafe(begin)).await.map_err(|error| self.unreachable(error))?;
        let mut probe = sqlx::query(AssertSqlSafe(queue.is_claimed.clone())).bind(claim.owner.to_string());
        for column in delivery.message.key.columns() {
            probe = probe.bind(column);
        }
        let there = probe.fetch_optional(&mut *tx).await?.is_some();
        tx.rollback().await?;
        Ok(there)
    }
}

/// Why a completion did not complete.
enum Completion {
    Lost,
    Ended,
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for Completion {
    fn from(error: sqlx::Error) -> Self {
        Completion::Failed(error)
    }
}

fn broken(why: Completion) -> Error {
    let ended = || Error::BrokenTransaction("the action ended it; COMMIT and ROLLBACK are ichido's".into());
    match why {
        Completion::Lost => Error::LostClaim,
        Completion::Ended => ended(),
        Completion::Failed(error) => match fault::code(&error).as_deref() {
            Some(READ_ONLY) => ended(),
            Some(ABORTED) => {
                Error::BrokenTransaction("the action went on after an SQL error; return the error instead".into())
            }
            _ => error.into(),
        },
    }
}
