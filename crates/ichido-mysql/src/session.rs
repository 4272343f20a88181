//! Sessions: bare connections for business transactions and for ichido's own statements. They are opened and set up here, and ended on
//! the server when it was silent; `ichido_sql::Connections` counts and keeps them. `transaction` and `sql` begin and end what runs in them.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, Instant},
};

use ichido_sql::{Connector, Deadline, Lent, deadline};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, Executor, MySqlConnection, Row, mysql::MySqlArguments};
use tokio::runtime::Handle;

use crate::connect::Shared;

/// Nobody waits longer for a row that somebody else has locked, in seconds.
const LOCK: u64 = 5;

/// A session that idles in its transaction this many seconds is ended by the server, and its rows can be rescued. Whoever is alive ends what
/// it does itself, and its orphans too; this is for a host that is gone, and an action may make slow calls meanwhile.
pub(crate) const IDLE: u64 = 600;

/// Between two of our own statements nobody makes calls.
const IDLE_OWN: u64 = 60;

/// So many of ichido's own statements are kept prepared in each connection; the server counts those of all processes.
const PREPARED: usize = 16;

/// A statement with its parameters.
pub(crate) type Statement<'q> = sqlx::query::Query<'q, sqlx::MySql, MySqlArguments>;

/// A connection, and what is known of it.
pub(crate) struct Session {
    connection: MySqlConnection,
    purpose: Use,
    pub(crate) on_server: OnServer,
    /// Has somebody used it before? The server may have closed it since.
    pub(crate) kept: bool,
    /// Does it keep statements prepared?
    pub(crate) prepares: bool,
}

/// Which session of which server it is there. Ids are counted from the server's start.
#[derive(Debug, Clone)]
pub(crate) struct OnServer {
    pub(crate) id: u64,
    server: String,
    since: Instant,
}

impl Deref for Session {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.connection
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.connection
    }
}

/// What connections are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Business,
    Own,
}

/// Opens them.
pub(crate) struct Opener {
    pub(crate) shared: Arc<Shared>,
    pub(crate) purpose: Use,
}

impl Connector for Opener {
    type Connection = Session;
    type Error = sqlx::Error;

    async fn connect(&self, timeout: Duration) -> sqlx::Result<Session> {
        deadline(timeout, self.open()).await
    }

    /// The server may not have noticed: what the session has locked would stay so.
    fn orphaned(&self, session: Session) {
        let orphan = session.on_server.clone();
        drop(session);
        let shared = self.shared.clone();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { shared.end_orphan(&orphan).await });
        }
    }
}

impl Opener {
    async fn open(&self) -> sqlx::Result<Session> {
        let prepares = !self.shared.is_crowded();
        let options = match self.purpose {
            _ if !prepares => self.shared.options.clone().statement_cache_capacity(0),
            Use::Own if !self.shared.has_capacity => self.shared.options.clone().statement_cache_capacity(PREPARED),
            _ => self.shared.options.clone(),
        };
        let mut connection = options.connect().await?;
        if self.purpose == Use::Business {
            // To sqlx one transaction that is open as long as the connection, so that one within it is a savepoint. What begins and ends on
            // the server is ours to say.
            let begin = format!("{}; start transaction", settings(self.purpose, &self.shared.deadline));
            std::mem::forget(connection.begin_with(AssertSqlSafe(begin)).await?);
            connection.execute("rollback").await?;
        } else {
            connection.execute(AssertSqlSafe(settings(self.purpose, &self.shared.deadline))).await?;
        }
        let on_server = OnServer::of(&mut connection).await?;
        Ok(Session { connection, purpose: self.purpose, on_server, kept: false, prepares })
    }
}

