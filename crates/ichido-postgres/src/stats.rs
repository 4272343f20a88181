//! What processes have counted, minute by minute: written whole, read for the last minutes, forgotten when it is old.

use std::time::Duration;

use ichido::{
    Result,
    process::Retention,
    stat::{Stat, StatRow},
    store::{ProcessId, Stats},
};
use ichido_sql::{MOST_STATS, NOTES_AT_A_TIME, STAT_KEY, StatCells};
use sqlx::{AssertSqlSafe, Row, postgres::PgRow};

use crate::Postgres;

/// How many columns a row has.
const COLUMNS: usize = 17;

/// Seconds since 1970.
const NOW: &str = "extract(epoch from clock_timestamp())::bigint";

impl Stats for Postgres {
    async fn note_longest(&self, queue: &str, time: Duration) -> Result<()> {
        let note = format!(
            "insert into {} as l (queue, longest_us) values ($1, $2) on conflict (queue) do update \
             set longest_us = excluded.longest_us, at = now() where l.longest_us < excluded.longest_us",
            self.shared.schema.longest
        );
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        self.own.execute(sqlx::query(AssertSqlSafe(note)).bind(queue).bind(time)).await?;
        Ok(())
    }

    async fn note_stats(&self, process: ProcessId, minute: i64, stats: &[Stat]) -> Result<()> {
        if stats.is_empty() {
            return Ok(());
        }
        let parameter =
            |row: usize, at: usize| format!("${}{}", row * COLUMNS + at, if at == 4 { "::text::uuid" } else { "" });
        let row = |row: usize| (1..=COLUMNS).map(|at| parameter(row, at)).collect::<Vec<_>>().join(", ");
        let write = format!(
            "insert into {} ({}) values ({}) on conflict ({STAT_KEY}) do update set {}",
            self.shared.schema.stat,
            ichido_sql::stat_columns(),
            (0..stats.len()).map(row).collect::<Vec<_>>().join("), ("),
            ichido_sql::stat_assignments(|column| format!("excluded.{column}"))
        );
        let mut write = sqlx::query(AssertSqlSafe(write));
        for cells in stats.iter().map(StatCells::of) {
            write = write.bind(minute).bind(cells.queue).bind(cells.level).bind(process.to_string()).bind(cells.lanes);
            write = cells.numbers.into_iter().fold(write, sqlx::query::Query::bind);
            write = write.bind(cells.waiting).bind(cells.running);
        }
        self.own.execute(write).await?;
        Ok(())
    }

    /// Looks first: nothing is written where there is nothing to forget.
    async fn prune(&self, retention: Retention) -> Result<()> {
        let (stat, audit) = (&self.shared.schema.stat, &self.shared.schema.audit);
        let look = format!(
            "select {NOW} / 60 - $1, (select min(minute) from {stat} where minute < {NOW} / 60 - $1), \
             (select id from (select id, at from {audit} order by id limit 1) first where at < now() - $2 * interval '1 second')"
        );
        let look = sqlx::query(AssertSqlSafe(look)).bind(retention.stat_minutes()).bind(retention.audit_seconds());
        let found = self.own.fetch_one(look).await?;
        if let Some(oldest) = found.try_get(1)? {
            let forget = format!("delete from {stat} where minute < $1");
            let before = ichido_sql::forgotten_before(oldest, found.try_get(0)?);
            self.own.execute(sqlx::query(AssertSqlSafe(forget)).bind(before)).await?;
        }
        if let Some(first) = found.try_get::<Option<i64>, _>(2)? {
            let forget = format!("delete from {audit} where id < $1 and at < now() - $2 * interval '1 second'");
            let forget = sqlx::query(AssertSqlSafe(forget)).bind(first.saturating_add(NOTES_AT_A_TIME));
            self.own.execute(forget.bind(retention.audit_seconds())).await?;
        }
        self.forget_inbox(retention).await
    }
}

impl Postgres {
    pub(crate) async fn read_stats(&self, last: Duration) -> Result<Vec<StatRow>> {
        self.queues().await?;
        let read = format!(
            "select process::text, {NOW} - minute * 60, queue, level, {} from {} where minute >= ({NOW} - $1) / 60 \
             order by minute desc limit {MOST_STATS}",
            ichido_sql::STAT_VALUES.join(", "),
            self.shared.schema.stat
        );
        let seconds = i64::try_from(last.as_secs()).unwrap_or(i64::MAX / 2);
        let rows = self.own.fetch_all(sqlx::query(AssertSqlSafe(read)).bind(seconds)).await?;
        rows.iter().map(stat_row).collect()
    }
}

fn stat_row(row: &PgRow) -> Result<StatRow> {
    let mut cells = StatCells {
        queue: row.try_get(2)?,
        level: row.try_get(3)?,
        lanes: row.try_get(4)?,
        waiting: row.try_get(15)?,
        running: row.try_get(16)?,
        ..StatCells::default()
    };
    for (at, number) in cells.numbers.iter_mut().enumerate() {
        *number = row.try_get(5 + at)?;
    }
    cells.row(row.try_get(0)?, row.try_get(1)?)
}
