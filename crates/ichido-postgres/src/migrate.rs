//! `migrate`: brings ichido's own tables to the newest version while processes are at work. Each step is a transaction of its own
//! that locks one table and waits for it briefly, so that it holds nobody up for long and gives way in a deadlock; a step that found
//! its table in use is tried again. A migration that was cut off is begun anew: steps can be repeated.
//!
//! Behind a pooler no session can hold a lock for all of a migration. So each step takes the lock, and looks at the version under
//! it: two migrations at once take turns, repeat each other's steps and come to the same end. One connection is enough.

use std::time::{Duration, Instant};

use ichido::{
    Error, Operate,
    error::Result,
    store::{MigrateOptions, Migration},
};
use ichido_sql::{Step, Waiting};
use sqlx::{AssertSqlSafe, Row};

use crate::{Postgres, connect::setup_error, fault, pooler, schema};

/// Any number that nobody else uses: one step at a time. Older versions hold it for all of a migration.
const LOCK: i64 = 0x6963_6869_646f;

/// How soon to look again whether another migration has ended its step.
const POLL: Duration = Duration::from_millis(100);

impl Operate for Postgres {
    ichido_sql::operate!();

    async fn pending(&self) -> Result<Migration> {
        let (from, steps) = self.pending_steps(&MigrateOptions::default()).await?;
        Ok(schema::migrations(&self.shared.known.tables).migration(from, &steps))
    }

    /// Creates or upgrades ichido's tables.
    async fn migrate_with(&self, options: MigrateOptions) -> Result<Migration> {
        let mut waiting = Waiting::new(options.wait);
        let (mut from, mut steps) = self.pending_steps(&options).await?;
        for step in &steps {
            let ran = self.run_step(step, &mut waiting).await?;
            // Another migration has brought it to this version meanwhile.
            if !ran && step.version == from + 1 {
                from = step.version;
            }
        }
        steps.retain(|step| step.version > from);
        let mut migration = schema::migrations(&self.shared.known.tables).migration(from, &steps);
        migration.retries = waiting.retries();
        Ok(migration)
    }
}

impl Postgres {
    async fn pending_steps(&self, options: &MigrateOptions) -> Result<(u32, Vec<Step>)> {
        let mut look = self.begin_look().await?;
        let (from, _) = self.timed(schema::version(&mut look, &self.shared.known.tables)).await?;
        look.commit().await?;
        Ok((from, schema::migrations(&self.shared.known.tables).steps(from, options)))
    }

    /// Runs a step, again if its table is in use or another migration is at work; false if its version is there already.
    async fn run_step(&self, step: &Step, waiting: &mut Waiting) -> Result<bool> {
        waiting.begin();
        loop {
            let began = Instant::now();
            let pause = match self.try_step(step, waiting.limit()).await {
                Ok(Some(ran)) => return Ok(ran),
                Ok(None) => waiting.pause(began.elapsed(), POLL).ok_or_else(|| another_migration(waiting.total()))?,
                Err(error) if is_contention(&error) => match waiting.again(began.elapsed()) {
                    Some(pause) => {
                        tracing::info!("{} is in use ({error:#}); retrying in {pause:?}", in_use(step));
                        pause
                    }
                    None => return Err(self.still_in_use(step, waiting).await),
                },
                Err(error) => return Err(error),
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Whether it ran, or its version is there already; none if another migration is at a step.
    async fn try_step(&self, step: &Step, limit: Duration) -> Result<Option<bool>> {
        let tables = &self.shared.known.tables;
        let limit = limit.as_millis();
        let mut begin = format!("{}; set local lock_timeout = {limit}; set local statement_timeout = 0", pooler::OWN);
        if let Some(path) = schema::search_path(tables) {
            begin.push_str("; ");
            begin.push_str(&path);
        }
        let mut tx = self.own.begin(&begin).await.map_err(|error| self.unreachable(error))?;
        let lock = sqlx::query("select pg_try_advisory_xact_lock($1)").bind(LOCK);
        let lock = self.shared.deadline.within(lock.fetch_one(&mut *tx)).await?;
        if !lock.try_get(0)? {
            tx.rollback().await?;
            return Ok(None);
        }
        let missing = self.timed(schema::version(&mut tx, tables)).await?.0 < step.version;
        if missing {
            let (id, sql) = (tx.id(), sqlx::raw_sql(AssertSqlSafe(step.sql.clone())));
            self.patient(id, sql.execute(&mut *tx)).await.map_err(setup_error)?;
        }
        tx.commit().await?;
        Ok(Some(missing))
    }

    /// Who has the table, for whoever must decide about it.
    async fn still_in_use(&self, step: &Step, waiting: &Waiting) -> Error {
        let holders = self.holders(step).await.unwrap_or_default();
        let who = if holders.is_empty() { String::new() } else { format!(": {}", holders.join("; ")) };
        let text = format!(
            "{} was in use by other transactions for {:?}{who}. Wait until they end, or end them with `select \
             pg_terminate_backend(id)`, and run `ichido migrate` again: it continues where it stopped, and processes \
             can keep working",
            in_use(step),
            waiting.total()
        );
        Error::Failed(text.into())
    }

    /// The longest transactions that have locked the table of a step.
    async fn holders(&self, step: &Step) -> Result<Vec<String>> {
        let Some(table) = step.locks().first().map(|table| schema::qualified(&self.shared.known.tables, table)) else {
            return Ok(Vec::new());
        };
        let holders = "select a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(a.state, 'working'), \
             coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::bigint \
             from pg_locks l join pg_stat_activity a on a.pid = l.pid and a.datname = current_database() \
             where l.relation = to_regclass($1) and l.granted and a.pid <> pg_backend_pid() \
             group by 1, 2, 3, 4, 5, a.xact_start order by a.xact_start limit 3";
        let rows = self.own.fetch_all(sqlx::query(holders).bind(table)).await?;
        let describe = |row: &sqlx::postgres::PgRow| {
            let (pid, role): (i32, &str) = (row.try_get(0)?, row.try_get(1)?);
            let (program, state): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
            let age: i64 = row.try_get(4)?;
            let program = if program.is_empty() { String::new() } else { format!(", program {program}") };
            Ok(format!("id {pid} (role {role}{program}) is {state}, in a transaction for {age} s"))
        };
        rows.iter().map(describe).collect()
    }
}

/// The table that a step must have for itself.
fn in_use(step: &Step) -> String {
    step.locks().first().map_or_else(|| "a table".to_owned(), |table| format!("the table {table}"))
}

fn another_migration(waited: Duration) -> Error {
    let text = format!(
        "another `ichido migrate` has been running on this database for {waited:?}; run it again when that one has ended"
    );
    Error::Failed(text.into())
}

/// A lock timeout or a deadlock.
fn is_contention(error: &Error) -> bool {
    let Error::Failed(cause) = error else { return false };
    let code = cause.downcast_ref::<sqlx::Error>().and_then(fault::code);
    matches!(code.as_deref(), Some("55P03" | "40P01" | "40001"))
}
