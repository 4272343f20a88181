//! The store and its connections. Business transactions and ichido's own work have connections of their own: a worker that holds its
//! transaction never waits for a claim, and a claim never waits for the workers. `session` opens and ends them.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use ichido::{
    Error, Queue,
    error::Result,
    process::WakeUps,
    store::{By, ConnectionCounts, Database, Wakeups},
};
use ichido_sql::{Connections, Deadline, Hosts, Known, Lent, OWN, Plan, Tables};
use sqlx::{AssertSqlSafe, Executor, MySqlConnection, Row, mysql::MySqlConnectOptions, mysql::MySqlRow};
use tokio::sync::OnceCell;

use crate::{
    MySqlBuilder, Tx, fault, hosts, quote, schema,
    session::{Crowd, Opener, Statement, Use, give_back},
    sql_action::Rendered,
    statements::Statements,
};

/// A MariaDB or MySQL database that holds the business tables and ichido's own.
#[derive(Clone)]
pub struct MySql {
    pub(crate) business: Connections<Opener>,
    pub(crate) own: Connections<Opener>,
    pub(crate) shared: Arc<Shared>,
    /// Who changes something by hand through it.
    pub(crate) by: Arc<By>,
}

/// What all clones of a store share.
pub(crate) struct Shared {
    pub(crate) hosts: Hosts<MySqlConnectOptions>,
    single_writer: bool,
    pub(crate) deadline: Deadline,
    pub(crate) wake_ups: WakeUps,
    pub(crate) known: Known<Statements>,
    pub(crate) mariadb: OnceCell<bool>,
    pub(crate) rendered: Rendered,
    /// Has a session ever got a limit for its statements?
    pub(crate) limited: AtomicBool,
    /// Does the server refuse to keep one more prepared statement?
    pub(crate) crowd: Crowd,
    /// So many business connections are opened before anybody needs them.
    early: u32,
}

impl Database for MySql {
    type Tx = Tx;
    type Connection = MySqlConnection;

    ichido_sql::database!(fault::is_fault);

    ichido_sql::server_database!(fault::is_own_fault);

    fn connections(&self) -> ConnectionCounts {
        ConnectionCounts::of_server(self.business.size(), self.own.size(), false)
    }

    /// The same database and queues through one connection of its own.
    fn apart(&self) -> Self {
        MySql::with(&self.shared, 1, 1)
    }

    /// Does the server answer? It must prepare the statement, and may refuse that to us as to the action that failed before.
    async fn ping(&self) -> Result<()> {
        match self.rows_alone(|| sqlx::query("select 1").persistent(false)).await {
            Err(error) if is_crowded(&error) => Ok(()),
            answer => answer.map(|_| ()).map_err(|error| self.unreachable(error)),
        }
    }
}

impl Wakeups for MySql {
    fn wake_ups(&self) -> &WakeUps {
        &self.shared.wake_ups
    }
}

impl MySql {
    /// The database at this URL, with room for `pool` connections (at least three), two of which are ichido's own: the short form of
    /// [`MySql::builder`]. Nothing is connected yet. A Galera cluster is refused unless `single_writer` says that all writes go to one node.
    ///
    /// # Errors
    /// [`Error::Setup`] if the URL cannot be read or the schema cannot be a name.
    pub fn new(url: &str, schema: Option<&str>, pool: u32, single_writer: bool, queues: Vec<Queue>) -> Result<Self> {
        let builder = MySql::builder().url(url).queues(queues).connections(OWN, pool.max(OWN + 1));
        schema.into_iter().fold(builder.single_writer(single_writer), MySqlBuilder::schema).build()
    }

    pub(crate) fn planned(mut plan: Plan<MySqlConnectOptions>, single_writer: bool) -> Result<Self> {
        plan.check(OWN + 1)?;
        let hosts = hosts::hosts(&mut plan)?;
        let wake_ups = WakeUps::at(&hosts::address(&hosts));
        let (min, max) = plan.connections;
        let shared = Shared {
            hosts,
            known: Known::new(plan.queues, Tables::within(plan.schema.as_deref(), quote::name)?),
            single_writer,
            deadline: plan.timeout.map(Deadline::new).unwrap_or_default(),
            wake_ups,
            mariadb: OnceCell::new(),
            rendered: Rendered::default(),
            limited: AtomicBool::new(false),
            crowd: Crowd::default(),
            early: min.saturating_sub(OWN),
        };
        Ok(MySql::with(&Arc::new(shared), max - OWN, OWN))
    }

