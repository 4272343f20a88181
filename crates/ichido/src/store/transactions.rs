//! Business transactions: they carry a message's effects and its completion. The handler `transaction` is the only one that ends them.

use std::{sync::Arc, time::Duration};

use crate::Delivery;
use crate::action::Terms;
use crate::error::Result;
use crate::store::Database;
use crate::store::Failure;

/// Who works for a transaction at the server: another connection can ask about it and end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionId {
    /// The number that the server knows it by.
    pub number: i64,
    /// Since when, where numbers are used again; the store's to read.
    pub since: Arc<str>,
}

/// What a session does, as the server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// It works on a statement, or the server does not tell.
    Working,
    /// It has answered its last statement so long ago, and waits for the next.
    Idle(Duration),
    /// There is no such session.
    Gone,
}

/// Business transactions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Transactions: Database {
    /// Can business transactions be begun on these terms?
    ///
    /// # Errors
    /// [`crate::Error::Setup`] if this database has no such thing.
    fn admits(&self, terms: &Terms) -> Result<()> {
        let _ = terms;
        Ok(())
    }

    /// Begins a business transaction that can prove its identity at completion.
    fn begin_on(&self, terms: Terms) -> impl Future<Output = Result<Self::Tx>> + Send;

    /// Begins one on the usual terms.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx>> + Send {
        self.begin_on(Terms::default())
    }

    /// Moves the messages through the one-way door, as the last statement of their transaction.
    ///
    /// [`crate::Error::LostClaim`] if one of them is not ours any more, [`crate::Error::BrokenTransaction`] if this is
    /// not the transaction that was begun; the caller rolls back.
    fn complete(&self, tx: &mut Self::Tx, done: &[Delivery]) -> impl Future<Output = Result<()>> + Send;

    /// Records in a business transaction that its message has failed: the other door, for what is to be committed with a
    /// failure. The same errors as [`Transactions::complete`].
    fn fail(
        &self,
        tx: &mut Self::Tx,
        delivery: &Delivery,
        failure: &Failure,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Commits. An error means that the outcome is unknown.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<()>> + Send;

    /// Rolls back.
    fn rollback(&self, tx: Self::Tx) -> impl Future<Output = Result<()>> + Send;

    /// Who works for a transaction; none if nobody can ask about it, as in a database without a server.
    fn session(tx: &Self::Tx) -> Option<Arc<SessionId>> {
        let _ = tx;
        None
    }

    /// What a session does, asked through another connection.
    fn session_state(&self, session: &SessionId) -> impl Future<Output = Result<SessionState>> + Send {
        let _ = session;
        async { Ok(SessionState::Working) }
    }

    /// Closes a transaction's connection without waiting for anything on it, and ends its session through another one: what it has locked
    /// is free, and it cannot commit any more. Best effort, within [`Database::timeout`].
    fn abandon(&self, tx: Self::Tx) -> impl Future<Output = ()> + Send {
        drop(tx);
        async {}
    }

    /// After an unknown COMMIT: is the message still unprocessed and ours? Waits for the row, so that a COMMIT that is
    /// being applied is seen.
    fn is_claimed(&self, delivery: &Delivery) -> impl Future<Output = Result<bool>> + Send;
}
