//! The store. Business transactions and ichido's own work have connections of their own: a worker that holds its transaction
//! never waits for a claim, and a claim never waits for the workers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ichido::{
    Error, Queue,
    error::Result,
    process::WakeUps,
    store::{By, ConnectionCounts, Database, SessionId, SessionState, Transactions as _},
};
use ichido_sql::{Connections, Deadline, Known, OWN, Plan, Tables};
use sqlx::{PgConnection, postgres::PgConnectOptions};

use crate::{
    PostgresBuilder, Tx,
    connector::PgConnector,
    fault,
    hosts::Hosts,
    pooler::{self, Own, OwnTx, Way},
    quote, schema,
    sql_action::Rendered,
    statements::Statements,
    transaction,
};

/// Outside our own BEGIN READ WRITE nothing can be written through a business connection: an action that ends its
/// transaction cannot leave writes behind that commit by themselves (docs/invariants.md, "A COMMIT that returns Ok
/// proves nothing").
const GUARDED: [(&str, &str); 2] =
    [("default_transaction_read_only", "on"), ("idle_in_transaction_session_timeout", transaction::IDLE)];

/// A claim is one statement without BEGIN: REPEATABLE READ as the server's or the role's default would make it fail under
/// load, and READ ONLY at once.
const PLAIN: [(&str, &str); 2] =
    [("default_transaction_isolation", "read committed"), ("default_transaction_read_only", "off")];

/// A PostgreSQL database that holds the business tables and ichido's own.
#[derive(Clone)]
pub struct Postgres {
    pub(crate) business: Connections<PgConnector>,
    pub(crate) own: Own,
    pub(crate) shared: Arc<Shared>,
    /// Who changes something by hand through it.
    pub(crate) by: Arc<By>,
}

/// What all clones of a store share.
pub(crate) struct Shared {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) deadline: Deadline,
    way: Way,
    warned: AtomicBool,
    pub(crate) wake_ups: WakeUps,
    pub(crate) notify: AtomicBool,
    pub(crate) known: Known<Statements>,
    pub(crate) rendered: Rendered,
    /// So many business connections are opened before anybody needs them.
    early: u32,
}

impl Database for Postgres {
    type Tx = Tx;
    type Connection = PgConnection;

    ichido_sql::database!(fault::is_fault);

    ichido_sql::server_database!(fault::is_own_fault);

    fn connections(&self) -> ConnectionCounts {
        let listens = self.shared.notify.load(Ordering::Relaxed) && !self.own.is_pooled();
        ConnectionCounts::of_server(self.business.size(), self.own.0.size(), listens)
    }

    /// The same database and queues through one connection of its own.
    fn apart(&self) -> Self {
        Postgres::with(self.shared.clone(), 1, 1)
    }

    /// Does the server answer? After a restart every connection that is kept is dead; that is not an answer yet.
    async fn ping(&self) -> Result<()> {
        let mut answer = self.own.execute(sqlx::query("select 1")).await;
        if answer.is_err() {
            self.own.0.close_idle();
            answer = self.own.execute(sqlx::query("select 1")).await;
        }
        answer.map(|_| ()).map_err(|error| self.unreachable(error))
    }
}

impl Postgres {
    /// The database at this URL, with room for `pool` connections (at least three), two of which are ichido's own: the short form of
    /// [`Postgres::builder`]. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Setup`] if the URL cannot be read or the schema cannot be a name.
    pub fn new(url: &str, schema: Option<&str>, pool: u32, queues: Vec<Queue>) -> Result<Self> {
        let builder = Postgres::builder().url(url).queues(queues).connections(OWN, pool.max(OWN + 1));
        schema.into_iter().fold(builder, PostgresBuilder::schema).build()
    }

    pub(crate) fn planned(mut plan: Plan<PgConnectOptions>) -> Result<Self> {
        plan.check(OWN + 1)?;
        let hosts = Hosts::planned(&mut plan)?;
        let wake_ups = WakeUps::at(&hosts.address());
        let (min, max) = plan.connections;
        let shared = Shared {
            hosts: Arc::new(hosts),
            deadline: plan.timeout.map(Deadline::new).unwrap_or_default(),
            way: Way::default(),
            warned: AtomicBool::new(false),
            known: Known::new(plan.queues, Tables::within(plan.schema.as_deref(), quote::name)?),
            wake_ups,
            notify: AtomicBool::new(true),
            rendered: Rendered::default(),
            early: min.saturating_sub(OWN),
        };
        Ok(Postgres::with(Arc::new(shared), max - OWN, OWN))
    }

