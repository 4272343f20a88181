//! Opens connections: to the first server of the URL that answers and is fit, in the way that it is reached (`pooler`), with the settings that
//! its users need. `ichido_sql::Connections` counts them.

use std::{sync::Arc, time::Duration};

use ichido::store::SessionId;
use ichido_sql::{Connector, Deadline, end_orphan};
use sqlx::{AssertSqlSafe, Executor as _, Row, postgres::PgConnectOptions};
use tokio::runtime::Handle;

use crate::{
    hosts::{Hosts, host, named},
    pooler::{KEEPALIVES, Way},
    quote,
    session::Session,
};

/// Opens connections that are prepared for one kind of use.
pub(crate) struct PgConnector {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) settings: &'static [(&'static str, &'static str)],
    pub(crate) way: Way,
    pub(crate) deadline: Deadline,
}

impl Connector for PgConnector {
    type Connection = Session;
    type Error = sqlx::Error;

    async fn connect(&self, timeout: Duration) -> sqlx::Result<Session> {
        self.hosts.first(timeout, host, |options| self.open(named(options))).await
    }

    /// What it has locked must be free before its message can run again.
    fn orphaned(&self, session: Session) {
        let Some(id) = session.id.clone() else { return };
        drop(session);
        if let Ok(runtime) = Handle::try_current() {
            let (hosts, deadline) = (self.hosts.clone(), self.deadline.clone());
            runtime.spawn(async move { end_session(&hosts, &deadline, &id).await });
        }
    }
}

impl PgConnector {
    async fn open(&self, options: PgConnectOptions) -> sqlx::Result<Session> {
        self.hosts.check(&options).await?;
        let connection = self.way.connect(&self.direct(&options), &pooled(&options)).await?;
        Session::new(connection, self.way.is_pooled()).await
    }

    fn direct(&self, options: &PgConnectOptions) -> PgConnectOptions {
        let mark = [("ichido.direct", self.way.mark())];
        options.clone().options(KEEPALIVES.iter().chain(self.settings).chain(&mark).copied())
    }
}

/// sqlx prepares under a name even what it does not keep; BEGIN makes the names free.
fn pooled(options: &PgConnectOptions) -> PgConnectOptions {
    options.clone().extra_float_digits(None).statement_cache_capacity(0)
}

/// Ends a session that nobody can reach any more, if it is still there and still what it was.
pub(crate) async fn end_session(hosts: &Arc<Hosts>, deadline: &Deadline, id: &Arc<SessionId>) {
    let (hosts, id) = (hosts.clone(), id.clone());
    let end = move || {
        let (hosts, id) = (hosts.clone(), id.clone());
        async move { terminate(&hosts, &id).await }
    };
    end_orphan(deadline, end).await;
}

async fn terminate(hosts: &Hosts, id: &SessionId) -> sqlx::Result<()> {
    let since = quote::literal(&id.since).map_err(|error| sqlx::Error::Protocol(error.to_string()))?;
    let end = format!("select pg_terminate_backend(pid) from pg_stat_activity where {}", is_session(id, &since));
    let _turn = hosts.beside().await?;
    let mut fresh = hosts.connect().await?;
    if !fresh.fetch_all(sqlx::raw_sql(AssertSqlSafe(end))).await?.is_empty() {
        tracing::debug!(session = id.number, "ended a session whose connection fell silent");
    }
    Ok(())
}

/// The session is known by when it began or, behind a pooler, by when its transaction did.
pub(crate) fn is_session(id: &SessionId, since: &str) -> String {
    format!(
        "pid = {} and {since} in (extract(epoch from backend_start)::text, extract(epoch from xact_start)::text)",
        id.number
    )
}

/// What a session is called at the server, from a row with both parts.
pub(crate) fn session_id(row: &sqlx::postgres::PgRow) -> sqlx::Result<Arc<SessionId>> {
    let number: i32 = row.try_get_unchecked(0)?;
    Ok(Arc::new(SessionId { number: i64::from(number), since: row.try_get_unchecked::<&str, _>(1)?.into() }))
}
