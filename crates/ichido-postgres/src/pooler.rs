//! Connections for ichido's own statements, and what is different when a transaction pooler such as pgbouncer stands between them and the
//! server. Then each transaction may be on another of the server's connections: no setting of a session holds, a statement
//! that was prepared is not there any more, and sqlx prepares and executes in two steps that a pooler may send to two
//! connections. So everything is a transaction there, and each says itself what it needs. Every statement has a deadline.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, OnceLock},
};

use ichido::store::{ProcessId, SessionId};
use ichido_sql::{Connections, Deadline, Lent, deadline};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection, Row,
    postgres::{PgArguments, PgConnectOptions, PgListener, PgPoolOptions, PgQueryResult, PgRow},
    query::Query,
};

use crate::{connector::PgConnector, fault, hosts::named};

/// The server looks this soon, this often and so many times whether we are still there: within half a minute it notices
/// that a host is gone, and frees the rows of its transactions. A pooler does the same by settings of its own.
pub(crate) const KEEPALIVES: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];

/// A transaction of ichido's own, whatever the server has as its defaults; nobody waits longer for a row that somebody
/// else has locked, and none that we have lost sight of holds up others for long.
pub(crate) const OWN: &str = "begin isolation level read committed read write; set local lock_timeout = '5s'; \
     set local idle_in_transaction_session_timeout = '1min'";

/// A look at what is there.
pub(crate) const LOOK: &str = "begin isolation level read committed read only";

/// With BEGIN behind a pooler: the last user of the server's connection may have left statements under the names that ours will
/// get.
pub(crate) const FORGET: &str = "deallocate all";

/// What pgbouncer says to a startup parameter that it does not know.
const REFUSED: &str = "08P01";

/// What a statement of ichido's own is.
type Statement<'q> = Query<'q, sqlx::Postgres, PgArguments>;

/// How the server is reached, found out once for all connections of a store.
#[derive(Clone)]
pub(crate) struct Way {
    /// Asked for as a setting; who shares connections among clients does not pass it on.
    mark: Arc<str>,
    pooled: Arc<OnceLock<bool>>,
}

impl Default for Way {
    fn default() -> Self {
        Way { mark: ProcessId::random().to_string().into(), pooled: Arc::default() }
    }
}

impl Way {
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Whether a transaction pooler is on the way; false before anything was connected.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled.get().is_some_and(|pooled| *pooled)
    }

    /// Connects in the way that works.
    pub(crate) async fn connect(
        &self,
        direct: &PgConnectOptions,
        pooled: &PgConnectOptions,
    ) -> sqlx::Result<PgConnection> {
        match self.pooled.get() {
            Some(true) => return pooled.connect().await,
            Some(false) => return direct.connect().await,
            None => {}
        }
        let direct = match direct.connect().await {
            Ok(connection) => self.unmarked(connection).await?,
            // The same words may mean that the server is away: only a connection without our settings tells.
            Err(error) if fault::code(&error).as_deref() == Some(REFUSED) => None,
            Err(error) => return Err(error),
        };
        let found = direct.is_none();
        let connection = match direct {
            Some(connection) => connection,
            None => pooled.connect().await?,
        };
        self.pooled.get_or_init(|| found);
        Ok(connection)
    }

    /// Is our setting there? A pooler has refused or dropped it.
    async fn unmarked(&self, mut connection: PgConnection) -> sqlx::Result<Option<PgConnection>> {
        let setting = sqlx::raw_sql("select current_setting('ichido.direct', true)").fetch_one(&mut connection).await?;
        let direct = setting.try_get::<Option<&str>, _>(0)? == Some(self.mark());
        Ok(direct.then_some(connection))
    }
}

/// Connections for ichido's own statements, opened when they are needed.
#[derive(Clone)]
pub(crate) struct Own(pub(crate) Connections<PgConnector>);

/// A transaction of ichido's own. Dropped, it is rolled back: its connection is closed.
pub struct OwnTx(Lent<PgConnector>);

impl OwnTx {
    /// Who works for it at the server.
    pub(crate) fn id(&self) -> Option<Arc<SessionId>> {
        self.0.id.clone()
    }

    pub(crate) async fn commit(self) -> sqlx::Result<()> {
        self.end("commit").await
    }

    pub(crate) async fn rollback(self) -> sqlx::Result<()> {
        // Where the server was silent, closing the connection does it.
        if self.0.is_suspect() { Ok(()) } else { self.end("rollback").await }
    }

    async fn end(mut self, word: &'static str) -> sqlx::Result<()> {
        let deadline = self.0.deadline().clone();
        deadline.within(self.0.connection.execute(word)).await?;
        self.0.give_back();
        Ok(())
    }
}

