//! ichido's own tables: their names, their version, and the way from one version to the next. A binary works with the
//! schema it knows and with newer ones that say so (`oldest`), so that processes one version apart can share a database.

use ichido::{
    Error, Migration, Result,
    backend::{self, Migrations},
};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::{MySql, connect::setup_error, quote};

/// The version of the schema that this binary was written for.
pub const VERSION: u32 = 6;

/// Each version's statements, and the oldest binary that still works with it.
const MIGRATIONS: [(u32, u32, &str); 6] = [
    (1, 1, include_str!("migrations/0001.sql")),
    (2, 2, include_str!("migrations/0002.sql")),
    (3, 2, include_str!("migrations/0003.sql")),
    (4, 3, include_str!("migrations/0004.sql")),
    (5, 4, include_str!("migrations/0005.sql")),
    (6, 5, include_str!("migrations/0006.sql")),
];

/// Migrations of one database wait for each other, so many seconds.
const PATIENCE: u32 = 60;

/// Where ichido's own tables are.
pub(crate) struct Schema {
    name: Option<String>,
    pub(crate) process: String,
    pub(crate) process_queue: String,
    pub(crate) process_request: String,
    pub(crate) request: String,
    pub(crate) message: String,
    pub(crate) parked: String,
    pub(crate) audit: String,
    pub(crate) longest: String,
    pub(crate) group: String,
    pub(crate) files: String,
    pub(crate) stat: String,
    pub(crate) origin: String,
    pub(crate) mutex: String,
    pub(crate) outbox: String,
    pub(crate) inbox: String,
    pub(crate) relay: String,
    version: String,
}

impl Schema {
    pub(crate) fn new(schema: Option<&str>) -> Result<Self> {
        let name = schema.map(quote::name).transpose()?;
        let table = |table: &str| match &name {
            Some(schema) => format!("{schema}.{table}"),
            None => table.to_owned(),
        };
        Ok(Schema {
            process: table("ichido_process"),
            process_queue: table("ichido_process_queue"),
            process_request: table("ichido_process_request"),
            request: table("ichido_request"),
            message: table("ichido_message"),
            parked: table("ichido_parked"),
            audit: table("ichido_audit"),
            longest: table("ichido_longest"),
            group: table("ichido_group"),
            files: table("ichido_files"),
            stat: table("ichido_stat"),
            origin: table("ichido_origin"),
            mutex: table("ichido_mutex"),
            outbox: table("ichido_outbox"),
            inbox: table("ichido_inbox"),
            relay: table("ichido_relay"),
            version: table("ichido_schema"),
            name,
        })
    }

    /// Refuses a schema that is missing, too old or too new for this binary.
    pub(crate) async fn check(&self, connection: &mut MySqlConnection) -> Result<()> {
        let (version, oldest) = self.version(connection).await?;
        backend::refuse_version(version, oldest, VERSION)
    }

    /// The version in the database and the oldest binary that works with it; zeros if there is none.
    async fn version(&self, connection: &mut MySqlConnection) -> Result<(u32, u32)> {
        let there = "select count(*) from information_schema.tables where table_schema = coalesce(?, database()) and table_name = 'ichido_schema'";
        let bare = self.name.as_ref().map(|name| name.trim_matches('`').replace("``", "`"));
        let there = sqlx::query(there).bind(bare).fetch_one(&mut *connection).await.map_err(setup_error)?;
        if there.try_get::<i64, _>(0)? == 0 {
            return Ok((0, 0));
        }
        let newest = format!("select version, oldest from {} order by version desc limit 1", self.version);
        let newest = sqlx::query(AssertSqlSafe(newest)).fetch_optional(connection).await.map_err(setup_error)?;
        let Some(row) = newest else { return Ok((0, 0)) };
        Ok((row.try_get::<i32, _>(0)?.unsigned_abs(), row.try_get::<i32, _>(1)?.unsigned_abs()))
    }

    fn migrations(&self) -> Migrations {
        let version = &self.version;
        let table = format!(
            "create table if not exists {version} (version int primary key, oldest int not null, applied_at timestamp(6) not null default current_timestamp(6)) engine = InnoDB"
        );
        let table = match &self.name {
            Some(schema) => format!("create database if not exists {schema}; use {schema}; {table}"),
            None => table,
        };
        Migrations { table, name: version.clone(), versions: &MIGRATIONS }
    }
}

impl MySql {
    /// What [`MySql::migrate_schema`] would do.
    pub(crate) async fn pending_schema(&self) -> Result<Migration> {
        let mut connection = self.own.acquire().await.map_err(|error| self.unreachable(error))?;
        let (from, _) = self.shared.schema.version(&mut connection).await?;
        Ok(self.shared.schema.migrations().from(from))
    }

    /// Creates or upgrades ichido's tables, one process at a time. DDL commits by itself here: a migration that was cut off
    /// is begun anew, so its statements must bear it. The connection is not used again: it holds the lock until it closes.
    pub(crate) async fn migrate_schema(&self) -> Result<Migration> {
        let mut connection = self.own.acquire().await.map_err(|error| self.unreachable(error))?.detach();
        let lock = sqlx::query("select coalesce(get_lock(concat('ichido ', database()), ?), 0)").bind(PATIENCE);
        if lock.fetch_one(&mut connection).await?.try_get::<i64, _>(0)? != 1 {
            return Err(Error::Setup(format!("another process has been migrating for {PATIENCE} s")));
        }
        let (from, _) = self.shared.schema.version(&mut connection).await?;
        let migration = self.shared.schema.migrations().from(from);
        for step in &migration.statements {
            let step = step.replace("create table ichido_", "create table if not exists ichido_");
            sqlx::raw_sql(AssertSqlSafe(step)).execute(&mut connection).await.map_err(setup_error)?;
        }
        Ok(migration)
    }
}
