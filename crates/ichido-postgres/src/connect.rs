//! Connections. Business transactions and ichido's own work have pools of their own: a worker that holds its transaction
//! never waits for a claim, and a claim never waits for the workers.

use std::{
    error::Error as StdError,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ichido::{Error, Queue, Result, process::WakeUps, store::Database};
use ichido_sql::Known;
use sqlx::{PgConnection, Transaction, postgres::PgConnectOptions};
use tokio::sync::Semaphore;

use crate::{
    Tx, fault,
    pooler::{self, Connections, Way},
    schema,
    session::Sessions,
    sql_action::Rendered,
    statements::Statements,
    transaction,
};

/// Of the pool, this many connections are ichido's own: one claims, one parks and releases.
const OWN: u32 = 2;

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
    pub(crate) business: Sessions,
    /// As many as the business pool has connections: who waits for other transactions waits here, for as long as it takes,
    /// and the pool's timeout is for connecting only.
    pub(crate) free: Arc<Semaphore>,
    pub(crate) own: Connections,
    pub(crate) shared: Arc<Shared>,
}

/// What all clones of a store share.
pub(crate) struct Shared {
    options: PgConnectOptions,
    way: Way,
    warned: AtomicBool,
    pub(crate) wake_ups: WakeUps,
    pub(crate) notify: AtomicBool,
    pub(crate) known: Known<Statements>,
    pub(crate) rendered: Rendered,
}

impl Database for Postgres {
    type Tx = Tx;
    type Connection = PgConnection;

    ichido_sql::database!(fault::is_fault);

    fn is_interruption(cause: &(dyn StdError + 'static)) -> bool {
        fault::is_interruption(cause)
    }

    /// The same database and queues through one connection of its own.
    fn apart(&self) -> Self {
        Postgres::with(self.shared.clone(), 1, 1)
    }

    /// Does the server answer? After a restart every pooled connection is dead once; that is not an answer yet.
    async fn ping(&self) -> Result<()> {
        let mut last = Ok(());
        for _ in 0..=OWN {
            last = self.own.execute(sqlx::query("select 1")).await.map(|_| ());
            if last.is_ok() {
                break;
            }
        }
        last.map_err(|error| self.unreachable(error))
    }
}

impl Postgres {
    /// The database at this URL, with room for `pool` connections, two of which are ichido's own. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Setup`] if the URL cannot be read or the schema cannot be a name.
    pub fn new(url: &str, schema: Option<&str>, pool: u32, queues: Vec<Queue>) -> Result<Self> {
        let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| {
            Error::Setup(format!(
                "the database URL is invalid ({error}); write one like postgres://user:password@host:5432/name"
            ))
        })?;
        let wake_ups = WakeUps::at(&address(&options));
        let shared = Shared {
            options: options.application_name("ichido"),
            way: Way::default(),
            warned: AtomicBool::new(false),
            known: Known::new(queues, schema::tables(schema)?),
            wake_ups,
            notify: AtomicBool::new(true),
            rendered: Rendered::default(),
        };
        Ok(Postgres::with(Arc::new(shared), pool.saturating_sub(OWN).max(1), OWN))
    }

    fn with(shared: Arc<Shared>, business: u32, own: u32) -> Self {
        let pool = |size, settings| Connections::new(size, shared.options.clone(), settings, shared.way.clone());
        let free = Arc::new(Semaphore::new(business as usize));
        Postgres { business: Sessions::new(pool(business, &GUARDED)), free, own: pool(own, &PLAIN), shared }
    }

    /// A short transaction that only reads.
    pub(crate) async fn begin_look(&self) -> Result<Transaction<'static, sqlx::Postgres>> {
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
        address(&self.shared.options)
    }

    /// An error of connecting or beginning, which is never a message's.
    pub(crate) fn unreachable(&self, error: sqlx::Error) -> Error {
        Error::Unreachable { address: self.address(), source: error.into() }
    }

    pub(crate) async fn make_statements(&self) -> Result<Vec<Statements>> {
        let Known { configured, tables, .. } = &self.shared.known;
        let mut look = self.begin_look().await?;
        // The second one is opened now too, before the workers take the last that the server admits.
        let more = self.own.size > 1 && !self.own.is_pooled();
        let spare = if more { Some(self.own.acquire().await) } else { None };
        drop(spare.transpose().map_err(|error| self.unreachable(error))?);
        schema::check(&mut look, tables).await?;
        let mut made = Vec::new();
        for queue in configured {
            made.push(crate::catalog::look(&mut look, tables, queue).await?);
        }
        Ok(made)
    }
}

fn address(options: &PgConnectOptions) -> String {
    format!("{}:{}/{}", options.get_host(), options.get_port(), options.get_database().unwrap_or_default())
}

/// An error of the schema or the catalog: what the server refuses there, somebody must change.
pub(crate) fn setup_error(error: sqlx::Error) -> Error {
    if fault::is_fault(&error) { error.into() } else { Error::Setup(error.to_string()) }
}
