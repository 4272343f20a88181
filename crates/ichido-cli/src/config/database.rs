//! The `[database]` section: where the business tables and ichido's own tables are. The command
//! line connects with it.

use std::time::Duration;

use super::error::ConfigError;
use super::field::Field;
use super::names;
use super::section::Section;
use super::url::Url;

pub(super) const KEYS: [&str; 5] = ["url", "pool", "schema", "single_writer", "timeout"];
pub(super) const SCHEMES: [&str; 5] = ["sqlite", "postgres", "postgresql", "mysql", "mariadb"];

/// How long a server may be silent, if nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Connections that ichido keeps for itself, whatever the workers do.
pub(super) const OWN_CONNECTIONS: u32 = 2;

/// Where the database is and how it is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// The address.
    pub url: Url,
    /// The number of connections, when it is written; `Config::pool` knows the default.
    pub pool: Option<u32>,
    /// The schema of ichido's own tables; none: the connection's.
    pub schema: Option<String>,
    /// Admits a Galera cluster that is written to on one node only.
    pub single_writer: bool,
    /// How long a statement of ichido's own, COMMIT or ROLLBACK may stay unanswered. SQLite has no server that could be silent.
    pub timeout: Duration,
}

impl Database {
    pub(super) fn read(root: &Section) -> Result<Self, ConfigError> {
        let section = root.section("database", &KEYS)?;
        let read = |text: &str| Url::parse(text, &SCHEMES);
        let default = read("sqlite://ichido.db").map_err(|text| section.invalid("url", text))?;
        let database = Self {
            url: section.or("url", default, |field| field.parsed(read))?,
            pool: section.optional("pool", |field| field.whole(1..=1000))?,
            schema: section.optional("schema", names::column)?,
            single_writer: section.or("single_writer", false, Field::flag)?,
            timeout: section.or("timeout", TIMEOUT, |field| field.duration(Duration::from_millis(100)))?,
        };
        match database.pool {
            Some(pool) if pool <= OWN_CONNECTIONS => Err(section
                .invalid("pool", format!("found {pool}, expected at least 3: ichido itself uses two connections"))),
            _ => Ok(database),
        }
    }
}
