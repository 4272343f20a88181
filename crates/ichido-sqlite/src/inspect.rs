//! What operators see: counts, processes, parked messages, statements and warnings.

use std::time::Duration;

use ichido::{
    Inspect, MessageId, Operate, Result,
    inspect::Statement,
    store::{MigrateOptions, Migration},
};
use ichido_sql::{Kind, SqlStore, verbs};
use sqlx::{AssertSqlSafe, Row};

use crate::{Sqlite, adopt, value};

impl Inspect for Sqlite {
    ichido_sql::inspect!();

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
        warnings.extend(verbs::inspect::long_messages(self, lease).await?);
        Ok(warnings)
    }

    async fn columns(&self, queue: &str) -> Result<Option<Vec<String>>> {
        let rows = &self.queue(queue).await?.rows;
        Ok((rows.kind == Kind::Table).then(|| rows.columns.iter().map(|column| column.name.clone()).collect()))
    }
}

impl Sqlite {
    /// Asks the planner: are rows read that no index says to be wanted?
    async fn scans(&self, look: &str) -> Result<bool> {
        let plan = sqlx::query(AssertSqlSafe(format!("explain query plan {look}"))).fetch_all(&self.readers).await?;
        let mut steps = plan.iter().filter_map(|row| row.try_get::<String, _>("detail").ok());
        Ok(steps.any(|step| step.starts_with("SCAN") && !step.contains("USING") || step.contains("TEMP B-TREE")))
    }
}

impl Operate for Sqlite {
    async fn migrate_with(&self, options: MigrateOptions) -> Result<Migration> {
        self.migrate_schema(&options).await
    }

    async fn pending(&self) -> Result<Migration> {
        self.pending_schema().await
    }

    ichido_sql::operate!();
}
