//! The next version of ichido's tables, and the product's own way to it: what a newer ichido's `migrate` does, with a version more
//! than this one knows.

use ichido::{
    Operate, Result,
    store::{MigrateOptions, Migration, Version},
};
use ichido_mysql::MySql;
use ichido_postgres::Postgres;
use ichido_sqlite::{Sqlite, VERSION};

use crate::testenv::{Env, Kind};

/// Tables that processes at work use.
const TABLES: [&str; 11] = [
    "ichido_process",
    "ichido_process_queue",
    "ichido_process_request",
    "ichido_request",
    "ichido_message",
    "ichido_parked",
    "ichido_group",
    "ichido_stat",
    "ichido_audit",
    "ichido_longest",
    "ichido_mutex",
];

/// What a newer version may do to tables that an older one still uses: it only adds, here a column to each and a table.
pub fn additions(kind: Kind, name: &str) -> String {
    let add = |table| match kind {
        Kind::Sqlite => format!("alter table {table} add column {name} integer;\n"),
        Kind::Postgres => format!("alter table {table} add column if not exists {name} integer;\n"),
        Kind::MariaDb => format!(
            "-- Skipped if this column is there: {table}.{name}\nalter table {table} add column {name} integer;\n"
        ),
    };
    let table = format!("create table if not exists ichido_{name} (id integer primary key);\n");
    TABLES.map(add).into_iter().chain([table]).collect::<Vec<_>>().join("\n")
}

/// The next version, with these additions.
pub fn next_version(kind: Kind, name: &str) -> Version {
    let mut version = Version::new(VERSION + 1, VERSION, "");
    version.sql = additions(kind, name).into();
    version
}

/// `ichido migrate`.
pub async fn migrate(env: &Env, options: MigrateOptions) -> Result<Migration, ichido::Error> {
    match env.kind {
        Kind::Sqlite => {
            let file = env.folder().join("test.db");
            Sqlite::new(&format!("sqlite://{}", file.display()), Vec::new())?.migrate_with(options).await
        }
        Kind::Postgres => Postgres::new(&env.url, None, 4, Vec::new())?.migrate_with(options).await,
        Kind::MariaDb => MySql::new(&env.url, None, 4, false, Vec::new())?.migrate_with(options).await,
    }
}
