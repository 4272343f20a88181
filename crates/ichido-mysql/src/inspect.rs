//! What operators see: counts, processes, parked messages, statements and warnings.

use std::time::Duration;

use ichido::{
    Inspect, MessageId, Operate, Result,
    broker::{MutexFilter, MutexRow, Orphan},
    inspect::{Overview, Parked, ParkedFilter, ProcessState, QueueCounts, Statement},
    process::{Flag, RequestState},
    stat::StatRow,
    store::{MigrateOptions, Migration, ProcessId},
};
use sqlx::{AssertSqlSafe, Row};

use crate::{
    MySql,
    parked::UTC,
    statements::{Kind, Statements},
};

impl Inspect for MySql {
    async fn overview(&self) -> Result<Overview> {
        let mut queues = Vec::new();
        for queue in self.queues().await? {
            let rows = sqlx::query(AssertSqlSafe(queue.counts.clone())).fetch_one(&self.own).await?;
            let parked = format!(
                "select cast(coalesce(sum(state = 'waiting'), 0) as signed), cast(coalesce(sum(state = 'dead'), 0) as signed), \
                 (select count(*) from {} where queue = ? and owner = '{}') from {} where queue = ?",
                self.shared.schema.group,
                ProcessId::NOBODY,
                self.shared.schema.parked
            );
            let parked = sqlx::query(AssertSqlSafe(parked)).bind(&*queue.queue).bind(&*queue.queue);
            let parked = parked.fetch_one(&self.own).await?;
            queues.push(QueueCounts {
                queue: queue.queue.to_string(),
                ready: rows.try_get(0)?,
                claimed: rows.try_get(1)?,
                waiting: parked.try_get(0)?,
                failed: parked.try_get(1)?,
                oldest_seconds: rows.try_get(2)?,
                recent: rows.try_get(3)?,
                held_groups: parked.try_get(2)?,
                outbox: self.outbox_of(queue).await?,
            });
        }
        Ok(Overview::new(queues, self.process_states().await?, self.request_states().await?))
    }

    async fn stats(&self, last: Duration) -> Result<Vec<StatRow>> {
        self.read_stats(last).await
    }

    async fn requests(&self) -> Result<Vec<RequestState>> {
        self.request_states().await
    }

    async fn parked(&self, filter: &ParkedFilter) -> Result<Vec<Parked>> {
        self.queues().await?;
        let states = if filter.waiting { "'dead', 'waiting'" } else { "'dead'" };
        let parked = format!(
            "select queue, convert(`key` using utf8mb4), state, cast(attempts as signed), date_format(due_at, {UTC}), date_format(parked_at, {UTC}), history \
             from {} where state in ({states}) and (? is null or queue = ?) and (? is null or `key` = ?) \
             and parked_at <= utc_timestamp(6) - interval ? microsecond order by parked_at limit ?",
            self.shared.schema.parked
        );
        let queue = filter.id.as_ref().map(|id| id.queue.to_string()).or_else(|| filter.queue.clone());
        let key = filter.id.as_ref().map(|id| id.key.to_string().into_bytes());
        let parked = sqlx::query(AssertSqlSafe(parked)).bind(&queue).bind(&queue).bind(&key).bind(&key);
        let parked = parked.bind(filter.older_ms() * 1000).bind(filter.rows()).fetch_all(&self.own).await?;
        let read = |row: &sqlx::mysql::MySqlRow| {
            let id = format!("{}/{}", row.try_get::<String, _>(0)?, row.try_get::<String, _>(1)?);
            let (state, history): (String, String) = (row.try_get(2)?, row.try_get(6)?);
            Ok(Parked::new(id, &state, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?, &history))
        };
        Ok(filter.keep(parked.iter().map(read).collect::<Result<_>>()?))
    }

