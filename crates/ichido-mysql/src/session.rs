//! Sessions: bare connections for business transactions and for ichido's own statements. They are opened and set up here, and ended on
//! the server when it was silent; `ichido_sql::Connections` counts and keeps them. `transaction` and `sql` begin and end what runs in them.

use std::{
    io::ErrorKind,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ichido::{
    Error,
    store::{SessionId, SessionState},
};
use ichido_sql::{Connector, Deadline, Lent, end_orphan};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection as _, Executor, MySqlConnection, Row,
    mysql::{MySqlArguments, MySqlConnectOptions, MySqlRow},
};
use tokio::runtime::Handle;

use crate::{
    connect::Shared,
    fault,
    hosts::{check, host},
};

/// Nobody waits longer for a row that somebody else has locked, in seconds.
const LOCK: u64 = 5;

/// A session that idles in its transaction this many seconds is ended by the server, and its rows can be rescued. Whoever is alive ends what
/// it does itself, and its orphans too; this is for a host that is gone, and an action may make slow calls meanwhile.
pub(crate) const IDLE: u64 = 600;

/// Between two of our own statements nobody makes calls.
const IDLE_OWN: u64 = 60;

/// How many statements a connection keeps prepared when the server has refused to keep one more, and when it has done so again. One that is
/// not kept costs more than a round trip: nothing answers to its end, so that TCP holds back what comes next for 40 ms.
const PREPARED: [usize; 2] = [8, 0];

/// A statement with its parameters.
pub(crate) type Statement<'q> = sqlx::query::Query<'q, sqlx::MySql, MySqlArguments>;

/// A connection, and what is known of it.
pub(crate) struct Session {
    connection: MySqlConnection,
    purpose: Use,
    /// Who works for us at the server.
    pub(crate) id: Arc<SessionId>,
    /// Has somebody used it before? The server may have closed it since.
    pub(crate) kept: bool,
    /// How often the server had refused to keep one more statement prepared when it was opened.
    pub(crate) refusals: usize,
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
        self.shared.hosts.first(timeout, host, |options| self.open(options)).await
    }

    /// What it has locked must be free before its message can run again.
    fn orphaned(&self, session: Session) {
        let (id, shared) = (session.id.clone(), self.shared.clone());
        drop(session);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { shared.end_session(&id).await });
        }
    }
}

