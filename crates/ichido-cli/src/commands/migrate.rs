//! `ichido migrate`: creates or upgrades ichido's own tables.

use crate::{
    args::Migrate,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output,
};

impl OnStore for Migrate {
    async fn run<S: Backend>(self, store: S, _: &Config) -> Result<u8, Failure> {
        let migration = if self.dry_run { store.pending().await } else { store.migrate().await };
        let migration = migration.map_err(|error| Failure::of::<S>(&error))?;
        if self.json {
            output::json(&migration)?;
            return Ok(0);
        }
        if self.dry_run {
            for statement in &migration.statements {
                output::print(&format!("{};", statement.trim().trim_end_matches(';')))?;
            }
        }
        match (migration.from, migration.to, self.dry_run) {
            (from, to, _) if from == to => output::talk(&format!("ichido's tables are there already, version {to}")),
            (0, to, true) => output::talk(&format!("would create ichido's tables, version {to}")),
            (0, to, false) => output::talk(&format!("created ichido's tables, version {to}")),
            (from, to, true) => output::talk(&format!("would upgrade ichido's tables from version {from} to {to}")),
            (from, to, false) => output::talk(&format!("upgraded ichido's tables from version {from} to {to}")),
        }
        Ok(0)
    }
}
