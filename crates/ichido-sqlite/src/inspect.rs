//! What operators see: counts, processes, parked messages, statements and warnings.

use std::time::Duration;

use ichido::{
    Inspect, MessageId, Operate, Result,
    broker::{MutexFilter, MutexRow, Orphan},
    inspect::{Overview, Parked, ParkedFilter, ProcessState, QueueCounts, Statement},
    process::{Flag, RequestState},
    stat::StatRow,
    store::{MigrateOptions, Migration},
};
use sqlx::{AssertSqlSafe, Row};

use crate::{Sqlite, adopt, statements::Kind, value};

impl Inspect for Sqlite {
    async fn overview(&self) -> Result<Overview> {
        let mut queues = Vec::new();
        for queue in self.queues().await? {
            let rows = sqlx::query(AssertSqlSafe(queue.counts.clone())).fetch_one(&self.readers).await?;
            let parked = sqlx::query(
                "select count(*) filter (where state = 'waiting'), count(*) filter (where state = 'dead'), \
                 (select count(*) from ichido_group where queue = ?1 and key is not null) from ichido_parked where queue = ?1",
            );
            let parked = parked.bind(&*queue.queue).fetch_one(&self.readers).await?;
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
        let queue = filter.id.as_ref().map(|id| id.queue.to_string()).or_else(|| filter.queue.clone());
        let key = filter.id.as_ref().map(|id| id.key.to_string());
        let parked = sqlx::query(
            "select queue, key, state, attempts, due_at, parked_at, history from ichido_parked \
             where (state = 'dead' or (state = 'waiting' and ?1)) and (?2 is null or queue = ?2) and (?3 is null or key = ?3) \
             and parked_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?5) order by parked_at limit ?4",
        );
        let parked = parked
            .bind(filter.waiting)
            .bind(queue)
            .bind(key)
            .bind(filter.rows())
            .bind(format!("-{}.{:03} seconds", filter.older_ms() / 1000, filter.older_ms() % 1000))
            .fetch_all(&self.readers)
            .await?;
        let read = |row: &sqlx::sqlite::SqliteRow| {
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
        let Some(row) = payload.fetch_optional(&self.readers).await? else { return Ok(None) };
        if queue.rows.kind != Kind::Table {
            let bytes: Option<Vec<u8>> = row.try_get(1)?;
            return Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
        let columns = value::object(&row, queue.rows.key.len(), &queue.rows.columns)?;
        Ok(Some(serde_json::to_string(&columns)?))
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
        let mut tx = self.begin_tx().await?;
        let synchronous = sqlx::query("pragma synchronous").fetch_one(tx.connection()).await?;
        tx.rollback().await?;
        if synchronous.try_get::<i64, _>(0)? < 2 {
            warnings.push("synchronous is not FULL: a loss of power can lose the last commits".into());
        }
        for queue in self.queues().await?.iter().filter(|queue| queue.rows.kind == Kind::Table) {
            let groups = queue.groups.as_ref();
            let mut connection = self.readers.acquire().await?;
            let by_index = adopt::explain(&mut connection, &queue.rows, &queue.pick).await?.1;
            if !groups.is_some_and(|groups| groups.all) && !by_index {
                warnings.push(ichido_sql::no_claim_index(&queue.queue));
            }
            if let Some(groups) = groups
                && self.scans(&groups.walk).await?
            {
                warnings.push(ichido_sql::no_group_index(&queue.queue));
            }
        }
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

impl Sqlite {
    /// Asks the planner: are rows read that no index says to be wanted?
    async fn scans(&self, look: &str) -> Result<bool> {
        let plan = sqlx::query(AssertSqlSafe(format!("explain query plan {look}"))).fetch_all(&self.readers).await?;
        let mut steps = plan.iter().filter_map(|row| row.try_get::<String, _>("detail").ok());
        Ok(steps.any(|step| step.starts_with("SCAN") && !step.contains("USING") || step.contains("TEMP B-TREE")))
    }

    async fn long_messages(&self, lease: Duration) -> Result<Vec<String>> {
        let long =
            sqlx::query("select queue, longest_us from ichido_longest order by queue").fetch_all(&self.readers).await?;
        let read = |row: &sqlx::sqlite::SqliteRow| Ok((row.try_get(0)?, row.try_get(1)?));
        Ok(ichido_sql::long_messages(long.iter().map(read).collect::<Result<_>>()?, lease))
    }

    async fn process_states(&self) -> Result<Vec<ProcessState>> {
        let states = sqlx::query(
            "select id, request_id, host, pid, cast((julianday('now') - julianday(started_at)) * 86400 as integer) \
             from ichido_process order by started_at",
        );
        let states = states.fetch_all(&self.readers).await?;
        let read = |row: &sqlx::sqlite::SqliteRow| {
            let id: String = row.try_get(0)?;
            Ok(ProcessState {
                alive: self.shared.alive.dead(id.parse()?)?.is_none(),
                id,
                request_id: row.try_get(1)?,
                host: row.try_get(2)?,
                pid: row.try_get(3)?,
                age_seconds: row.try_get(4)?,
            })
        };
        states.iter().map(read).collect()
    }
}

impl Operate for Sqlite {
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