impl Opener {
    async fn open(&self, options: MySqlConnectOptions) -> sqlx::Result<Session> {
        let refusals = self.shared.crowd.refusals();
        let options = match refusals {
            0 => options,
            times => options.statement_cache_capacity(PREPARED[times.min(PREPARED.len()) - 1]),
        };
        let mut connection = options.connect().await.map_err(fault::explained)?;
        check(&mut connection, self.shared.hosts.wanted()).await?;
        let settings = settings(self.purpose, &self.shared.deadline);
        if self.purpose == Use::Business {
            // To sqlx one transaction that is open as long as the connection, so that one within it is a savepoint. What begins and ends on
            // the server is ours to say. Dropped, it would roll back, to sqlx; this one never ends.
            std::mem::forget(connection.begin_with(AssertSqlSafe(format!("{settings}; start transaction"))).await?);
            connection.execute("rollback").await?;
        } else {
            connection.execute(AssertSqlSafe(settings)).await?;
        }
        let id = who(&mut connection).await?;
        Ok(Session { connection, purpose: self.purpose, id, kept: false, refusals })
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

/// Which server it is, and what time it is there.
const SERVER: &str = "concat_ws(':', @@hostname, @@port, @@server_id), cast(unix_timestamp() as char)";

/// Sessions are numbered from the server's start: ours is known by the server and by when it began.
async fn who(connection: &mut MySqlConnection) -> sqlx::Result<Arc<SessionId>> {
    let who = format!("select {SERVER}, cast(connection_id() as char)");
    let row = sqlx::raw_sql(AssertSqlSafe(who)).fetch_one(connection).await?;
    let (server, now): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
    let number = row.try_get::<&str, _>(2)?.parse().unwrap_or_default();
    Ok(Arc::new(SessionId { number, since: format!("{now} {server}").into() }))
}

/// What a session does. MySQL says it in whole seconds, which have passed or are passing; a user without privileges sees what is its own.
async fn state(connection: &mut MySqlConnection, id: &SessionId) -> sqlx::Result<SessionState> {
    let look = format!(
        "show global status like 'Uptime'; select {SERVER}; \
         select command, cast(/*M!100000 time_ms */ /*!80000 time * 1000 + 1000 */ as signed) \
         from information_schema.processlist where id = {}",
        id.number
    );
    let rows = sqlx::raw_sql(AssertSqlSafe(look)).fetch_all(connection).await?;
    let [uptime, server, session] = &rows[..] else { return Ok(SessionState::Gone) };
    if !is_same(id, uptime, server)? {
        return Ok(SessionState::Gone);
    }
    Ok(match session.try_get::<&str, _>(0)? {
        "Sleep" => SessionState::Idle(Duration::from_millis(session.try_get::<i64, _>(1)?.unsigned_abs())),
        _ => SessionState::Working,
    })
}

/// Is this the server, and was it started before the session began? Seconds are whole ones.
fn is_same(id: &SessionId, uptime: &MySqlRow, server: &MySqlRow) -> sqlx::Result<bool> {
    let seconds = |text: &str| text.parse::<i64>().unwrap_or_default();
    let (began, there) = id.since.split_once(' ').unwrap_or_default();
    let started = seconds(server.try_get(1)?) - seconds(uptime.try_get(1)?);
    Ok(server.try_get::<&str, _>(0)? == there && started <= seconds(began) + 1)
}

impl Shared {
    /// What a session does, asked through a connection beside all others.
    pub(crate) async fn session_state(&self, id: &SessionId) -> sqlx::Result<SessionState> {
        let asked = async {
            let _turn = self.hosts.beside().await?;
            let mut beside = self.hosts.options().await?.connect().await.map_err(fault::explained)?;
            let state = state(&mut beside, id).await?;
            beside.close().await?;
            Ok(state)
        };
        self.deadline.within(asked).await
    }

    /// Waits for a statement of an operator's, which may be long, for as long as the server works on it.
    pub(crate) async fn patient<T>(
        &self,
        id: Arc<SessionId>,
        answer: impl Future<Output = sqlx::Result<T>>,
    ) -> sqlx::Result<T> {
        let works = || async { matches!(self.session_state(&id).await, Ok(SessionState::Working)) };
        self.deadline.while_working(answer, works).await
    }

    /// Waits for what a few of them answer, all together.
    pub(crate) async fn patiently<T>(
        &self,
        id: Arc<SessionId>,
        answers: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.patient(id, async { Ok(answers.await) }).await?
    }

    /// Ends a session that nobody can reach any more, if it is still there and still what it was.
    async fn end_session(self: &Arc<Self>, id: &Arc<SessionId>) {
        let (shared, id) = (self.clone(), id.clone());
        let end = move || {
            let (shared, id) = (shared.clone(), id.clone());
            async move { shared.kill(&id).await }
        };
        end_orphan(&self.deadline, end).await;
    }

    async fn kill(&self, id: &SessionId) -> sqlx::Result<()> {
        let _turn = self.hosts.beside().await?;
        let mut beside = self.hosts.options().await?.connect().await.map_err(fault::explained)?;
        if state(&mut beside, id).await? != SessionState::Gone {
            beside.execute(AssertSqlSafe(format!("kill {}", id.number))).await?;
        }
        Ok(())
    }

    /// Ends the transaction in a session with this word; the next one may have the session then. Without an answer the outcome is unknown, and
    /// the session is ended before anybody looks at what it has locked.
    pub(crate) async fn end(self: &Arc<Self>, mut lent: Lent<Opener>, word: &'static str) -> sqlx::Result<()> {
        match self.deadline.within(lent.execute(word)).await {
            // A transaction within the transaction that could not begin takes ours with it, to sqlx: the next one would be no savepoint.
            Ok(_) if lent.purpose == Use::Own || lent.is_in_transaction() => give_back(lent),
            Ok(_) => lent.close(),
            Err(error) => {
                if matches!(&error, sqlx::Error::Io(error) if error.kind() == ErrorKind::TimedOut) {
                    self.abandon(lent).await;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Closes a connection without waiting for anything on it, and ends its session.
    pub(crate) async fn abandon(self: &Arc<Self>, lent: Lent<Opener>) {
        let id = lent.id.clone();
        lent.close();
        // In a box: it is large and rare, and whoever commits or rolls back is moved with it for each message.
        Box::pin(self.end_session(&id)).await;
    }
}

/// How often the server has refused to keep one more prepared statement; those of the same moment are one.
#[derive(Debug, Default)]
pub(crate) struct Crowd(Mutex<(usize, Option<Instant>)>);

/// Statements that were refused within this time belong together.
const MOMENT: Duration = Duration::from_secs(5);

impl Crowd {
    pub(crate) fn refusals(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// One more; is it the first?
    pub(crate) fn note(&self) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.1.is_none_or(|last| last.elapsed() > MOMENT) {
            *known = (known.0 + 1, Some(Instant::now()));
            return known.0 == 1;
        }
        false
    }
}

/// A short transaction of ichido's own.
pub struct Own {
    pub(crate) lent: Lent<Opener>,
    pub(crate) shared: Arc<Shared>,
}

impl Own {
    /// Who works for it at the server.
    pub(crate) fn id(&self) -> Arc<SessionId> {
        self.lent.id.clone()
    }

    pub(crate) async fn end(self, word: &'static str) -> sqlx::Result<()> {
        self.shared.end(self.lent, word).await
    }
}

impl Deref for Own {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.lent
    }
}

impl DerefMut for Own {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.lent
    }
}

/// For the next one, outside of any transaction.
pub(crate) fn give_back(mut lent: Lent<Opener>) {
    lent.kept = true;
    lent.give_back();
}
