//! Connections: one that writes, with the guard that lets nobody but ichido commit, and a few that only read.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ichido::{
    Error, Queue,
    error::Result,
    process::WakeUps,
    store::{By, ConnectionCounts, Database, Wakeups},
};
use ichido_sql::{Known, Place, Plan, Tables};
use sqlx::{
    Connection, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::Semaphore;

use crate::{
    Tx, alive::Alive, fault, locks::Locks, schema, sql_action::Rendered, statements::Statements, transaction::Guard,
    turn::Line,
};

/// How long SQLite itself waits for writers that do not stand in our line.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Nobody waits longer than this for the connection that writes.
const ACQUIRE: Duration = Duration::from_secs(30);

/// Without a reader nobody could look at anything while somebody writes.
const LEAST: u32 = 2;

/// A socket's path has at most 107 bytes, its name in the folder 38.
const LONGEST_FOLDER: usize = 68;

/// A SQLite database that holds the business tables and ichido's own.
#[derive(Clone)]
pub struct Sqlite {
    pub(crate) writer: SqlitePool,
    /// One: who waits for other transactions of this process waits here, for as long as it takes.
    pub(crate) free: Arc<Semaphore>,
    pub(crate) readers: SqlitePool,
    pub(crate) guard: Arc<Guard>,
    pub(crate) shared: Arc<Shared>,
    /// Who changes something by hand through it.
    pub(crate) by: Arc<By>,
}

/// What all clones of a store share.
pub(crate) struct Shared {
    path: PathBuf,
    options: SqliteConnectOptions,
    /// How many are opened before anybody needs them, and how many there may be; one of them writes.
    connections: (u32, u32),
    pub(crate) line: Line,
    pub(crate) alive: Alive,
    pub(crate) wake_ups: WakeUps,
    pub(crate) known: Known<Statements>,
    pub(crate) rendered: Rendered,
}

impl Database for Sqlite {
    type Tx = Tx;
    type Connection = SqliteConnection;

    ichido_sql::database!(fault::is_fault);

    fn connections(&self) -> ConnectionCounts {
        let each = self.shared.connections.1;
        ConnectionCounts {
            business: 1,
            own: each - 1,
            upkeep: ConnectionCounts::upkeep(each),
            ..ConnectionCounts::default()
        }
    }

    /// The same database and queues through connections of its own.
    fn apart(&self) -> Self {
        Sqlite::with(self.shared.clone())
    }

    /// A process is alive as long as it holds its lock: nobody dies of an outage.
    fn rescue_after(&self, _lease: Duration) -> Duration {
        Duration::ZERO
    }

    async fn ping(&self) -> Result<()> {
        sqlx::query("select 1").execute(&self.readers).await.map_err(|error| self.unreachable(error))?;
        Ok(())
    }
}

impl Wakeups for Sqlite {
    fn wake_ups(&self) -> &WakeUps {
        &self.shared.wake_ups
    }
}

impl Sqlite {
    /// The database in this file (`sqlite://ichido.db`): the short form of [`Sqlite::builder`]. Nothing is opened yet, and only `migrate`
    /// creates the file.
    ///
    /// # Errors
    /// [`Error::Setup`] if the URL cannot be read, or names a database in memory, which no other process could share.
    pub fn new(url: &str, queues: Vec<Queue>) -> Result<Self> {
        Sqlite::builder().url(url).queues(queues).build()
    }

    pub(crate) fn planned(mut plan: Plan<SqliteConnectOptions>) -> Result<Self> {
        plan.check(LEAST)?;
        let options = match plan.place()? {
            Place::Url(url) => read(&url)?,
            Place::Options(options) => options,
        };
        let path = options.get_filename().to_path_buf();
        if path.as_os_str().is_empty() || IN_MEMORY.iter().any(|name| path.to_string_lossy().starts_with(name)) {
            return Err(invalid(&path.display(), &NO_FILE));
        }
        // Whatever the options say: without these, a message could be lost or done twice.
        let options = options
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY);
        let database = one_path(&path);
        let locks = Arc::new(Locks::beside(&database));
        let shared = Shared {
            wake_ups: wake_ups(locks.folder(), database),
            line: Line::new(locks.clone()),
            alive: Alive::new(locks),
            path,
            options,
            connections: plan.connections,
            known: Known::new(plan.queues, Tables::new(None)),
            rendered: Rendered::default(),
        };
        Ok(Sqlite::with(Arc::new(shared)))
    }

    fn with(shared: Arc<Shared>) -> Self {
        let guard = Arc::new(Guard::default());
        let (installed, options) = (guard.clone(), shared.options.clone());
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .after_release(|connection, _| {
                let clean = !connection.is_in_transaction();
                Box::pin(async move { Ok(clean) })
            })
            .after_connect(move |connection, _| {
                let guard = installed.clone();
                Box::pin(async move { guard.install(connection).await })
            })
            .connect_lazy_with(options.clone());
        let readers = SqlitePoolOptions::new()
            .max_connections(shared.connections.1 - 1)
            .acquire_timeout(ACQUIRE)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(options.pragma("query_only", "on"));
        Sqlite { writer, free: Arc::new(Semaphore::new(1)), readers, guard, shared, by: Arc::default() }
    }

    /// The options of a connection that may create the file.
    pub(crate) fn creating(&self) -> SqliteConnectOptions {
        self.shared.options.clone().create_if_missing(true)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// An error of opening or beginning, which is never a message's.
    pub(crate) fn unreachable(&self, error: impl Into<ichido::Cause>) -> Error {
        Error::Unreachable { address: self.path().display().to_string(), source: error.into() }
    }

    /// An error of opening the file: that it is not there yet is a matter for `migrate`.
    pub(crate) fn not_opened(&self, error: sqlx::Error) -> Error {
        if self.path().exists() {
            return self.unreachable(error);
        }
        Error::Setup(format!("the database {} does not exist; run `ichido migrate`", self.path().display()))
    }

    pub(crate) async fn make_statements(&self) -> Result<Vec<Statements>> {
        let Known { configured, tables, .. } = &self.shared.known;
        let mut connection = self.readers.acquire().await.map_err(|error| self.not_opened(error))?;
        schema::check(&mut connection).await?;
        let mut made = Vec::new();
        for queue in configured {
            made.push(crate::catalog::look(&mut connection, tables, queue).await?);
        }
        drop(connection);
        self.open_early().await.map_err(|error| self.unreachable(error))?;
        Ok(made)
    }

    /// Opens what is to be open from the start: readers first, the one that writes last.
    async fn open_early(&self) -> sqlx::Result<()> {
        let (min, max) = self.shared.connections;
        let mut readers = Vec::new();
        while readers.len() < min.min(max - 1) as usize {
            readers.push(self.readers.acquire().await?);
        }
        if min == max {
            drop(self.writer.acquire().await?);
        }
        Ok(())
    }
}

/// What sqlx calls databases in memory.
const IN_MEMORY: [&str; 2] = [":memory:", "file:sqlx-in-memory"];

const NO_FILE: &str = "it names no file";

fn read(url: &str) -> Result<SqliteConnectOptions> {
    if url.contains(":memory:") || url.contains("mode=memory") {
        return Err(invalid(&url, &NO_FILE));
    }
    url.parse().map_err(|error: sqlx::Error| invalid(&url, &error))
}

fn invalid(url: &dyn Display, why: &dyn Display) -> Error {
    Error::Setup(format!("the database URL `{url}` is invalid ({why}); write one like sqlite://ichido.db"))
}

/// The same file reached by different paths must have the same locks.
fn one_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    // It is not there yet: `migrate` will create it in its folder.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

/// An error of the schema or the catalog: what SQLite refuses there, somebody must change.
pub(crate) fn setup_error(error: sqlx::Error) -> Error {
    if fault::is_fault(&error) { error.into() } else { Error::Setup(Error::from(error).to_string()) }
}

/// Beside the database, where its lock files are; a path that is too long for a socket's name has its place elsewhere.
fn wake_ups(folder: &Path, database: PathBuf) -> WakeUps {
    if folder.as_os_str().len() <= LONGEST_FOLDER {
        WakeUps::beside(database, folder.into())
    } else {
        WakeUps::at(&folder.to_string_lossy())
    }
}
