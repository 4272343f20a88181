//! `ichido migrate`: creates or upgrades ichido's own tables.

use ichido::store::{MigrateOptions, Migration};

use crate::{
    args::Migrate,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output,
};

impl OnStore for Migrate {
    async fn run<S: Backend>(self, store: S, _: &Config) -> Result<u8, Failure> {
        let options = MigrateOptions::default().wait(self.wait);
        let migration = if self.dry_run { store.pending().await } else { store.migrate_with(options).await };
        let migration = migration.map_err(|error| Failure::of::<S>(&error))?;
        if self.json {
            output::json(&migration)?;
            return Ok(0);
        }
        if self.dry_run {
            for statement in migration.session.iter().chain(&migration.statements) {
                output::print(&format!("{};", statement.trim().trim_end_matches(';')))?;
            }
        }
        output::talk(&outcome(&migration, self.dry_run));
        Ok(0)
    }
}

/// What was done, or would be.
fn outcome(migration: &Migration, dry_run: bool) -> String {
    let (from, to) = (migration.from, migration.to);
    let done = match (from, dry_run) {
        _ if from == to => format!("ichido's tables are up to date, version {to}"),
        (0, true) => format!("would create ichido's tables, version {to}"),
        (0, false) => format!("created ichido's tables, version {to}"),
        (_, true) => format!("would upgrade ichido's tables from version {from} to {to}"),
        (_, false) => format!("upgraded ichido's tables from version {from} to {to}"),
    };
    match migration.retries {
        0 => done,
        1 => format!("{done}; retried once because a table was in use"),
        times => format!("{done}; retried {times} times because a table was in use"),
    }
}
