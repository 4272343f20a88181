//! `migrate`: brings ichido's own tables to the newest version while processes are at work. DDL commits by itself here, so each
//! step locks one table, waits shortly for it, and is tried again if the table was in use: it is in no deadlock and holds nobody up
//! for long. A migration that was cut off is begun anew: steps can be repeated, or say what shows that they are done.

use std::time::{Duration, Instant};

use ichido::{
    Error, Operate,
    error::Result,
    store::{MigrateOptions, Migration},
};
use ichido_sql::{Step, Waiting};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::{
    MySql,
    connect::setup_error,
    fault, schema,
    session::{Session, give_back},
};

/// One migration at a time; MySQL's names of locks have at most 64 characters.
const LOCK: &str = "select coalesce(get_lock(if(char_length(name) > 64, md5(name), name), ?), 0) \
     from (select concat('ichido ', database()) as name) one";

impl Operate for MySql {
    ichido_sql::operate!();

    async fn pending(&self) -> Result<Migration> {
        let mut connection = self.take(&self.own).await.map_err(|error| self.unreachable(error))?;
        let (from, _) = self.timed(schema::version(&mut connection, &self.shared.known.tables)).await?;
        let migrations = schema::migrations(&self.shared.known.tables);
        let mut left = Vec::new();
        for step in migrations.steps(from, &MigrateOptions::default()) {
            if !self.is_done(&mut connection, &step).await? {
                left.push(step);
            }
        }
        give_back(connection);
        Ok(migrations.migration(from, &left))
    }

    /// Creates or upgrades ichido's tables, one process at a time, for as long as it takes. The connection is closed then: the lock is its own,
    /// and it has settings that others must not have.
    async fn migrate_with(&self, options: MigrateOptions) -> Result<Migration> {
        let mut connection = self.take(&self.own).await.map_err(|error| self.unreachable(error))?;
        self.migrate_on(&mut connection, &options).await
    }
}

impl MySql {
    async fn migrate_on(&self, connection: &mut Session, options: &MigrateOptions) -> Result<Migration> {
        let tables = &self.shared.known.tables;
        let migrations = schema::migrations(tables);
        let (known, _) = self.timed(schema::version(connection, tables)).await?;
        if migrations.steps(known, options).is_empty() {
            return Ok(migrations.migration(known, &[]));
        }
        self.lock(connection, options.wait).await?;
        let (from, _) = self.timed(schema::version(connection, tables)).await?;
        let (steps, mut waiting) = (migrations.steps(from, options), Waiting::new(options.wait));
        let mut migration = migrations.migration(from, &steps);
        for setting in &migration.session {
            let setting = sqlx::raw_sql(AssertSqlSafe(setting.clone()));
            self.within(setting.execute(&mut **connection)).await.map_err(setup_error)?;
        }
        for step in &steps {
            if !self.is_done(connection, step).await? {
                self.run_step(connection, step, &mut waiting).await?;
            }
        }
        migration.retries = waiting.retries();
        Ok(migration)
    }

    /// Is the column there that only this step adds?
    async fn is_done(&self, connection: &mut MySqlConnection, step: &Step) -> Result<bool> {
        let Some((table, column)) = step.unless() else { return Ok(false) };
        let there = "select count(*) from information_schema.columns \
             where table_schema = coalesce(?, database()) and table_name = ? and column_name = ?";
        let there = sqlx::query(there).bind(schema::database(&self.shared.known.tables)).bind(table).bind(column);
        Ok(self.within(there.fetch_one(connection)).await.map_err(setup_error)?.try_get::<i64, _>(0)? > 0)
    }

    async fn lock(&self, session: &mut Session, wait: Duration) -> Result<()> {
        let seconds = i64::try_from(wait.as_secs().max(1)).unwrap_or(i64::MAX);
        let (id, lock) = (session.id.clone(), sqlx::query(LOCK).bind(seconds));
        if self.shared.patient(id, lock.fetch_one(&mut **session)).await?.try_get::<i64, _>(0)? == 1 {
            return Ok(());
        }
        let text = format!(
            "another `ichido migrate` has been running on this database for {wait:?}; run it again when that one has ended"
        );
        Err(Error::Failed(text.into()))
    }

    /// Runs a step, again if its table is in use.
    async fn run_step(&self, session: &mut Session, step: &Step, waiting: &mut Waiting) -> Result<()> {
        waiting.begin();
        loop {
            let began = Instant::now();
            match self.try_step(session, step, waiting.limit()).await {
                Err(error) if is_contention(&error) => match waiting.again(began.elapsed()) {
                    Some(pause) => {
                        tracing::info!("{} is in use ({error:#}); retrying in {pause:?}", in_use(step));
                        tokio::time::sleep(pause).await;
                    }
                    None => return Err(self.timed(still_in_use(session, step, waiting)).await?),
                },
                done => return done.map_err(setup_error),
            }
        }
    }

    async fn try_step(&self, session: &mut Session, step: &Step, limit: Duration) -> sqlx::Result<()> {
        // Whole seconds, of which there is at least one.
        let wait = format!("set session lock_wait_timeout = {}", limit.as_secs().max(1));
        self.within(sqlx::raw_sql(AssertSqlSafe(wait)).execute(&mut **session)).await?;
        let (id, sql) = (session.id.clone(), sqlx::raw_sql(AssertSqlSafe(step.sql.clone())));
        self.shared.patient(id, sql.execute(&mut **session)).await?;
        Ok(())
    }
}

/// Which transactions are open, for whoever must decide about them.
async fn still_in_use(connection: &mut MySqlConnection, step: &Step, waiting: &Waiting) -> Result<Error> {
    // Not every user may ask.
    let holders = holders(connection).await.unwrap_or_default();
    let who = if holders.is_empty() {
        "`select * from information_schema.innodb_trx` lists them".to_owned()
    } else {
        format!("the longest open: {}", holders.join("; "))
    };
    let text = format!(
        "{} was in use by other transactions for {:?}; {who}. Wait until they end, or end them with `kill id`, and \
         run `ichido migrate` again: it continues where it stopped, and processes can keep working",
        in_use(step),
        waiting.total()
    );
    Ok(Error::Failed(text.into()))
}

async fn holders(connection: &mut MySqlConnection) -> Result<Vec<String>> {
    let holders = "select cast(t.trx_mysql_thread_id as signed), coalesce(p.user, ''), coalesce(p.host, ''), coalesce(p.command, ''), \
         cast(timestampdiff(second, t.trx_started, now()) as signed) \
         from information_schema.innodb_trx t left join information_schema.processlist p on p.id = t.trx_mysql_thread_id \
         where t.trx_mysql_thread_id <> connection_id() order by t.trx_started limit 3";
    let rows = sqlx::query(holders).fetch_all(connection).await?;
    let describe = |row: &sqlx::mysql::MySqlRow| {
        let (id, age): (i64, i64) = (row.try_get(0)?, row.try_get(4)?);
        let (user, host, command): (&str, &str, &str) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        Ok(format!("id {id} (user {user} from {host}, {command}), for {age} s"))
    };
    rows.iter().map(describe).collect()
}

/// The table that a step must have for itself.
fn in_use(step: &Step) -> String {
    step.locks().first().map_or_else(|| "a table".to_owned(), |table| format!("the table {table}"))
}

/// A lock timeout or a deadlock.
fn is_contention(error: &sqlx::Error) -> bool {
    matches!(fault::number(error), Some(1205 | 1213))
}