    /// How long a statement of ichido's own, COMMIT or ROLLBACK may stay unanswered: 15 s if nothing else is said.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.shared.deadline.set(timeout);
        self
    }

    /// Its servers, host and port, that are not on this host and whose certificate is not verified: it is if `sslmode` is verify-ca or verify-full.
    #[must_use]
    pub fn unverified(&self) -> Vec<String> {
        self.shared.hosts.unverified()
    }

    fn with(shared: Arc<Shared>, business: u32, own: u32) -> Self {
        let Shared { hosts, deadline, way, .. } = &*shared;
        let connections = |size, settings| {
            let (hosts, way, deadline) = (hosts.clone(), way.clone(), deadline.clone());
            Connections::new(size, PgConnector { hosts, settings, way, deadline: deadline.clone() }, deadline)
        };
        let (business, own) = (connections(business, &GUARDED), Own(connections(own, &PLAIN)));
        Postgres { business, own, shared, by: Arc::default() }
    }

    /// Waits for what a few statements of ours answer, all together, and no longer than for one.
    pub(crate) async fn timed<T>(&self, answers: impl Future<Output = Result<T>>) -> Result<T> {
        self.shared.deadline.within(async { Ok::<_, sqlx::Error>(answers.await) }).await?
    }

    /// Waits for a statement of an operator's, which may be long, for as long as the server works on it.
    pub(crate) async fn patient<T>(
        &self,
        session: Option<Arc<SessionId>>,
        answer: impl Future<Output = sqlx::Result<T>>,
    ) -> sqlx::Result<T> {
        // Behind a pooler nobody knows whom to ask.
        let Some(session) = session else { return answer.await };
        let works = || async { matches!(self.session_state(&session).await, Ok(SessionState::Working)) };
        self.shared.deadline.while_working(answer, works).await
    }

    /// Waits for what a few of them answer, all together.
    pub(crate) async fn patiently<T>(
        &self,
        session: Option<Arc<SessionId>>,
        answers: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.patient(session, async { Ok(answers.await) }).await?
    }

    /// A short transaction that only reads.
    pub(crate) async fn begin_look(&self) -> Result<OwnTx> {
        self.own.begin(pooler::LOOK).await.map_err(|error| self.unreachable(error))
    }

    /// Says once what a pooler on the way to the server makes possible.
    pub(crate) async fn warn_of_pooler(&self) -> Result<()> {
        if let Some(warning) = self.own.unguarded().await?
            && !self.shared.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("{warning}");
        }
        Ok(())
    }

    /// Where the database is, without the password.
    pub(crate) fn address(&self) -> String {
        self.shared.hosts.address()
    }

    /// An error of connecting or beginning, which is never a message's.
    pub(crate) fn unreachable(&self, error: sqlx::Error) -> Error {
        Error::Unreachable { address: self.address(), source: error.into() }
    }

    pub(crate) async fn make_statements(&self) -> Result<Vec<Statements>> {
        let Known { configured, tables, .. } = &self.shared.known;
        let mut look = self.begin_look().await?;
        // The second one is opened now too, before the workers take the last that the server admits.
        if self.own.0.size() > 1 && !self.own.is_pooled() {
            self.own.0.take().await.map_err(|error| self.unreachable(error))?.give_back();
        }
        self.timed(schema::check(&mut look, tables)).await?;
        let mut made = Vec::new();
        for queue in configured {
            made.push(self.timed(crate::catalog::look(&mut look, tables, queue)).await?);
        }
        look.rollback().await?;
        self.business.open(self.shared.early).await.map_err(|error| self.unreachable(error))?;
        Ok(made)
    }
}

/// An error of the schema or the catalog: what the server refuses there, somebody must change.
pub(crate) fn setup_error(error: sqlx::Error) -> Error {
    if fault::is_fault(&error) { error.into() } else { Error::Setup(Error::from(error).to_string()) }
}
