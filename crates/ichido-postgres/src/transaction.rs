//! Business transactions: begin, complete, commit, roll back. BEGIN carries a token that the completion tests, so that a
//! transaction that ended behind our back cannot complete anything.

use std::{future::poll_fn, io::ErrorKind, sync::Arc, time::Duration};

use ichido::{
    Delivery, Error, Key,
    action::Terms,
    error::Result,
    store::{Failure, ProcessId, SessionId, SessionState, Transactions},
};
use ichido_sql::{Lent, SqlStore, by_claim, verbs};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::{
    Postgres,
    connector::{PgConnector, end_session, is_session, session_id},
    fault,
    messages::key_columns,
    pooler,
    statements::Statements,
};

/// A session that idles in its transaction this long is ended by the server, and its rows can be rescued.
pub(crate) const IDLE: &str = "10min";

/// The transaction was aborted by an error.
const ABORTED: &str = "25P02";

/// A write outside the transaction that was begun: business connections are read-only by default.
const READ_ONLY: &str = "25006";

/// An open business transaction.
pub struct Tx {
    pub(crate) session: Lent<PgConnector>,
}

impl Tx {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.session.connection
    }
}

impl Transactions for Postgres {
    async fn begin_on(&self, terms: Terms) -> Result<Tx> {
        let mut tx = self.open_session().await?;
        // A BEGIN that fails is never a message's fault, whatever the server says (a standby, a connection that died).
        let words = self.begin_words(terms, &tx.session.token);
        let begun = tx.session.begin(words);
        let rows = self.shared.deadline.within(begun).await.map_err(|error| self.unreachable(error))?;
        if self.own.is_pooled() {
            tx.session.id = rows.first().map(session_id).transpose()?;
        }
        Ok(tx)
    }

    async fn complete(&self, tx: &mut Tx, done: &[Delivery]) -> Result<()> {
        // In a box: those who wait for it would hold it twice each.
        self.timed(Box::pin(self.complete_all(tx, done))).await
    }

    async fn fail(&self, tx: &mut Tx, delivery: &Delivery, failure: &Failure) -> Result<()> {
        match self.timed(async { Ok(self.why_not(tx).await) }).await? {
            Completion::Lost => {}
            other => return Err(broken(other)),
        }
        if verbs::parked::park_in(self, tx.connection(), delivery, failure).await? {
            Ok(())
        } else {
            Err(Error::LostClaim)
        }
    }

    async fn commit(&self, tx: Tx) -> Result<()> {
        self.end(tx, "commit").await
    }

    /// Where the server was silent, here or elsewhere, closing the connection rolls back without waiting for it once more.
    async fn rollback(&self, tx: Tx) -> Result<()> {
        if tx.session.is_suspect() {
            self.abandon(tx).await;
            return Ok(());
        }
        self.end(tx, "rollback").await
    }

    fn session(tx: &Tx) -> Option<Arc<SessionId>> {
        tx.session.id.clone()
    }

    async fn session_state(&self, session: &SessionId) -> Result<SessionState> {
        let state = format!(
            "select state, (extract(epoch from clock_timestamp() - state_change) * 1000)::bigint from pg_stat_activity where {}",
            is_session(session, "$1")
        );
        let state = self.own.fetch_optional(sqlx::query(AssertSqlSafe(state)).bind(&*session.since)).await?;
        let Some(row) = state else { return Ok(SessionState::Gone) };
        let (state, idle): (Option<&str>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        Ok(match (state, idle) {
            (Some(state), Some(ms)) if state.starts_with("idle") => {
                SessionState::Idle(Duration::from_millis(ms.unsigned_abs()))
            }
            _ => SessionState::Working,
        })
    }

    async fn abandon(&self, tx: Tx) {
        let id = tx.session.id.clone();
        tx.session.close();
        if let Some(id) = id {
            // In a box: it is large and rare, and whoever commits or rolls back is moved with it for each message.
            Box::pin(end_session(&self.shared.hosts, &self.shared.deadline, &id)).await;
        }
    }

    async fn is_claimed(&self, delivery: &Delivery) -> Result<bool> {
        verbs::queues::is_claimed(self, delivery).await
    }
}

impl Postgres {
    async fn complete_all(&self, tx: &mut Tx, done: &[Delivery]) -> Result<()> {
        if done.iter().all(|delivery| delivery.claim.is_none()) {
            // Nothing to complete; the transaction must still be the one that was begun.
            return match self.why_not(tx).await {
                Completion::Lost => Ok(()),
                other => Err(broken(other)),
            };
        }
        for (queue, owner, some) in by_claim(done) {
            self.complete_some(tx, self.queue(queue).await?, owner, &some).await.map_err(broken)?;
        }
        Ok(())
    }

