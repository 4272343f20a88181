//! What operators see: counts, processes, parked messages, statements and warnings.

use std::time::Duration;

use ichido::{
    Inspect, Messages, Operate,
    error::Result,
    store::{MigrateOptions, Migration},
};
use ichido_sql::{Kind, SqlStore, verbs};
use sqlx::{AssertSqlSafe, Row};

use crate::{Sqlite, adopt, statements::Statements};

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
        for queue in self.queues().await?.iter().filter(|queue| queue.rows.kind == Kind::Table) {
            let groups = queue.grouped.as_ref();
            let mut connection = self.readers.acquire().await?;
            let by_index = adopt::explain(&mut connection, &queue.rows, &queue.pick).await?.1;
            if !groups.is_some_and(|groups| groups.all) && !by_index {
                warnings.push(ichido_sql::no_claim_index(&queue.queue));
            }
            if let Some(groups) = &queue.groups
                && self.scans(&groups.walk).await?
            {
                warnings.push(ichido_sql::no_group_index(&queue.queue));
            }
        }
        warnings.extend(verbs::inspect::long_messages(self, lease).await?);
        Ok(warnings)
    }
}

impl Sqlite {
    /// Asks the planner: are the rows of an owner found by the owner?
    pub(crate) async fn finds_owner_by_index(&self, queue: &Statements) -> Result<bool> {
        let (table, owner, nobody) = (&queue.rows.table, &queue.rows.owner, &queue.conditions.nobody);
        let look = format!("select 1 from {table} t where t.{} = {nobody} and {}", owner.quoted, queue.conditions.new);
        // A plan that is kept prepared does not learn of an index that was added since.
        let plan = sqlx::query(AssertSqlSafe(format!("explain query plan {look}"))).persistent(false);
        let plan = plan.fetch_all(&self.readers).await?;
        let mut steps = plan.iter().filter_map(|row| row.try_get::<String, _>("detail").ok());
        Ok(steps.any(|step| step.starts_with("SEARCH") && step.contains(&format!("{}=?", owner.name))))
    }

    /// Asks the planner: are rows read that no index says to be wanted?
    async fn scans(&self, look: &str) -> Result<bool> {
        let plan = sqlx::query(AssertSqlSafe(format!("explain query plan {look}"))).fetch_all(&self.readers).await?;
        let mut steps = plan.iter().filter_map(|row| row.try_get::<String, _>("detail").ok());
        Ok(steps.any(|step| step.starts_with("SCAN") && !step.contains("USING") || step.contains("TEMP B-TREE")))
    }
}

impl Messages for Sqlite {
    ichido_sql::messages!();
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
