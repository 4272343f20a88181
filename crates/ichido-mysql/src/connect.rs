//! Connections. Business transactions and ichido's own work have pools of their own: a worker that holds its transaction
//! never waits for a claim, and a claim never waits for the workers.

use std::{
    error::Error as StdError,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use ichido::{
    Error, Queue, Result,
    process::WakeUps,
    store::{Database, Wakeups},
};
use ichido_sql::Known;
use sqlx::{
    AssertSqlSafe, Executor, MySqlConnection, MySqlPool, Row,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
};
use tokio::sync::{OnceCell, Semaphore};

use crate::{Tx, fault, schema, sql_action::Rendered, statements::Statements};

/// Of the pool, this many connections are ichido's own: one claims, one parks and releases.
const OWN: u32 = 2;

/// Nobody waits longer than this for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);

/// Nor for a row that somebody else has locked, in seconds.
const LOCK: u32 = 5;

/// A session that idles in its transaction this many seconds is ended by the server, and its rows can be rescued.
const IDLE: u32 = 600;

/// A MariaDB or MySQL database that holds the business tables and ichido's own.
#[derive(Clone)]
pub struct MySql {
    pub(crate) business: MySqlPool,
    /// As many as the business pool has connections: who waits for other transactions waits here, for as long as it takes,
    /// and the pool's timeout is for connecting only.
    pub(crate) free: Arc<Semaphore>,
    pub(crate) own: MySqlPool,
    pub(crate) shared: Arc<Shared>,
}

/// What all clones of a store share.
pub(crate) struct Shared {
    options: MySqlConnectOptions,
    single_writer: bool,
    pub(crate) wake_ups: WakeUps,
    pub(crate) known: Known<Statements>,
    pub(crate) mariadb: OnceCell<bool>,
    pub(crate) rendered: Rendered,
    /// Has a session ever got a limit for its statements?
    pub(crate) limited: AtomicBool,
}

impl Database for MySql {
    type Tx = Tx;
    type Connection = MySqlConnection;

    ichido_sql::database!(fault::is_fault);

    fn is_interruption(cause: &(dyn StdError + 'static)) -> bool {
        fault::is_interruption(cause)
    }

    /// The same database and queues through one connection of its own.
    fn apart(&self) -> Self {
        MySql::with(self.shared.clone(), 1, 1)
    }

    /// Does the server answer? After a restart every pooled connection is dead once; that is not an answer yet.
    async fn ping(&self) -> Result<()> {
        let mut last = Ok(());
        for _ in 0..=OWN {
            last = sqlx::query("select 1").execute(&self.own).await.map(|_| ());
            if last.is_ok() {
                break;
            }
        }
        last.map_err(|error| self.unreachable(error))
    }
}

impl Wakeups for MySql {
    fn wake_ups(&self) -> &WakeUps {
        &self.shared.wake_ups
    }
}

impl MySql {
    /// The database at this URL, with room for `pool` connections, two of which are ichido's own. Nothing is connected yet.
    /// A Galera cluster is refused unless `single_writer` says that all writes go to one node.
    ///
    /// # Errors
    /// [`Error::Setup`] if the URL cannot be read or the schema cannot be a name.
    pub fn new(url: &str, schema: Option<&str>, pool: u32, single_writer: bool, queues: Vec<Queue>) -> Result<Self> {
        let url = url.replacen("mariadb://", "mysql://", 1);
        let options: MySqlConnectOptions = url.parse().map_err(|error: sqlx::Error| {
            Error::Setup(format!(
                "the database URL is invalid ({error}); write one like mysql://user:password@host:3306/name"
            ))
        })?;
        if options.get_database().is_none() {
            return Err(Error::Setup(
                "the database URL names no database; write one like mysql://user:password@host:3306/name".into(),
            ));
        }
        let wake_ups = WakeUps::at(&address(&options));
        let shared = Shared {
            options,
            known: Known::new(queues, schema::tables(schema)?),
            single_writer,
            wake_ups,
            mariadb: OnceCell::new(),
            rendered: Rendered::default(),
            limited: AtomicBool::new(false),
        };
        Ok(MySql::with(Arc::new(shared), pool.saturating_sub(OWN).max(1), OWN))
    }

    fn with(shared: Arc<Shared>, business: u32, own: u32) -> Self {
        // Without autocommit nothing that an action writes after its transaction has ended can commit by itself: a
        // ROLLBACK takes it back (docs/invariants.md, "A COMMIT that returns Ok proves nothing").
        let free = Arc::new(Semaphore::new(business as usize));
        MySql { business: pool(business, &shared, false), free, own: pool(own, &shared, true), shared }
    }

    /// Where the database is, without the password.
    pub(crate) fn address(&self) -> String {
        address(&self.shared.options)
    }

    /// An error of connecting or beginning, which is never a message's.
    pub(crate) fn unreachable(&self, error: sqlx::Error) -> Error {
        Error::Unreachable { address: self.address(), source: error.into() }
    }

    pub(crate) async fn make_statements(&self) -> Result<Vec<Statements>> {
        let Known { configured, tables, .. } = &self.shared.known;
        let mut connection = self.own.acquire().await.map_err(|error| self.unreachable(error))?;
        // The second one is opened now too, before the workers take the last that the server admits.
        let spare = if self.own.options().get_max_connections() > 1 { Some(self.own.acquire().await) } else { None };
        drop(spare.transpose().map_err(|error| self.unreachable(error))?);
        self.refuse_cluster(&mut connection).await?;
        schema::check(&mut connection, tables).await?;
        let mut made = Vec::new();
        for queue in configured {
            made.push(crate::catalog::look(&mut connection, tables, queue).await?);
        }
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

fn pool(size: u32, shared: &Shared, autocommit: bool) -> MySqlPool {
    // Connections are kept: one that was given up may not be had again. No test before use: a dead connection shows at BEGIN, where it costs nobody an attempt, and the test a round trip.
    MySqlPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .after_connect(move |connection, _| Box::pin(set_up(connection, autocommit)))
        .connect_lazy_with(shared.options.clone())
}

/// Every transaction is READ COMMITTED: at REPEATABLE READ a claim holds up inserts.
async fn set_up(connection: &mut MySqlConnection, autocommit: bool) -> Result<(), sqlx::Error> {
    connection.execute("set session transaction isolation level read committed").await?;
    if autocommit {
        let wait = format!("set session innodb_lock_wait_timeout = {LOCK}");
        connection.execute(AssertSqlSafe(wait)).await?;
    } else {
        connection.execute("set session autocommit = 0").await?;
        // MySQL has no such setting.
        let idle = format!("set session idle_transaction_timeout = {IDLE}");
        if let Err(error) = connection.execute(AssertSqlSafe(idle)).await {
            tracing::debug!(%error, "cannot limit idle transactions");
        }
    }
    Ok(())
}

/// An error of the schema or the catalog: what the server refuses there, somebody must change.
pub(crate) fn setup_error(error: sqlx::Error) -> Error {
    if fault::is_fault(&error) { error.into() } else { Error::Setup(error.to_string()) }
}

fn address(options: &MySqlConnectOptions) -> String {
    format!("{}:{}/{}", options.get_host(), options.get_port(), options.get_database().unwrap_or_default())
}
