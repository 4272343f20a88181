//! Sessions: connections that business transactions have one after the other. sqlx's pool asks every connection that comes back
//! whether it is alive, which is a round trip for each transaction; here the next BEGIN asks. `transaction` begins and ends
//! what runs in them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sqlx::{AssertSqlSafe, Executor, PgConnection, Row, Transaction, postgres::PgRow};
use tokio::runtime::Handle;

use crate::pooler::{Connections, LOOK};

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

    /// Runs several statements in one round trip, for the rows of the last.
    pub(crate) async fn run(&mut self, words: String) -> sqlx::Result<Vec<PgRow>> {
        sqlx::raw_sql(AssertSqlSafe(words)).fetch_all(&mut *self.held).await
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
            None => Box::pin(self.open()).await,
        }
    }

    async fn open(&self) -> sqlx::Result<Session> {
        let mut held = self.connections.begin(LOOK).await?;
        let known = "select name from pg_prepared_statements where starts_with(name, 'ichido_')";
        let known = sqlx::raw_sql(known).fetch_all(&mut *held).await?;
        let prepared = known.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
        held.execute("commit").await?;
        Ok(Session { held, prepared, runtime: Handle::current() })
    }

    /// Ends the transaction in a session with this word; the next one may have the session then.
    pub(crate) async fn end(&self, mut session: Session, word: &'static str) -> sqlx::Result<()> {
        session.held.execute(word).await?;
        self.idle.lock().push(session);
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
