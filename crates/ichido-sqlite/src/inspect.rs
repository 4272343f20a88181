//! What operators see: counts, processes, parked messages, statements and warnings.

use std::time::Duration;

use ichido::{Inspect, error::Result};
use ichido_sql::{Kind, SqlStore, verbs};
use sqlx::{AssertSqlSafe, Row};

use crate::{Sqlite, adopt};

impl Inspect for Sqlite {
    ichido_sql::inspect!();

    async fn warnings(&self, lease: Duration) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let mut tx = self.begin_tx().await?;
        let synchronous = sqlx::query("pragma synchronous").fetch_one(tx.connection()).await?;
        tx.rollback().await?;
        if synchronous.try_get::<i64, _>(0)? < 2 {
            warnings.push("synchronous is not FULL: a power failure can lose the last commits".into());
        }
        for queue in self.queues().await?.iter().filter(|queue| queue.kind == Kind::Table) {
            let mut connection = self.readers.acquire().await?;
            let claims = adopt::explain(&mut connection, &queue.rows, &queue.pick).await?.1;
            let groups = match &queue.groups {
                Some(groups) => !self.scans(&groups.walk).await?,
                None => true,
            };
            warnings.extend(ichido_sql::missing_indexes(queue, claims, groups));
        }
        warnings.extend(verbs::inspect::long_messages(self, lease).await?);
        Ok(warnings)
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
