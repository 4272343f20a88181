//! What processes have counted, minute by minute: written whole, read for the last minutes, forgotten when it is old.

use std::time::Duration;

use ichido::{
    Result,
    process::Retention,
    stat::{Stat, StatRow},
    store::{ProcessId, Stats},
};
use ichido_sql::{MOST_STATS, NOTES_AT_A_TIME, STAT_KEY, StatCells};
use sqlx::{AssertSqlSafe, Row, sqlite::SqliteRow};

use crate::Sqlite;

/// A row as it is written.
const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Seconds since 1970.
const NOW: &str = "unixepoch()";

impl Stats for Sqlite {
    async fn note_longest(&self, queue: &str, time: Duration) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        let note = sqlx::query(
            "insert into ichido_longest (queue, longest_us) values (?1, ?2) on conflict (queue) do update \
             set longest_us = excluded.longest_us, at = excluded.at where longest_us < excluded.longest_us",
        );
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        note.bind(queue).bind(time).execute(tx.connection()).await?;
        tx.commit().await
    }

    async fn note_stats(&self, process: ProcessId, minute: i64, stats: &[Stat]) -> Result<()> {
        if stats.is_empty() {
            return Ok(());
        }
        let write = format!(
            "insert into ichido_stat ({}) values {} on conflict ({STAT_KEY}) do update set {}",
            ichido_sql::stat_columns(),
            vec![ROW; stats.len()].join(", "),
            ichido_sql::stat_assignments(|column| format!("excluded.{column}"))
        );
        let mut write = sqlx::query(AssertSqlSafe(write));
        for cells in stats.iter().map(StatCells::of) {
            write = write.bind(minute).bind(cells.queue).bind(cells.level).bind(process.to_string()).bind(cells.lanes);
            write = cells.numbers.into_iter().fold(write, sqlx::query::Query::bind);
            write = write.bind(cells.waiting).bind(cells.running);
        }
        let mut tx = self.begin_tx().await?;
        write.execute(tx.connection()).await?;
        tx.commit().await
    }

    /// Looks first: nothing is written where there is nothing to forget.
    async fn prune(&self, retention: Retention) -> Result<()> {
        let look = format!(
            "select {NOW} / 60 - ?1, (select min(minute) from ichido_stat where minute < {NOW} / 60 - ?1), \
             (select id from (select id, at from ichido_audit order by id limit 1) where at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2))"
        );
        let age = format!("-{} seconds", retention.audit_seconds());
        let look = sqlx::query(AssertSqlSafe(look)).bind(retention.stat_minutes()).bind(&age);
        let found = look.fetch_one(&self.readers).await?;
        if let Some(oldest) = found.try_get(1)? {
            let before = ichido_sql::forgotten_before(oldest, found.try_get(0)?);
            let mut tx = self.begin_tx().await?;
            let forget = sqlx::query("delete from ichido_stat where minute < ?").bind(before);
            forget.execute(tx.connection()).await?;
            tx.commit().await?;
        }
        if let Some(first) = found.try_get::<Option<i64>, _>(2)? {
            let mut tx = self.begin_tx().await?;
            let forget = "delete from ichido_audit where id < ? and at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)";
            let forget = sqlx::query(forget).bind(first.saturating_add(NOTES_AT_A_TIME)).bind(age);
            forget.execute(tx.connection()).await?;
            tx.commit().await?;
        }
        self.forget_inbox(retention).await
    }
}

impl Sqlite {
    pub(crate) async fn read_stats(&self, last: Duration) -> Result<Vec<StatRow>> {
        self.queues().await?;
        let read = format!(
            "select process, {NOW} - minute * 60, queue, level, {} from ichido_stat where minute >= ({NOW} - ?) / 60 \
             order by minute desc limit {MOST_STATS}",
            ichido_sql::STAT_VALUES.join(", ")
        );
        let seconds = i64::try_from(last.as_secs()).unwrap_or(i64::MAX / 2);
        let rows = sqlx::query(AssertSqlSafe(read)).bind(seconds).fetch_all(&self.readers).await?;
        rows.iter().map(stat_row).collect()
    }
}

fn stat_row(row: &SqliteRow) -> Result<StatRow> {
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
    cells.row(row.try_get::<&str, _>(0)?, row.try_get(1)?)
}
