//! The builder of the store: where the database is, and how many connections it may open.

use std::fmt;

use ichido::Error;
use ichido_sql::Plan;
use sqlx::sqlite::SqliteConnectOptions;

use crate::Sqlite;

/// Describes a [`Sqlite`] store; [`build`](SqliteBuilder::build) makes it. A file needs no password: there is nothing to complete before a
/// connection is opened, and no server that could be silent.
#[must_use]
pub struct SqliteBuilder {
    plan: Plan<SqliteConnectOptions>,
}

impl Sqlite {
    /// A store with options. `url` or `options` must be called, everything else has a default. Of the options, ichido sets what its guarantees
    /// need: WAL, `synchronous = FULL`, foreign keys, and how long a writer waits.
    pub fn builder() -> SqliteBuilder {
        SqliteBuilder { plan: Plan::new(1, 3) }
    }
}

impl SqliteBuilder {
    ichido_sql::builder!(SqliteConnectOptions);

    /// `min` connections are opened when the store is first used, and at most `max` are open at once: one writes, the others read. (1, 3) if
    /// nothing else is said; at least two. One that is open stays open. A process opens as many for its heartbeat, its chores and
    /// its rescue each.
    pub fn connections(mut self, min: u32, max: u32) -> Self {
        self.plan.connections = (min, max);
        self
    }

    /// The store. Nothing is opened yet, and only `migrate` creates the file.
    ///
    /// # Errors
    /// [`Error::Setup`] if neither `url` nor `options` was called, they name no file, or the numbers of connections cannot be meant.
    pub fn build(self) -> Result<Sqlite, Error> {
        Sqlite::planned(self.plan)
    }
}

impl fmt::Debug for SqliteBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBuilder").finish_non_exhaustive()
    }
}
