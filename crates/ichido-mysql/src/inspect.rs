//! What operators see: counts, processes, parked messages, statements and warnings.

use std::time::Duration;

use ichido::{Inspect, Messages, error::Result};
use ichido_sql::{Kind, SqlStore, verbs};
use sqlx::Row;

use crate::{MySql, statements::Statements};

impl Inspect for MySql {
    ichido_sql::inspect!();

    async fn warnings(&self, lease: Duration) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let flush = || sqlx::query("show variables like 'innodb_flush_log_at_trx_commit'");
        let flush = self.rows_alone(flush).await?;
        let flush = flush.first().map(|row| row.try_get::<String, _>(1)).transpose()?;
        if flush.is_some_and(|value| value != "1") {
            warnings.push(
                "innodb_flush_log_at_trx_commit is not 1: a crash of the server can lose the last commits".into(),
            );
        }
        for queue in self.queues().await?.iter().filter(|queue| queue.kind == Kind::Table) {
            let claims = self.is_indexed(queue, &queue.rows.owner.name).await?;
            let groups = match &queue.mapping.group {
                Some(group) => self.is_indexed(queue, &queue.rows.column(group)?.name).await?,
                None => true,
            };
            warnings.extend(ichido_sql::missing_indexes(queue, claims, true, groups));
        }
        let oldest = self.oldest_snapshot().await?;
        warnings.extend(oldest.and_then(|(session, seconds)| ichido_sql::old_snapshot(&session, seconds)));
        warnings.extend(verbs::inspect::long_messages(self, lease).await?);
        Ok(warnings)
    }
}

impl MySql {
    /// Is the column one of the first two of an index, alone or behind the status?
    async fn is_indexed(&self, queue: &Statements, column: &str) -> Result<bool> {
        let look = "select count(*) from information_schema.statistics where table_schema = coalesce(?, database()) and table_name = ? \
             and seq_in_index <= 2 and column_name = ?";
        let Some((schema, table)) = self.table_of(&queue.queue) else { return Ok(true) };
        let indexed = || sqlx::query(look).bind(schema.clone()).bind(table.clone()).bind(column.to_owned());
        let indexed = self.rows_alone(indexed).await?;
        Ok(indexed.first().map(|row| row.try_get::<i64, _>(0)).transpose()?.is_some_and(|count| count > 0))
    }

    /// The schema and the table of a table queue, as the configuration names them.
    fn table_of(&self, name: &str) -> Option<(Option<String>, String)> {
        let queue = self.shared.known.configured.iter().find(|queue| &*queue.name == name)?;
        match &queue.place {
            ichido::message::Place::Table(table) => Some((table.schema.clone(), table.name.clone())),
            _ => None,
        }
    }

    /// A snapshot that is held open keeps every old version of a row alive. The session and its age in seconds,
    /// for whoever may see other sessions.
    async fn oldest_snapshot(&self) -> Result<Option<(String, i64)>> {
        // The server tells that time in its own zone, whatever the session's is.
        let oldest = "select cast(trx_mysql_thread_id as char), timestampdiff(second, convert_tz(trx_started, 'SYSTEM', '+00:00'), utc_timestamp()) from information_schema.innodb_trx \
             where trx_mysql_thread_id <> connection_id() order by trx_started limit 1";
        match self.rows_alone(|| sqlx::query(oldest)).await.as_deref() {
            Ok([row, ..]) => Ok(Some((row.try_get(0)?, row.try_get(1)?))),
            Ok([]) => Ok(None),
            Err(error) => {
                tracing::debug!(%error, "cannot see other sessions");
                Ok(None)
            }
        }
    }
}

impl Messages for MySql {
    ichido_sql::messages!();
}

#[cfg(test)]
mod tests {
    use ichido::Operate;
    use ichido_test_servers as servers;
    use sqlx::{Connection, MySqlConnection};

    use super::*;

    #[tokio::test]
    async fn the_session_that_has_held_a_snapshot_open_is_found_with_its_age() {
        let url = servers::MariaDb::shared().fresh_database();
        let store = MySql::new(&url, None, 4, false, Vec::new()).unwrap();
        store.migrate().await.unwrap();
        let mut holder = MySqlConnection::connect(&url).await.unwrap();
        let mut holder = holder.begin_with("start transaction with consistent snapshot").await.unwrap();
        let session: String =
            sqlx::query("select cast(connection_id() as char)").fetch_one(&mut *holder).await.unwrap().get(0);
        let (mut found, mut age) = (String::new(), -1);
        let begun = std::time::Instant::now();
        while found != session || age == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{found} for {age} s");
            // The server renews what it tells only when nobody has asked for a tenth of a second.
            tokio::time::sleep(Duration::from_millis(120)).await;
            (found, age) = store.oldest_snapshot().await.unwrap().unwrap_or_default();
        }
        assert!((1..60).contains(&age), "{found} for {age} s");
        holder.rollback().await.unwrap();
        while store.oldest_snapshot().await.unwrap().is_some_and(|(found, _)| found == session) {
            tokio::time::sleep(Duration::from_millis(120)).await;
        }
    }
}
