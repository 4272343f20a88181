//! Creating and upgrading ichido's own tables: what [`Operate::migrate_with`](crate::Operate::migrate_with) is told, and what
//! it tells. How it is done is each store's own matter, with the help of [`backend`](crate::backend).

use std::{borrow::Cow, time::Duration};

use serde::Serialize;

/// What a migration did or would do.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Migration {
    /// The schema's version before; 0: there was none.
    pub from: u32,
    /// The schema's version after.
    pub to: u32,
    /// What a session that runs the statements by hand sets first.
    pub session: Vec<String>,
    /// What is run, in order. Each can be repeated.
    pub statements: Vec<String>,
    /// How often a statement had to be tried again because its table was in use.
    pub retries: u32,
}

impl Migration {
    /// From one version to another by these statements.
    #[must_use]
    pub fn new(from: u32, to: u32, session: Vec<String>, statements: Vec<String>) -> Self {
        Migration { from, to, session, statements, retries: 0 }
    }
}

/// How to migrate.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MigrateOptions {
    /// How long to wait, in total, for tables that other transactions have locked, and for another migration.
    pub wait: Duration,
    /// Versions after the newest one that this binary knows, as the next ichido would have them: for tests of deploys.
    #[doc(hidden)]
    pub next: Vec<Version>,
}

impl Default for MigrateOptions {
    fn default() -> Self {
        MigrateOptions { wait: Duration::from_mins(1), next: Vec::new() }
    }
}

impl MigrateOptions {
    /// The same with another time to wait.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The same with one more version.
    #[doc(hidden)]
    #[must_use]
    pub fn next(mut self, version: Version) -> Self {
        self.next.push(version);
        self
    }
}

/// A version of ichido's own tables.
#[derive(Debug, Clone)]
pub struct Version {
    /// Its number.
    pub number: u32,
    /// The oldest binary that still works with it.
    pub oldest: u32,
    /// How it is made of the one before. A paragraph, which ends with an empty line, is a step: it is about one table, and can be
    /// repeated.
    pub sql: Cow<'static, str>,
}

impl Version {
    /// A version with its number, the oldest binary that works with it, and its statements.
    #[must_use]
    pub const fn new(number: u32, oldest: u32, sql: &'static str) -> Self {
        Version { number, oldest, sql: Cow::Borrowed(sql) }
    }
}
