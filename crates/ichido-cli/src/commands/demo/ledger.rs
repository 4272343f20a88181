//! The ledger of the demo: what was sent, what came out, and whether anything is missing or there twice. It reads the demo's
//! database with plain SQL, as an auditor would.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::Serialize;
use sqlx::{
    AssertSqlSafe, Row, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions},
};

use super::Killed;
use crate::{failure::Failure, output};

/// The demo's database, seen from outside.
pub(super) struct Ledger {
    pool: SqlitePool,
}

/// What the demo found out.
#[derive(Debug, Serialize)]
pub(super) struct Result {
    sent: u64,
    done: u64,
    lost: u64,
    double: u64,
    killed: u64,
    rescued: u64,
    ghost: u64,
    per_process: BTreeMap<String, u64>,
    killed_process: String,
    seconds: f64,
}

type Outcome<T> = std::result::Result<T, Failure>;

impl Ledger {
    /// Makes the database with the business tables.
    pub(super) async fn create(file: &Path, tables: &'static str) -> Outcome<Self> {
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(Duration::from_secs(10));
        let pool =
            SqlitePoolOptions::new().max_connections(1).connect_with(options).await.map_err(|error| failure(&error))?;
        sqlx::raw_sql(tables).execute(&pool).await.map_err(|error| failure(&error))?;
        Ok(Ledger { pool })
    }

    async fn number(&self, sql: &str) -> Outcome<u64> {
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&self.pool).await.map_err(|error| failure(&error))?;
        row.try_get(0).map_err(|error| failure(&error))
    }

    /// Writes something, as any other program could.
    pub(super) async fn write(&self, sql: &'static str) -> Outcome<()> {
        sqlx::query(sql).execute(&self.pool).await.map(drop).map_err(|error| failure(&error))
    }

    pub(super) async fn done(&self) -> Outcome<u64> {
        self.number("select count(*) from received_order where status = '1'").await
    }

    /// The process id of the worker with this pid, once it has registered.
    pub(super) async fn process_of(&self, pid: u32) -> Outcome<Option<String>> {
        let row = sqlx::query("select id from ichido_process where pid = ?").bind(pid);
        let row = row.fetch_optional(&self.pool).await.map_err(|error| failure(&error))?;
        row.map(|row| row.try_get(0)).transpose().map_err(|error| failure(&error))
    }

    pub(super) async fn claimed_by(&self, process: &str) -> Outcome<i64> {
        let row =
            sqlx::query("select count(*) from received_order where process_id = ? and status = '0'").bind(process);
        row.fetch_one(&self.pool).await.and_then(|row| row.try_get(0)).map_err(|error| failure(&error))
    }

    pub(super) async fn count(&self, sent: u64, killed: &Killed, elapsed: Duration) -> Outcome<Result> {
        let by = sqlx::query("select made_by, count(*) from project group by made_by")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| failure(&error))?;
        let by = by.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<std::result::Result<_, _>>();
        Ok(Result {
            sent,
            done: self.done().await?,
            lost: self.number("select count(*) from received_order o where not exists (select 1 from project p where p.order_id = o.id)").await?,
            double: self.number("select count(*) from (select 1 from project group by order_id having count(*) > 1)").await?,
            ghost: self.number("select count(*) from project p where not exists (select 1 from received_order o where o.id = p.order_id and o.status = '1')").await?,
            killed: 1,
            rescued: killed.had_claimed.unsigned_abs(),
            per_process: by.map_err(|error| failure(&error))?,
            killed_process: killed.process.clone(),
            seconds: (elapsed.as_secs_f64() * 100.0).round() / 100.0,
        })
    }
}

fn failure(error: &sqlx::Error) -> Failure {
    Failure::found(format!("demo database: {error}"))
}

impl Result {
    pub(super) fn is_exact(&self) -> bool {
        self.done == self.sent && self.lost == 0 && self.double == 0 && self.ghost == 0
    }

    /// The ledger for people, and what to try next.
    pub(super) fn tell(&self, folder: &Path, kept: bool) -> Outcome<()> {
        let Result { sent, done, lost, double, rescued, seconds, .. } = self;
        output::print(&format!("\nsent       {sent}\nprocessed  {done}"))?;
        for (process, count) in &self.per_process {
            let note = if *process == self.killed_process { "  killed with SIGKILL" } else { "" };
            output::print(&format!("           {count:>6} by process {process}{note}"))?;
        }
        output::print(&format!("rescued    {rescued}\nlost       {lost}\ndouble     {double}\n"))?;
        let verdict =
            if self.is_exact() { "every order has exactly one project" } else { "ORDERS WERE LOST OR PROCESSED TWICE" };
        output::print(&format!("{verdict} ({seconds} s)"))?;
        output::print("\nTry next:")?;
        if kept {
            let folder = super::shown(folder);
            output::print(&format!("  cd {folder}"))?;
            output::print("  ichido status                                       show queues and processes")?;
            output::print("  ichido send orders '{\"name\":\"one more\"}'            send an order")?;
            output::print("  ichido run ProjectCreation/R1                       process it; Ctrl-C stops")?;
            output::print("  ichido check --sql                                  show the SQL statements")
        } else {
            output::print("  ichido demo --keep my-demo     keep the database and the configuration")?;
            output::print("  ichido --help                  all commands")
        }
    }
}