    /// How long a statement of ichido's own, COMMIT or ROLLBACK may stay unanswered: 15 s if nothing else is said.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.shared.deadline.set(timeout);
        self
    }

    /// Its servers, host and port, that are not on this host and whose certificate is not verified: it is if `ssl-mode` is `VERIFY_CA` or `VERIFY_IDENTITY`.
    #[must_use]
    pub fn unverified(&self) -> Vec<String> {
        hosts::unverified(&self.shared.hosts)
    }

    fn with(shared: &Arc<Shared>, business: u32, own: u32) -> Self {
        let connections =
            |size, purpose| Connections::new(size, Opener { shared: shared.clone(), purpose }, shared.deadline.clone());
        MySql {
            business: connections(business, Use::Business),
            own: connections(own, Use::Own),
            shared: shared.clone(),
            by: Arc::default(),
        }
    }

    /// A connection in which nothing has begun.
    pub(crate) async fn take(&self, of: &Connections<Opener>) -> sqlx::Result<Lent<Opener>> {
        loop {
            let lent = of.take().await?;
            if lent.refusals == self.shared.crowd.refusals() {
                return Ok(lent);
            }
        }
    }

    /// A connection in which a transaction has begun with these words. One that the server has closed meanwhile costs nothing but the next.
    pub(crate) async fn begin_with(&self, of: &Connections<Opener>, words: &str) -> sqlx::Result<Lent<Opener>> {
        loop {
            let mut lent = self.take(of).await?;
            match self.within(lent.execute(AssertSqlSafe(words.to_owned()))).await {
                Ok(_) => return Ok(lent),
                Err(error) if lent.kept && fault::is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the answer to a statement of ours; silence is an error.
    pub(crate) async fn within<T>(&self, answer: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
        let answer = self.shared.deadline.within(answer).await;
        if answer.as_ref().is_err_and(is_crowded) {
            self.keep_fewer_prepared();
        }
        answer
    }

    /// Waits for what a few statements of ours answer, all together, and no longer than for one.
    pub(crate) async fn timed<T>(&self, answers: impl Future<Output = Result<T>>) -> Result<T> {
        let answers = self.within(async { Ok(answers.await) }).await?;
        if let Err(Error::Failed(cause)) = &answers
            && cause.downcast_ref().is_some_and(is_crowded)
        {
            self.keep_fewer_prepared();
        }
        answers
    }

    /// Reads, outside of any transaction.
    pub(crate) async fn rows_alone(&self, read: impl Fn() -> Statement<'static>) -> sqlx::Result<Vec<MySqlRow>> {
        loop {
            let mut lent = self.take(&self.own).await?;
            match self.within(read().fetch_all(&mut **lent)).await {
                Ok(rows) => {
                    give_back(lent);
                    return Ok(rows);
                }
                Err(error) if lent.kept && fault::is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs one statement as a transaction of its own; how many rows it changed.
    pub(crate) async fn run_alone(&self, statement: Statement<'_>) -> sqlx::Result<u64> {
        let mut lent = self.take(&self.own).await?;
        let changed = self.within(statement.execute(&mut **lent)).await?.rows_affected();
        give_back(lent);
        Ok(changed)
    }

    /// The server keeps no more prepared statements: this process frees its own, and keeps fewer from now on.
    fn keep_fewer_prepared(&self) {
        if self.shared.crowd.note() {
            tracing::warn!(
                "the server keeps no more prepared statements (max_prepared_stmt_count): this process does with fewer, which is slower"
            );
        }
        self.business.close_idle();
        self.own.close_idle();
    }

    /// Where the database is, without the password.
    pub(crate) fn address(&self) -> String {
        hosts::address(&self.shared.hosts)
    }

    /// An error of connecting or beginning, which is never a message's.
    pub(crate) fn unreachable(&self, error: sqlx::Error) -> Error {
        Error::Unreachable { address: self.address(), source: error.into() }
    }

    pub(crate) async fn make_statements(&self) -> Result<Vec<Statements>> {
        let Known { configured, tables, .. } = &self.shared.known;
        let mut lent = self.take(&self.own).await.map_err(|error| self.unreachable(error))?;
        // The second one is opened now too, before the workers take the last that the server admits.
        if self.own.size() > 1 {
            give_back(self.take(&self.own).await.map_err(|error| self.unreachable(error))?);
        }
        self.timed(self.refuse_cluster(&mut lent)).await?;
        self.timed(schema::check(&mut lent, tables)).await?;
        let mut made = Vec::new();
        for queue in configured {
            made.push(self.timed(crate::catalog::look(&mut lent, tables, queue)).await?);
        }
        give_back(lent);
        self.business.open(self.shared.early).await.map_err(|error| self.unreachable(error))?;
        Ok(made)
    }

    /// Writes to several nodes of a Galera cluster can be lost; one writer is fine.
    async fn refuse_cluster(&self, connection: &mut MySqlConnection) -> Result<()> {
        let on = sqlx::query("show variables like 'wsrep_on'").fetch_optional(connection).await.map_err(setup_error)?;
        let on = on.map(|row| row.try_get::<String, _>(1)).transpose()?.is_some_and(|value| value == "ON");
        if on && !self.shared.single_writer {
            let text = "this is a Galera cluster, where writes to several nodes can be lost; if all of them go to one node, set database.single_writer = true";
            return Err(Error::Setup(text.into()));
        }
        Ok(())
    }
}

/// Does the server refuse to keep one more prepared statement?
fn is_crowded(error: &sqlx::Error) -> bool {
    fault::number(error) == Some(fault::MOST_PREPARED)
}

/// An error of the schema or the catalog: what the server refuses there, somebody must change.
pub(crate) fn setup_error(error: sqlx::Error) -> Error {
    if fault::is_fault(&error) { error.into() } else { Error::Setup(Error::from(error).to_string()) }
}
