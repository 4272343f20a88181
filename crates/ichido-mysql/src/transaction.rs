//! Business transactions: begin, complete, commit, roll back. They run on connections without autocommit and begin with a
//! savepoint: when it is gone at completion, so is the transaction that was begun, and ROLLBACK takes back what came after.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ichido::{
    Delivery, Error,
    action::{Isolation, Terms},
    error::Result,
    store::{Failure, ProcessId, SessionId, SessionState, Transactions},
};
use ichido_sql::{Lent, SqlStore, by_claim, padded, verbs};
use sqlx::{AssertSqlSafe, Executor, MySqlConnection};

use crate::{
    MySql, fault,
    session::{IDLE, Opener, idle_timeout},
    statements::Statements,
};

/// There is no such savepoint.
const NO_SAVEPOINT: u16 = 1305;

/// An open business transaction.
pub struct Tx {
    pub(crate) lent: Lent<Opener>,
}

impl Tx {
    pub(crate) fn connection(&mut self) -> &mut MySqlConnection {
        &mut self.lent
    }
}

impl Transactions for MySql {
    async fn begin_on(&self, terms: Terms) -> Result<Tx> {
        let words = format!(
            "{}{}start transaction; savepoint ichido_guard",
            self.limit(terms.limit).unwrap_or_default(),
            isolation(terms.isolation)
        );
        // A BEGIN that fails is never a message's fault, whatever the server says.
        let lent = self.begin_with(&self.business, &words).await.map_err(|error| self.unreachable(error))?;
        Ok(Tx { lent })
    }

    async fn complete(&self, tx: &mut Tx, done: &[Delivery]) -> Result<()> {
        self.within(tx.lent.execute("release savepoint ichido_guard")).await.map_err(broken)?;
        for (queue, owner, some) in by_claim(done) {
            self.pass(tx, self.queue(queue).await?, owner, &some).await?;
        }
        Ok(())
    }

    async fn fail(&self, tx: &mut Tx, delivery: &Delivery, failure: &Failure) -> Result<()> {
        self.within(tx.lent.execute("release savepoint ichido_guard")).await.map_err(broken)?;
        if verbs::parked::park_in(self, &mut tx.lent, delivery, failure).await? {
            Ok(())
        } else {
            Err(Error::LostClaim)
        }
    }

    async fn commit(&self, tx: Tx) -> Result<()> {
        Ok(self.shared.end(tx.lent, "COMMIT").await?)
    }

    async fn rollback(&self, tx: Tx) -> Result<()> {
        if tx.lent.is_suspect() {
            self.abandon(tx).await;
            return Ok(());
        }
        Ok(self.shared.end(tx.lent, "ROLLBACK").await?)
    }

    fn session(tx: &Tx) -> Option<Arc<SessionId>> {
        Some(tx.lent.id.clone())
    }

    async fn session_state(&self, session: &SessionId) -> Result<SessionState> {
        Ok(self.shared.session_state(session).await?)
    }

    async fn abandon(&self, tx: Tx) {
        self.shared.abandon(tx.lent).await;
    }

    async fn is_claimed(&self, delivery: &Delivery) -> Result<bool> {
        verbs::queues::is_claimed(self, delivery).await
    }
}

impl MySql {
    /// The server ends a statement that takes longer than this, so that a rollback need not wait for it, and a session that idles for longer: its
    /// process is gone. Both are the session's, and must be taken back for those without a limit. MySQL knows the first for queries only,
    /// under another name.
    fn limit(&self, limit: Option<Duration>) -> Option<String> {
        if limit.is_some() {
            self.shared.limited.store(true, Ordering::SeqCst);
        } else if !self.shared.limited.load(Ordering::SeqCst) {
            return None;
        }
        let time = limit.unwrap_or_default();
        let (seconds, ms) = (time.as_secs_f64(), time.as_millis());
        // One action may end with a slow call, and the next one in the same transaction begin with another.
        let idle = limit.map_or(IDLE, |limit| (2 * limit + self.shared.deadline.timeout()).as_secs() + 1);
        Some(format!(
            "set /*M!100101 max_statement_time = {seconds}, */ /*!50708 max_execution_time = {ms}, */ {}; ",
            idle_timeout(idle)
        ))
    }

    async fn pass(&self, tx: &mut Tx, queue: &Statements, owner: Option<ProcessId>, some: &[&Delivery]) -> Result<()> {
        for delivery in some {
            let Some(claim) = &delivery.claim else { continue };
            if claim.parked {
                let forget = format!("delete from {} where queue = ? and `key` = ?", self.shared.known.tables.parked);
                let key = delivery.message.key.to_string().into_bytes();
                let forget = sqlx::query(AssertSqlSafe(forget)).bind(&*queue.queue).bind(key);
                self.within(forget.execute(&mut **tx.lent)).await?;
            }
            let held = claim.group.clone().into_iter().collect();
            verbs::groups::free(self, &mut tx.lent, queue, claim.owner, held).await?;
        }
        if queue.has_inbox() {
            return if self.pass_inbox(tx, queue, owner, some).await? { Ok(()) } else { Err(Error::LostClaim) };
        }
        let complete = match some.len() {
            1 => sqlx::query(AssertSqlSafe(queue.complete.clone())),
            many => sqlx::query(AssertSqlSafe(queue.of_many(&queue.complete_many, many, ""))),
        };
        let mut complete = complete.bind(owner.map(|owner| owner.to_string()));
        for column in padded(some).flat_map(|delivery| delivery.message.key.columns()) {
            complete = complete.bind(column);
        }
        match self.within(complete.execute(&mut **tx.lent)).await?.rows_affected() {
            passed if passed == some.len() as u64 => Ok(()),
            _ => Err(Error::LostClaim),
        }
    }
}

/// For the next transaction only; the session's is READ COMMITTED.
fn isolation(isolation: Isolation) -> String {
    match isolation {
        Isolation::ReadCommitted => String::new(),
        other => format!("set transaction isolation level {}; ", other.as_sql()),
    }
}

pub(crate) fn broken(error: impl Into<Error>) -> Error {
    match error.into() {
        Error::Failed(cause) if cause.downcast_ref().and_then(fault::number) == Some(NO_SAVEPOINT) => {
            let how = "it ended before the message was completed: by the action, by DDL, or by an error that the \
             action swallowed; return the error instead";
            Error::BrokenTransaction(how.into())
        }
        error => error,
    }
}