    /// Ends a transaction with the first of these statements; the next one may have its session then. Without an answer the outcome is
    /// unknown, and the session is ended before anybody looks at what it has locked.
    pub(crate) async fn end(&self, mut tx: Tx, words: &str) -> Result<()> {
        let ended = self.shared.deadline.within(run_first(&mut tx.session.connection, words)).await;
        match ended {
            Ok(true) if tx.session.is_whole() => tx.session.give_back(),
            Ok(_) => tx.session.close(),
            Err(error) => {
                if matches!(&error, sqlx::Error::Io(error) if error.kind() == ErrorKind::TimedOut) {
                    self.abandon(tx).await;
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// A place for a transaction, before it begins.
    pub(crate) async fn open_session(&self) -> Result<Tx> {
        // Before a connection is held: the first look at the queues needs its own.
        self.queues().await?;
        let session = self.business.take().await.map_err(|error| self.unreachable(error))?;
        Ok(Tx { session })
    }

    pub(crate) fn begin_words(&self, terms: Terms, token: &str) -> String {
        // Directly, connections have it from the beginning; a pooler would drop it.
        let idle = if self.own.is_pooled() {
            format!("; set local idle_in_transaction_session_timeout = '{IDLE}'")
        } else {
            String::new()
        };
        let words = format!(
            "begin isolation level {} read write; set local ichido.tx = '{token}'; show ichido.tx{idle}{}",
            terms.isolation.as_sql(),
            terms.limit.map(limit).unwrap_or_default()
        );
        // The server's connection is ours while the transaction lasts: it is known by when that began.
        let who = "select pg_backend_pid(), extract(epoch from now())::text";
        if self.own.is_pooled() { format!("{words}; {who}; {}", pooler::FORGET) } else { words }
    }

    async fn complete_some(
        &self,
        tx: &mut Tx,
        queue: &Statements,
        owner: Option<ProcessId>,
        some: &[&Delivery],
    ) -> Result<(), Completion> {
        match self.pass_door(tx, queue, owner, some).await {
            Ok(passed) if passed == some.len() as u64 => Ok(()),
            Ok(_) => Err(self.why_not(tx).await),
            // Behind a pooler a statement outside of a transaction may be prepared here and executed there, and fail in any way.
            Err(error) if self.own.is_pooled() => match self.why_not(tx).await {
                Completion::Ended => Err(Completion::Ended),
                _ => Err(Completion::Failed(error)),
            },
            Err(error) => Err(Completion::Failed(error)),
        }
    }

    async fn pass_door(
        &self,
        tx: &mut Tx,
        queue: &Statements,
        owner: Option<ProcessId>,
        some: &[&Delivery],
    ) -> sqlx::Result<u64> {
        // Behind a pooler without a name: a statement of somebody else's under that name must not take its place.
        let named = !self.own.is_pooled();
        let claims = || some.iter().filter_map(|delivery| Some((&delivery.message.key, delivery.claim.as_ref()?)));
        let parked: Vec<_> = claims().filter(|(_, claim)| claim.parked).map(|(key, _)| key.to_string()).collect();
        if !parked.is_empty() && queue.has_inbox() {
            let forget = format!("delete from {} where queue = $1 and key = any($2)", self.shared.known.tables.parked);
            let forget = sqlx::query(AssertSqlSafe(forget)).bind(&*queue.queue).bind(&parked);
            forget.persistent(named).execute(tx.connection()).await?;
        }
        let groups: Vec<_> = claims().filter_map(|(_, claim)| claim.group.clone()).collect();
        self.free_groups(tx.connection(), queue, owner.unwrap_or(ProcessId::NOBODY), &groups).await?;
        if queue.has_inbox() {
            return self.pass_inbox(tx, queue, owner, some).await;
        }
        let many = usize::from(some.len() > 1);
        let statement = if parked.is_empty() {
            [&queue.complete, &queue.complete_many][many]
        } else {
            &queue.complete_parked[many]
        };
        let owner = owner.map(|owner| owner.to_string());
        let mut complete = sqlx::query(AssertSqlSafe(statement.clone())).bind(owner).bind(&*tx.session.token);
        let keys: Vec<&Key> = some.iter().map(|delivery| &delivery.message.key).collect();
        if let [key] = *keys {
            for column in key.columns() {
                complete = complete.bind(column);
            }
        } else {
            for column in key_columns(queue, &keys) {
                complete = complete.bind(column);
            }
        }
        if !parked.is_empty() {
            complete = complete.bind(parked);
        }
        Ok(complete.persistent(named).execute(tx.connection()).await?.rows_affected())
    }

    /// Nothing was completed: is the claim gone, or the transaction?
    async fn why_not(&self, tx: &mut Tx) -> Completion {
        let token = sqlx::raw_sql("select current_setting('ichido.tx', true)").fetch_one(tx.connection()).await;
        match token.and_then(|row| row.try_get::<Option<String>, _>(0)) {
            Ok(Some(token)) if token == *tx.session.token => Completion::Lost,
            Ok(_) => Completion::Ended,
            Err(error) => Completion::Failed(error),
        }
    }
}

/// Runs these statements in one round trip. The first one decides; false if the connection is lost after it. A later statement that the server
/// refuses is nobody's loss.
async fn run_first(connection: &mut PgConnection, words: &str) -> sqlx::Result<bool> {
    let mut done = sqlx::raw_sql(AssertSqlSafe(words)).execute_many(connection);
    let mut next = async || poll_fn(|cx| done.as_mut().poll_next(cx)).await.transpose();
    next().await?;
    loop {
        match next().await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(error) => {
                tracing::debug!(%error, "a statement after the end of a transaction failed");
                return Ok(error.as_database_error().is_some());
            }
        }
    }
}

/// The server ends a statement that takes longer than this, so that a rollback need not wait for it.
fn limit(limit: Duration) -> String {
    format!("; set local statement_timeout = {}", limit.as_millis().clamp(1, i32::MAX as u128))
}

/// Why a completion did not complete.
pub(crate) enum Completion {
    Lost,
    Ended,
    Failed(sqlx::Error),
}

pub(crate) fn broken(why: Completion) -> Error {
    let ended = || Error::BrokenTransaction("the action ended it; leave COMMIT and ROLLBACK to ichido".into());
    match why {
        Completion::Lost => Error::LostClaim,
        Completion::Ended => ended(),
        Completion::Failed(error) => match fault::code(&error).as_deref() {
            Some(READ_ONLY) => ended(),
            Some(ABORTED) => {
                Error::BrokenTransaction("the action continued after an SQL error; return the error instead".into())
            }
            _ => error.into(),
        },
    }
}
