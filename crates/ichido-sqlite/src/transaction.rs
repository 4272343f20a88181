//! Transactions: begin, complete, commit, roll back. There is one connection that writes, and a guard on it: a commit hook
//! that vetoes every COMMIT, also the silent one of a statement outside a transaction, unless ichido itself commits; and a
//! rollback hook that remembers that the transaction ended behind our back.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ichido::{
    Delivery, Error,
    action::{Isolation, Terms},
    error::Result,
    store::{Failure, ProcessId, Transactions},
};
use ichido_sql::{SqlStore, by_claim, verbs};
use sqlx::{AssertSqlSafe, SqliteConnection, Transaction};
use tokio::sync::OwnedSemaphorePermit;

use crate::{Sqlite, fault, inbox::pass_inbox, messages::key_list, statements::Statements, turn::WriteTurn};

/// SQLite says that a commit hook said no: the statement ran outside our transaction.
const VETOED: u32 = 531;

/// A statement looks once in so many steps of the virtual machine whether it is interrupted.
const PROGRESS: i32 = 10_000;

/// What the hooks of the connection that writes know.
#[derive(Default)]
pub(crate) struct Guard {
    may_commit: AtomicBool,
    rolled_back: AtomicBool,
    /// The statement at work is interrupted: whoever dropped its action rolls back, and need not wait for it.
    interrupted: AtomicBool,
}

impl Guard {
    pub(crate) async fn install(self: Arc<Self>, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let mut handle = connection.lock_handle().await?;
        let guard = self.clone();
        handle.set_progress_handler(PROGRESS, move || !guard.interrupted.load(Ordering::SeqCst));
        let guard = self.clone();
        handle.set_commit_hook(move || guard.may_commit.load(Ordering::SeqCst));
        handle.set_rollback_hook(move || self.rolled_back.store(true, Ordering::SeqCst));
        Ok(())
    }
}

/// An open transaction, with the turn to write.
pub struct Tx {
    pub(crate) inner: Transaction<'static, sqlx::Sqlite>,
    guard: Arc<Guard>,
    _turn: WriteTurn,
    _place: OwnedSemaphorePermit,
}

impl Tx {
    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.inner
    }

    pub(crate) async fn commit(self) -> Result<()> {
        self.guard.may_commit.store(true, Ordering::SeqCst);
        let committed = self.inner.commit().await;
        self.guard.may_commit.store(false, Ordering::SeqCst);
        Ok(committed?)
    }

    /// That there is nothing to roll back is fine: the transaction may have ended by itself. The pool closes a connection
    /// that comes back in an unknown state.
    pub(crate) async fn rollback(mut self) -> Result<()> {
        self.guard.interrupted.store(true, Ordering::SeqCst);
        // The handle is free when no statement is at work.
        drop(self.inner.lock_handle().await);
        self.guard.interrupted.store(false, Ordering::SeqCst);
        if let Err(error) = self.inner.rollback().await {
            tracing::debug!(%error, "rollback failed");
        }
        Ok(())
    }
}

impl Transactions for Sqlite {
    fn admits(&self, terms: &Terms) -> Result<()> {
        match terms.isolation {
            Isolation::RepeatableRead => Err(Error::Setup(
                "SQLite has no `repeatable read`: its transactions are serializable; write that, or leave `isolation` out".into(),
            )),
            Isolation::ReadCommitted | Isolation::Serializable => Ok(()),
        }
    }

    /// Whatever its isolation is called, it is serializable; and a rollback interrupts what is at work, without a limit.
    async fn begin_on(&self, _: Terms) -> Result<Tx> {
        self.begin_tx().await
    }

    async fn complete(&self, tx: &mut Tx, done: &[Delivery]) -> Result<()> {
        prove(tx)?;
        for (queue, owner, some) in by_claim(done) {
            self.pass(tx, self.queue(queue).await?, owner, &some).await?;
        }
        Ok(())
    }

    async fn fail(&self, tx: &mut Tx, delivery: &Delivery, failure: &Failure) -> Result<()> {
        prove(tx)?;
        if verbs::parked::park_in(self, tx, delivery, failure).await? { prove(tx) } else { Err(Error::LostClaim) }
    }

    async fn commit(&self, tx: Tx) -> Result<()> {
        tx.commit().await
    }

    async fn rollback(&self, tx: Tx) -> Result<()> {
        tx.rollback().await
    }

    async fn is_claimed(&self, delivery: &Delivery) -> Result<bool> {
        verbs::queues::is_claimed(self, delivery).await
    }
}

impl Sqlite {
    /// Begins a transaction that writes; whatever keeps it from beginning is never a message's fault.
    pub(crate) async fn begin_tx(&self) -> Result<Tx> {
        let place = self.free.clone().acquire_owned().await?;
        let turn = self.shared.line.wait().await.map_err(|error| self.unreachable(error))?;
        self.guard.interrupted.store(false, Ordering::SeqCst);
        let inner = self.writer.begin_with("begin immediate").await.map_err(|error| self.not_opened(error))?;
        self.guard.may_commit.store(false, Ordering::SeqCst);
        self.guard.rolled_back.store(false, Ordering::SeqCst);
        Ok(Tx { inner, guard: self.guard.clone(), _turn: turn, _place: place })
    }

    async fn pass(&self, tx: &mut Tx, queue: &Statements, owner: Option<ProcessId>, some: &[&Delivery]) -> Result<()> {
        let text = owner.map(|owner| owner.to_string());
        let claims = || some.iter().filter_map(|delivery| Some((&delivery.message.key, delivery.claim.as_ref()?)));
        for (key, _) in claims().filter(|(_, claim)| claim.parked) {
            let forget = sqlx::query("delete from ichido_parked where queue = ? and key = ?").bind(&*queue.queue);
            forget.bind(key.to_string()).execute(tx.connection()).await.map_err(broken)?;
        }
        let held = claims().filter_map(|(_, claim)| claim.group.clone()).collect();
        let holder = owner.unwrap_or(ProcessId::NOBODY);
        verbs::groups::free(self, tx, queue, holder, held).await.map_err(broken)?;
        if queue.has_inbox() {
            let passed = pass_inbox(tx.connection(), queue, text.as_deref(), some).await.map_err(broken)?;
            return if passed { Ok(()) } else { Err(Error::LostClaim) };
        }
        let complete = if let [delivery] = some {
            let complete = sqlx::query(AssertSqlSafe(queue.complete.clone())).bind(text);
            delivery.message.key.columns().iter().fold(complete, sqlx::query::Query::bind)
        } else {
            let keys = key_list(some.iter().map(|delivery| &delivery.message.key));
            sqlx::query(AssertSqlSafe(queue.complete_many.clone())).bind(text).bind(keys)
        };
        match complete.execute(tx.connection()).await.map_err(broken)?.rows_affected() {
            passed if passed == some.len() as u64 => Ok(()),
            _ => Err(Error::LostClaim),
        }
    }
}

/// This must be the transaction that was begun.
fn prove(tx: &Tx) -> Result<()> {
    if tx.guard.rolled_back.load(Ordering::SeqCst) {
        let how =
            "it was rolled back by the action, or by an error that the action swallowed; return the error instead";
        return Err(Error::BrokenTransaction(how.into()));
    }
    Ok(())
}

pub(crate) fn broken(error: impl Into<Error>) -> Error {
    match error.into() {
        Error::Failed(cause) if cause.downcast_ref().and_then(fault::code) == Some(VETOED) => {
            Error::BrokenTransaction("the action ended it; leave COMMIT and ROLLBACK to ichido".into())
        }
        error => error,
    }
}
