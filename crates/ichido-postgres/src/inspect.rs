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

use crate::{Postgres, adopt, parked::UTC, statements::Kind};

impl Inspect for Postgres {
    async fn overview(&self) -> Result<Overview> {
        let mut queues = Vec::new();
        for queue in self.queues().await? {
            let rows = self.own.fetch_one(sqlx::query(AssertSqlSafe(queue.counts.clone()))).await?;
            let parked = format!(
                "select count(*) filter (where state = 'waiting'), count(*) filter (where state = 'dead'), \
                 (select count(*) from {} where queue = $1 and owner = '{}') from {} where queue = $1",
                self.shared.schema.group,
                ProcessId::NOBODY,
                self.shared.schema.parked
            );
            let parked = self.own.fetch_one(sqlx::query(AssertSqlSafe(parked)).bind(&*queue.queue)).await?;
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
        let states: &[&str] = if filter.waiting { &["dead", "waiting"] } else { &["dead"] };
        let parked = format!(
            "select queue, key, state, attempts::bigint, to_char(due_at at time zone 'utc', {UTC}), to_char(parked_at at time zone 'utc', {UTC}), history \
             from {} where state = any($1) and ($2::text is null or queue = $2) and ($3::text is null or key = $3) \
             and parked_at <= now() - $5 * interval '1 millisecond' order by parked_at limit $4",
            self.shared.schema.parked
        );
        let queue = filter.id.as_ref().map(|id| id.queue.to_string()).or_else(|| filter.queue.clone());
        let key = filter.id.as_ref().map(|id| id.key.to_string());
        let parked = sqlx::query(AssertSqlSafe(parked))
            .bind(states)
            .bind(queue)
            .bind(key)
            .bind(i64::from(filter.rows()))
            .bind(filter.older_ms());
        let parked = self.own.fetch_all(parked).await?;
        let read = |row: &sqlx::postgres::PgRow| {
            let id = format!("{}/{}", row.try_get::<&str, _>(0)?, row.try_get::<&str, _>(1)?);
            Ok(Parked::new(id, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?, row.try_get(6)?))
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
        let row = self.own.fetch_optional(payload).await?;
        if queue.mutex.is_some() {
            let bytes = row.map(|row| row.try_get::<Option<Vec<u8>>, _>(0)).transpose()?.flatten();
            return Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn statements(&self) -> Result<Vec<Statement>> {
        let queues = self.queues().await?.iter();
        let all = queues.flat_map(|queue| {
            queue.all().into_iter().map(|(verb, sql)| Statement {
                queue: queue.queue.to_string(),
                verb,
                sql: sql.to_string(),
            })
        });
        Ok(all.collect())
    }

    async fn warnings(&self, lease: Duration) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for (setting, consequence) in [
            ("fsync", "a crash of the server can destroy the database"),
            ("synchronous_commit", "a crash of the server can lose the last commits"),
        ] {
            let row = self.own.fetch_one(sqlx::query("select current_setting($1)").bind(setting)).await?;
            if row.try_get::<&str, _>(0)? == "off" {
                warnings.push(format!("{setting} is off: {consequence}"));
            }
        }
        for queue in self.queues().await?.iter().filter(|queue| queue.rows.kind == Kind::Table) {
            let groups = queue.groups.as_ref();
            if !groups.is_some_and(|groups| groups.all) && !self.claims_by_index(&queue.look).await? {
                warnings.push(ichido_sql::no_claim_index(&queue.queue));
            }
            if let Some(groups) = groups
                && !self.claims_by_index(&groups.look).await?
            {
                warnings.push(ichido_sql::no_group_index(&queue.queue));
            }
        }
        warnings.extend(self.own.unguarded().await?);
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

impl Postgres {
    async fn long_messages(&self, lease: Duration) -> Result<Vec<String>> {
        let long = format!("select queue, longest_us from {} order by queue", self.shared.schema.longest);
        let long = self.own.fetch_all(sqlx::query(AssertSqlSafe(long))).await?;
        let read = |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
        Ok(ichido_sql::long_messages(long.iter().map(read).collect::<Result<_>>()?, lease))
    }

    /// A snapshot that is held open keeps every done row alive for every claim to walk over. The session and its age in seconds.
    async fn oldest_snapshot(&self) -> Result<Option<(String, i64)>> {
        let oldest = sqlx::query(
            "select pid::text, extract(epoch from max(clock_timestamp() - xact_start))::bigint from pg_stat_activity \
             where backend_xmin is not null and pid <> pg_backend_pid() and datname = current_database() \
             group by pid order by 2 desc nulls last limit 1",
        );
        let Some(row) = self.own.fetch_optional(oldest).await? else { return Ok(None) };
        let (pid, seconds): (String, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Some((pid, seconds.unwrap_or_default())))
    }

    /// Asks the planner, with reading the whole table made unattractive: does an index serve the claim?
    async fn claims_by_index(&self, look: &str) -> Result<bool> {
        let mut tx = self.begin_own().await?;
        Ok(adopt::explain(&mut tx, look).await?.1)
    }

    async fn process_states(&self) -> Result<Vec<ProcessState>> {
        let states = format!(
            "select id::text, request_id, host, pid, extract(epoch from clock_timestamp() - started_at)::bigint, \
             heartbeat_at > clock_timestamp() - lease from {} order by started_at",
            self.shared.schema.process
        );
        let states = self.own.fetch_all(sqlx::query(AssertSqlSafe(states))).await?;
        let read = |row: &sqlx::postgres::PgRow| {
            Ok(ProcessState {
                id: row.try_get(0)?,
                request_id: row.try_get(1)?,
                host: row.try_get(2)?,
                pid: row.try_get(3)?,
                age_seconds: row.try_get(4)?,
                alive: row.try_get(5)?,
            })
        };
        states.iter().map(read).collect()
    }
}

impl Operate for Postgres {
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
    use sqlx::{Connection, PgConnection};

    use super::*;

    #[tokio::test]
    async fn the_session_that_has_held_a_snapshot_open_is_found_with_its_age() {
        let url = servers::Postgres::shared().fresh_database();
        let store = Postgres::new(&url, None, 4, Vec::new()).unwrap();
        assert_eq!(store.oldest_snapshot().await.unwrap(), None);
        let mut holder = PgConnection::connect(&url).await.unwrap();
        let mut holder = holder.begin_with("begin isolation level repeatable read").await.unwrap();
        let session: String =
            sqlx::query("select pg_backend_pid()::text").fetch_one(&mut *holder).await.unwrap().get(0);
        let (found, mut age) = store.oldest_snapshot().await.unwrap().unwrap();
        assert!(found == session && age < 60, "{found} for {age} s");
        let begun = std::time::Instant::now();
        while age == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not grow older");
            age = store.oldest_snapshot().await.unwrap().unwrap().1;
        }
        holder.rollback().await.unwrap();
        assert_eq!(store.oldest_snapshot().await.unwrap(), None);
    }
}
