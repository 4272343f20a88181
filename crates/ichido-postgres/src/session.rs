//! Sessions: connections that business transactions have one after the other. sqlx's pool asks every connection that comes back
//! whether it is alive, which is a round trip for each transaction; here the next BEGIN asks. `transaction` begins and ends
//! what runs in them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sqlx::{AssertSqlSafe, Connection as _, Executor, PgConnection, Row, Transaction, postgres::PgRow};
use tokio::runtime::Handle;

use crate::pooler::{Connections, LOOK};

/// More answers than anybody leaves unread.
const MOST_UNREAD: usize = 20;

/// A connection that stays with us.
pub(crate) struct Session {
    /// To sqlx one transaction that is open as long as we live, so that one within it is a savepoint. What begins and ends on the
    /// server is ours to say. Dropped at whatever moment, it is rolled back and sqlx's again.
    held: Transaction<'static, sqlx::Postgres>,
    /// What the server knows by name here.
    prepared: HashSet<String>,
    /// Where it was opened.
    runtime: Handle,
}

impl Session {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.held
    }

    /// Runs several statements in one round trip, the first of which that has a row answers with this token; the rows of the
    /// others. An action can leave answers unread (sqlx does not count those of COPY), and ours would be taken for others'
    /// from then on: such a session ends.
    pub(crate) async fn begin(&mut self, words: String, token: &str) -> sqlx::Result<Vec<PgRow>> {
        let mut rows = sqlx::raw_sql(AssertSqlSafe(words)).fetch_all(&mut *self.held).await?;
        if rows.first().is_some_and(|row| row.try_get::<&str, _>(0).is_ok_and(|answer| answer == token)) {
            rows.remove(0);
            return Ok(rows);
        }
        self.terminate().await;
        Err(sqlx::Error::Protocol("an earlier response was not read completely".into()))
    }

    /// Ends the server's side, and comes back when what it had locked is free: it hangs up after that.
    async fn terminate(&mut self) {
        for _ in 0..MOST_UNREAD {
            let told = self.held.execute("select pg_terminate_backend(pg_backend_pid())").await;
            if matches!(told, Err(sqlx::Error::Io(_))) {
                break;
            }
        }
    }

    /// What prepares a statement about texts under this name, if that is still to be done.
    pub(crate) fn prepare(&self, name: &str, statement: &str) -> String {
        if self.prepared.contains(name) {
            String::new()
        } else {
            format!("; prepare {name} (text, text) as {statement}")
        }
    }

    pub(crate) fn note_prepared(&mut self, name: &str) {
        if !self.prepared.contains(name) {
            self.prepared.insert(name.to_owned());
        }
    }
}

/// The sessions of a pool; those that nobody uses wait here.
#[derive(Clone)]
pub(crate) struct Sessions {
    connections: Connections,
    idle: Arc<Idle>,
}

impl Sessions {
    pub(crate) fn new(connections: Connections) -> Self {
        Sessions { connections, idle: Arc::default() }
    }

    /// A session outside of any transaction.
    pub(crate) async fn take(&self) -> sqlx::Result<Session> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(session) => Ok(session),
            None => Box::pin(self.open_or_wait()).await,
        }
    }

    /// While we wait for a connection, a session may become free.
    async fn open_or_wait(&self) -> sqlx::Result<Session> {
        match self.open().await {
            Err(sqlx::Error::PoolTimedOut) => self.idle.lock().pop().ok_or(sqlx::Error::PoolTimedOut),
            opened => opened,
        }
    }

    async fn open(&self) -> sqlx::Result<Session> {
        let mut held = self.connections.begin(LOOK).await?;
        let known = "select name from pg_prepared_statements where starts_with(name, 'ichido_')";
        let known = sqlx::raw_sql(known).fetch_all(&mut *held).await?;
        let prepared = known.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
        // No COMMIT: whoever had the connection before may have been dropped in the middle of something, and BEGIN is in that then.
        held.execute("rollback").await?;
        Ok(Session { held, prepared, runtime: Handle::current() })
    }

    /// Ends the transaction in a session with this word; the next one may have the session then.
    pub(crate) async fn end(&self, mut session: Session, word: &'static str) -> sqlx::Result<()> {
        session.held.execute(word).await?;
        // A transaction within the transaction that could not begin takes ours with it, to sqlx: the next one would be no savepoint.
        if session.held.is_in_transaction() {
            self.idle.lock().push(session);
        }
        Ok(())
    }
}

/// What waits to be used. sqlx takes a connection back in a task, so it must be dropped in a runtime.
#[derive(Default)]
struct Idle(Mutex<Vec<Session>>);

impl Idle {
    fn lock(&self) -> MutexGuard<'_, Vec<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        for session in self.lock().drain(..) {
            let runtime = session.runtime.clone();
            let _inside = runtime.enter();
            drop(session);
        }
    }
}