impl Deref for OwnTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.0.connection
    }
}

impl DerefMut for OwnTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.0.connection
    }
}

impl Own {
    fn way(&self) -> &Way {
        &self.0.connector().way
    }

    pub(crate) fn deadline(&self) -> &Deadline {
        self.0.deadline()
    }

    pub(crate) fn is_pooled(&self) -> bool {
        self.way().is_pooled()
    }

    /// Begins a transaction with these words.
    pub(crate) async fn begin(&self, words: &str) -> sqlx::Result<OwnTx> {
        let lent = self.0.take().await?;
        self.begin_on(lent, words).await
    }

    async fn begin_on(&self, mut lent: Lent<PgConnector>, words: &str) -> sqlx::Result<OwnTx> {
        let words = if self.is_pooled() { format!("{words}; {FORGET}") } else { words.to_owned() };
        self.deadline().within(lent.connection.execute(AssertSqlSafe(words))).await?;
        Ok(OwnTx(lent))
    }

    /// Runs one statement that is a transaction by itself.
    pub(crate) async fn execute(&self, statement: Statement<'_>) -> sqlx::Result<PgQueryResult> {
        let mut lent = self.0.take().await?;
        if !self.is_pooled() {
            let done = self.deadline().within(statement.execute(&mut lent.connection)).await;
            return settle(lent, done);
        }
        let mut tx = self.begin_on(lent, OWN).await?;
        let done = self.deadline().within(statement.execute(&mut *tx)).await?;
        tx.commit().await?;
        Ok(done)
    }

    /// The same, for its rows.
    pub(crate) async fn fetch_all(&self, statement: Statement<'_>) -> sqlx::Result<Vec<PgRow>> {
        let mut lent = self.0.take().await?;
        if !self.is_pooled() {
            let rows = self.deadline().within(statement.fetch_all(&mut lent.connection)).await;
            return settle(lent, rows);
        }
        let mut tx = self.begin_on(lent, OWN).await?;
        let rows = self.deadline().within(statement.fetch_all(&mut *tx)).await?;
        tx.commit().await?;
        Ok(rows)
    }

    pub(crate) async fn fetch_optional(&self, statement: Statement<'_>) -> sqlx::Result<Option<PgRow>> {
        Ok(self.fetch_all(statement).await?.into_iter().next())
    }

    pub(crate) async fn fetch_one(&self, statement: Statement<'_>) -> sqlx::Result<PgRow> {
        self.fetch_optional(statement).await?.ok_or(sqlx::Error::RowNotFound)
    }

    /// A connection of its own that listens; none behind a pooler, where nothing would be heard. Only sqlx's listener hears anything, and
    /// it wants a pool.
    pub(crate) async fn listener(&self) -> sqlx::Result<Option<PgListener>> {
        self.0.take().await?.give_back();
        if self.is_pooled() {
            return Ok(None);
        }
        let one = PgPoolOptions::new().max_connections(1).acquire_timeout(self.deadline().timeout());
        let options = deadline(self.deadline().timeout(), self.0.connector().hosts.options()).await?;
        let one = one.idle_timeout(None).max_lifetime(None).connect_lazy_with(named(options));
        let mut listener = PgListener::connect_with(&one).await?;
        // It would connect with the options of today, which may not hold tomorrow.
        listener.eager_reconnect(false);
        Ok(Some(listener))
    }

    /// What an operator should know: behind a pooler, an action that ends its transaction leaves the guard of `connect`.
    pub(crate) async fn unguarded(&self) -> sqlx::Result<Option<String>> {
        let mut lent = self.0.take().await?;
        if !self.is_pooled() {
            lent.give_back();
            return Ok(None);
        }
        let default = sqlx::raw_sql("show default_transaction_read_only").fetch_one(&mut lent.connection);
        let default = self.deadline().within(default).await?;
        lent.give_back();
        Ok((default.try_get::<&str, _>(0)? != "on").then(|| UNGUARDED.to_owned()))
    }
}

const UNGUARDED: &str = "the database is behind a transaction pooler and the role may write outside a transaction: \
     what an action writes after its own COMMIT or ROLLBACK stays, although its message is parked as broken; run \
     `alter role … set default_transaction_read_only = on` for the role of the workers, or set connect_query = 'set \
     default_transaction_read_only = on' in pgbouncer";

/// A server that has refused a statement is still there; after any other error the connection is closed.
fn settle<T>(lent: Lent<PgConnector>, done: sqlx::Result<T>) -> sqlx::Result<T> {
    let refused = |error: &sqlx::Error| error.as_database_error().is_some() && !fault::is_fault(error);
    if done.as_ref().err().is_none_or(refused) {
        lent.give_back();
    }
    done
}