/// Every transaction is READ COMMITTED: at REPEATABLE READ a claim holds up inserts. Without autocommit nothing that an action writes after
/// its transaction has ended can commit by itself: a ROLLBACK takes it back (docs/invariants.md, "A COMMIT that returns Ok proves
/// nothing"). No wait of the server for us is longer than [`IDLE`].
fn settings(purpose: Use, deadline: &Deadline) -> String {
    let own = match purpose {
        Use::Business => "autocommit = 0".to_owned(),
        Use::Own => format!("innodb_lock_wait_timeout = {}", (deadline.timeout().as_secs() / 2).clamp(1, LOCK)),
    };
    let idle = if purpose == Use::Business { IDLE } else { IDLE_OWN };
    format!(
        "set session transaction isolation level read committed; set {}, net_read_timeout = least(@@net_read_timeout, {IDLE}), \
         net_write_timeout = least(@@net_write_timeout, {IDLE}), {own}",
        idle_timeout(idle)
    )
}

/// How long the server waits for us in a transaction. MySQL knows no such limit, and closes a connection too that waits outside of any; at the
/// next BEGIN we open another.
pub(crate) fn idle_timeout(seconds: u64) -> String {
    let any = seconds.max(IDLE);
    format!(
        "/*M!100300 idle_transaction_timeout = {seconds}, */ /*!80000 wait_timeout = {any}, */ @ichido_idle = {seconds}"
    )
}

impl OnServer {
    async fn of(connection: &mut MySqlConnection) -> sqlx::Result<Self> {
        let (id, server) = who(connection).await?;
        Ok(OnServer { id, server, since: Instant::now() })
    }

    /// Is this the server, as it was started then?
    async fn is_on(&self, connection: &mut MySqlConnection) -> sqlx::Result<bool> {
        let (_, server) = who(connection).await?;
        let uptime = sqlx::raw_sql("show global status like 'Uptime'").fetch_one(&mut *connection).await?;
        let uptime = uptime.try_get::<String, _>(1)?.parse().unwrap_or(u64::MAX);
        // Both are cut to seconds.
        Ok(server == self.server && uptime.saturating_add(2) >= self.since.elapsed().as_secs())
    }
}

async fn who(connection: &mut MySqlConnection) -> sqlx::Result<(u64, String)> {
    let who = "select cast(connection_id() as char), concat_ws(':', @@hostname, @@port, @@server_id)";
    let row = sqlx::raw_sql(who).fetch_one(connection).await?;
    Ok((row.try_get::<String, _>(0)?.parse().unwrap_or_default(), row.try_get(1)?))
}

impl Shared {
    /// A connection beside all others, for what must not wait for them.
    async fn aside(&self) -> sqlx::Result<MySqlConnection> {
        self.options.clone().statement_cache_capacity(0).connect().await
    }

    /// Ends a session that we have left while the server was silent, if it can be done in time. If not, the server ends it.
    async fn end_orphan(&self, orphan: &OnServer) {
        let end = async {
            let mut aside = self.aside().await?;
            if orphan.is_on(&mut aside).await? {
                aside.execute(AssertSqlSafe(format!("kill {}", orphan.id))).await?;
            }
            Ok::<_, sqlx::Error>(())
        };
        if let Err(error) = deadline(self.deadline.timeout(), end).await {
            tracing::debug!(%error, session = orphan.id, "cannot end a session that was left");
        }
    }
}

/// A short transaction of ichido's own.
pub struct Own(pub(crate) Lent<Opener>);

impl Deref for Own {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.0
    }
}

impl DerefMut for Own {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.0
    }
}

/// Ends the transaction in a session with this word; the next one may have the session then. Unless the server says yes, it is closed.
pub(crate) async fn end(mut lent: Lent<Opener>, word: &'static str) -> sqlx::Result<()> {
    let deadline = lent.deadline().clone();
    deadline.within(lent.execute(word)).await?;
    // A transaction within the transaction that could not begin takes ours with it, to sqlx: the next one would be no savepoint.
    if lent.purpose == Use::Own || lent.is_in_transaction() {
        give_back(lent);
    }
    Ok(())
}

/// For the next one, outside of any transaction.
pub(crate) fn give_back(mut lent: Lent<Opener>) {
    lent.kept = true;
    lent.give_back();
}
