//! A session: a connection of ours and what we know about the server's side of it. `connector` opens it, `transaction` and `pooler` begin and
//! end what runs in it.

use std::{collections::HashSet, sync::Arc};

use ichido::store::{ProcessId, SessionId};
use sqlx::{AssertSqlSafe, Connection as _, Executor, PgConnection, Row, postgres::PgRow};

use crate::{connector::session_id, pooler::LOOK};

/// More answers than anybody leaves unread.
const MOST_UNREAD: usize = 20;

/// Who we are at the server, and the end of the transaction that sqlx takes for an open one. No row for a user whose default role may
/// not look at his sessions: such a session cannot be asked about.
const WHO: &str = "select pid, extract(epoch from backend_start)::text from pg_stat_activity \
                   where pid = pg_backend_pid() and backend_start is not null; rollback";

/// A connection that stays with us.
pub(crate) struct Session {
    /// To sqlx one transaction is open as long as it lives, so that one within it is a savepoint. What begins and ends on the server is
    /// ours to say.
    pub(crate) connection: PgConnection,
    /// Who works for us at the server; behind a pooler, only while a transaction lasts.
    pub(crate) id: Option<Arc<SessionId>>,
    /// What our transactions here are known by, as long as each of them lasts. The same for all: the server's statistics have an entry for each
    /// text, and must not have one for each message.
    pub(crate) token: Arc<str>,
    /// What the server knows by name here.
    prepared: HashSet<String>,
}

impl Session {
    /// A session on a new connection.
    pub(crate) async fn new(mut connection: PgConnection, pooled: bool) -> sqlx::Result<Self> {
        // Dropped, it would roll back, to sqlx; this one never ends.
        std::mem::forget(connection.begin_with(LOOK).await?);
        let id = if pooled {
            connection.execute("rollback").await?;
            None
        } else {
            let who = sqlx::raw_sql(WHO).fetch_all(&mut connection).await?;
            who.first().map(session_id).transpose()?
        };
        Ok(Session { connection, id, token: ProcessId::random().to_string().into(), prepared: HashSet::new() })
    }

    /// May others have it? A transaction within the transaction that could not begin takes ours with it, to sqlx: the next one would be
    /// no savepoint.
    pub(crate) fn is_whole(&self) -> bool {
        self.connection.is_in_transaction()
    }

    /// Runs several statements in one round trip, the first of which that has a row answers with the token; the rows of the
    /// others. An action can leave answers unread (sqlx does not count those of COPY), and ours would be taken for others'
    /// from then on: such a session ends.
    pub(crate) async fn begin(&mut self, words: String) -> sqlx::Result<Vec<PgRow>> {
        let mut rows = sqlx::raw_sql(AssertSqlSafe(words)).fetch_all(&mut self.connection).await?;
        if rows.first().is_some_and(|row| row.try_get::<&str, _>(0).is_ok_and(|answer| answer == &*self.token)) {
            rows.remove(0);
            return Ok(rows);
        }
        self.terminate().await;
        Err(sqlx::Error::Protocol("an earlier response was not read completely".into()))
    }

    /// Ends the server's side, and comes back when what it had locked is free: it hangs up after that.
    async fn terminate(&mut self) {
        for _ in 0..MOST_UNREAD {
            let told = self.connection.execute("select pg_terminate_backend(pg_backend_pid())").await;
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
