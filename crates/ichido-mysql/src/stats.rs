//! What processes have counted, minute by minute: written whole, read for the last minutes, forgotten when it is old.

use std::time::Duration;

use ichido::{
    Result,
    process::Retention,
    stat::{Stat, StatRow},
    store::{ProcessId, Stats},
};
use ichido_sql::{MOST_STATS, NOTES_AT_A_TIME, StatCells};
use sqlx::{AssertSqlSafe, Row, mysql::MySqlRow};

use crate::MySql;

/// A row as it is written.
const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Seconds since 1970.
const NOW: &str = "unix_timestamp()";

impl Stats for MySql {
    async fn note_longest(&self, queue: &str, time: Duration) -> Result<()> {
        let note = format!(
            "insert into {} (queue, longest_us) values (?, ?) on duplicate key update longest_us = greatest(longest_us, values(longest_us))",
            self.shared.schema.longest
        );
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        sqlx::query(AssertSqlSafe(note)).bind(queue).bind(time).execute(&self.own).await?;
        Ok(())
    }

    async fn note_stats(&self, process: ProcessId, minute: i64, stats: &[Stat]) -> Result<()> {
        if stats.is_empty() {
            return Ok(());
        }
        let write = format!(
            "insert into {} ({}) values {} on duplicate key update {}",
            self.shared.schema.stat,
            ichido_sql::stat_columns(),
            vec![ROW; stats.len()].join(", "),
            ichido_sql::stat_assignments(|column| format!("values({column})"))
        );
        let mut write = sqlx::query(AssertSqlSafe(write));
        for cells in stats.iter().map(StatCells::of) {
            write = write.bind(minute).bind(cells.queue).bind(cells.level).bind(process.to_string()).bind(cells.lanes);
            write = cells.numbers.into_iter().fold(write, sqlx::query::Query::bind);
            write = write.bind(cells.waiting).bind(cells.running);
        }
        write.execute(&self.own).await?;
        Ok(())
    }

    /// Looks first: nothing is written where there is nothing to forget.
    async fn prune(&self, retention: Retention) -> Result<()> {
        let (stat, audit) = (&self.shared.schema.stat, &self.shared.schema.audit);
        let look = format!(
            "select cast({NOW} div 60 - ? as signed), (select min(minute) from {stat} where minute < {NOW} div 60 - ?), \
             (select id from (select id, at from {audit} order by id limit 1) first where at < current_timestamp(6) - interval ? second)"
        );
        let (minutes, seconds) = (retention.stat_minutes(), retention.audit_seconds());
        let look = sqlx::query(AssertSqlSafe(look)).bind(minutes).bind(minutes).bind(seconds);
        let found = look.fetch_one(&self.own).await?;
        if let Some(oldest) = found.try_get(1)? {
            let forget = format!("delete from {stat} where minute < ?");
            let before = ichido_sql::forgotten_before(oldest, found.try_get(0)?);
            sqlx::query(AssertSqlSafe(forget)).bind(before).execute(&self.own).await?;
        }
        if let Some(first) = found.try_get::<Option<i64>, _>(2)? {
            let forget = format!("delete from {audit} where id < ? and at < current_timestamp(6) - interval ? second");
            let forget = sqlx::query(AssertSqlSafe(forget)).bind(first.saturating_add(NOTES_AT_A_TIME));
            forget.bind(seconds).execute(&self.own).await?;
        }
        self.forget_inbox(retention).await
    }
}

impl MySql {
    pub(crate) async fn read_stats(&self, last: Duration) -> Result<Vec<StatRow>> {
        self.queues().await?;
        let read = format!(
            "select process, cast({NOW} - minute * 60 as signed), queue, level, {} from {} where minute >= ({NOW} - ?) div 60 \
             order by minute desc limit {MOST_STATS}",
            ichido_sql::STAT_VALUES.join(", "),
            self.shared.schema.stat
        );
        let seconds = i64::try_from(last.as_secs()).unwrap_or(i64::MAX / 2);
        let rows = sqlx::query(AssertSqlSafe(read)).bind(seconds).fetch_all(&self.own).await?;
        rows.iter().map(stat_row).collect()
    }
}

fn stat_row(row: &MySqlRow) -> Result<StatRow> {
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
