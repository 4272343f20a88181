//! ichido's own tables: their names, their version, and the way from one version to the next. A binary works with the
//! schema it knows and with newer ones that say so (`oldest`), so that processes one version apart can share a database.

use ichido::{
    Migration, Result,
    backend::{self, Migrations},
};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::{Postgres, connect::setup_error, quote};

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

/// Any number that nobody else uses: migrations of one database wait for each other.
const LOCK: i64 = 0x6963_6869_646f;

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
    pub(crate) async fn check(&self, connection: &mut PgConnection) -> Result<()> {
        let (version, oldest) = self.version(connection).await?;
        backend::refuse_version(version, oldest, VERSION)
    }

    /// The version in the database and the oldest binary that works with it; zeros if there is none.
    async fn version(&self, connection: &mut PgConnection) -> Result<(u32, u32)> {
        let there = sqlx::query("select to_regclass($1) is not null").bind(&self.version);
        if !there.fetch_one(&mut *connection).await.map_err(setup_error)?.try_get::<bool, _>(0)? {
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
            "create table if not exists {version} (version integer primary key, oldest integer not null, applied_at timestamptz not null default now())"
        );
        let table = match &self.name {
            Some(schema) => format!("create schema if not exists {schema}; set local search_path to {schema}; {table}"),
            None => table,
        };
        Migrations { table, name: version.clone(), versions: &MIGRATIONS }
    }
}

impl Postgres {
    /// What [`Postgres::migrate_schema`] would do.
    pub(crate) async fn pending_schema(&self) -> Result<Migration> {
        let mut look = self.begin_look().await?;
        let (from, _) = self.shared.schema.version(&mut look).await?;
        Ok(self.shared.schema.migrations().from(from))
    }

    /// Creates or upgrades ichido's tables, all in one transaction, one process at a time.
    pub(crate) async fn migrate_schema(&self) -> Result<Migration> {
        let mut tx = self.begin_migration().await?;
        sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
        let (from, _) = self.shared.schema.version(&mut tx).await?;
        let migration = self.shared.schema.migrations().from(from);
        for step in &migration.statements {
            sqlx::raw_sql(AssertSqlSafe(step.clone())).execute(&mut *tx).await.map_err(setup_error)?;
        }
        tx.commit().await?;
        Ok(migration)
    }
}