    async fn payload(&self, id: &MessageId) -> Result<Option<String>> {
        let queue = self.queue(&id.queue).await?;
        queue.refuse_key(&id.key)?;
        let mut payload = sqlx::query(AssertSqlSafe(queue.payload.clone()));
        for column in id.key.columns() {
            payload = payload.bind(column);
        }
        let row = payload.fetch_optional(&self.own).await?;
        if queue.mutex.is_some() {
            let bytes = row.map(|row| row.try_get::<Option<Vec<u8>>, _>(0)).transpose()?.flatten();
            return Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn statements(&self) -> Result<Vec<Statement>> {
        let queues = self.queues().await?.iter();
        let all = queues.flat_map(|queue| {
            queue.all().into_iter().map(|(verb, sql)| Statement { queue: queue.queue.to_string(), verb, sql })
        });
        Ok(all.collect())
    }

    async fn warnings(&self, lease: Duration) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let flush =
            sqlx::query("show variables like 'innodb_flush_log_at_trx_commit'").fetch_optional(&self.own).await?;
        let flush = flush.map(|row| row.try_get::<String, _>(1)).transpose()?;
        if flush.is_some_and(|value| value != "1") {
            warnings.push(
                "innodb_flush_log_at_trx_commit is not 1: a crash of the server can lose the last commits".into(),
            );
        }
        for queue in self.queues().await?.iter().filter(|queue| queue.rows.kind == Kind::Table) {
            let groups = queue.groups.as_ref();
            if !groups.is_some_and(|groups| groups.all) && !self.is_indexed(queue, &queue.rows.owner.name).await? {
                warnings.push(ichido_sql::no_claim_index(&queue.queue));
            }
            if let Some(group) = &queue.rows.mapping.group
                && !self.is_indexed(queue, &queue.rows.column(group)?.name).await?
            {
                warnings.push(ichido_sql::no_group_index(&queue.queue));
            }
        }
        let oldest = self.oldest_snapshot().await?;
        warnings.extend(oldest.and_then(|(session, seconds)| ichido_sql::old_snapshot(&session, seconds)));
        warnings.extend(self.long_messages(lease).await?);
        Ok(warnings)
    }

    async fn columns(&self, queue: &str) -> Result<Option<Vec<String>>> {
        let rows = &self.queue(queue).await?.rows;
        Ok((rows.kind == Kind::Table).then(|| rows.columns.iter().map(|column| column.name.clone()).collect()))
    }

    async fn mutexes(&self, queue: &str, which: MutexFilter<'_>) -> Result<Vec<MutexRow>> {
        self.mutexes_of(queue, which).await
    }

    async fn orphans(&self, queue: &str) -> Result<Vec<Orphan>> {
        self.orphans_of(queue).await
    }
}

impl MySql {
    /// Is the column one of the first two of an index, alone or behind the status?
    async fn is_indexed(&self, queue: &Statements, column: &str) -> Result<bool> {
        let indexed = sqlx::query(
            "select count(*) from information_schema.statistics where table_schema = coalesce(?, database()) and table_name = ? \
             and seq_in_index <= 2 and column_name = ?",
        );
        let Some((schema, table)) = self.table_of(&queue.queue) else { return Ok(true) };
        let indexed = indexed.bind(schema).bind(table).bind(column).fetch_one(&self.own).await?;
        Ok(indexed.try_get::<i64, _>(0)? > 0)
    }

    /// The schema and the table of a table queue, as the configuration names them.
    fn table_of(&self, name: &str) -> Option<(Option<String>, String)> {
        let queue = self.shared.queues.iter().find(|queue| &*queue.name == name)?;
        match &queue.place {
            ichido::message::Place::Table(table) => Some((table.schema.clone(), table.name.clone())),
            _ => None,
        }
    }

    async fn long_messages(&self, lease: Duration) -> Result<Vec<String>> {
        let long = format!("select queue, longest_us from {} order by queue", self.shared.schema.longest);
        let long = sqlx::query(AssertSqlSafe(long)).fetch_all(&self.own).await?;
        let read = |row: &sqlx::mysql::MySqlRow| Ok((row.try_get(0)?, row.try_get(1)?));
        Ok(ichido_sql::long_messages(long.iter().map(read).collect::<Result<_>>()?, lease))
    }

    /// A snapshot that is held open keeps every old version of a row alive. The session and its age in seconds,
    /// for whoever may see other sessions.
    async fn oldest_snapshot(&self) -> Result<Option<(String, i64)>> {
        // The server tells that time in its own zone, whatever the session's is.
        let oldest = sqlx::query(
            "select cast(trx_mysql_thread_id as char), timestampdiff(second, convert_tz(trx_started, 'SYSTEM', '+00:00'), utc_timestamp()) from information_schema.innodb_trx \
             where trx_mysql_thread_id <> connection_id() order by trx_started limit 1",
        );
        match oldest.fetch_optional(&self.own).await {
            Ok(Some(row)) => Ok(Some((row.try_get(0)?, row.try_get(1)?))),
            Ok(None) => Ok(None),
            Err(error) => {
                tracing::debug!(%error, "other sessions are not visible");
                Ok(None)
            }
        }
    }

    async fn process_states(&self) -> Result<Vec<ProcessState>> {
        let states = format!(
            "select id, request_id, host, pid, timestampdiff(second, started_at, utc_timestamp(6)), \
             cast(heartbeat_at > utc_timestamp(6) - interval lease_us microsecond as signed) from {} order by started_at",
            self.shared.schema.process
        );
        let states = sqlx::query(AssertSqlSafe(states)).fetch_all(&self.own).await?;
        let read = |row: &sqlx::mysql::MySqlRow| {
            Ok(ProcessState {
                id: row.try_get(0)?,
                request_id: row.try_get(1)?,
                host: row.try_get(2)?,
                pid: row.try_get(3)?,
                age_seconds: row.try_get(4)?,
                alive: row.try_get::<i64, _>(5)? == 1,
            })
        };
        states.iter().map(read).collect()
    }
}

impl Operate for MySql {
    async fn migrate_with(&self, options: MigrateOptions) -> Result<Migration> {
        self.migrate_schema(&options).await
    }

    async fn pending(&self) -> Result<Migration> {
        self.pending_schema().await
    }

    async fn retry(&self, id: &MessageId) -> Result<bool> {
        self.retry_message(id).await
    }

    async fn discard(&self, id: &MessageId) -> Result<bool> {
        self.discard_message(id).await
    }

    async fn give_back(&self, queue: &str, orphan: &Orphan) -> Result<bool> {
        self.give_back_orphan(queue, orphan).await
    }

    async fn set_flag(&self, request_id: &str, flag: Flag, on: bool) -> Result<bool> {
        self.write_flag(request_id, flag, on).await
    }
}

#[cfg(test)]
mod tests {
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
