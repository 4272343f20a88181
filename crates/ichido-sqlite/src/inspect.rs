//! What operators see: counts, processes, parked messages, statements and warnings.

use std::time::Duration;

use ichido::{Inspect, Messages, error::Result};
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
        for queue in self.queues().await?.iter().filter(|queue| queue.kind == Kind::Table) {
            let mut connection = self.readers.acquire().await?;
            let claims = adopt::explain(&mut connection, &queue.rows, &queue.pick).await?.1;
            drop(connection);
            let owners = self.finds_owner_by_index(queue).await?;
            let groups = match &queue.groups {
                Some(groups) => !self.scans(&groups.walk).await?,
                None => true,
            };
            warnings.extend(ichido_sql::missing_indexes(queue, claims, owners, groups));
        }
        warnings.extend(verbs::inspect::long_messages(self, lease).await?);
        Ok(warnings)
    }
}

impl Sqlite {
    /// Asks the planner: are the rows of an owner found by the owner?
    pub(crate) async fn finds_owner_by_index(&self, queue: &Statements) -> Result<bool> {
        let mut connection = self.readers.acquire().await?;
        // To explain is not to look: only a look tells a connection of an index that was added since it was opened.
        let look = format!("select 1 from {} limit 1", queue.rows.mapping.table);
        sqlx::query(AssertSqlSafe(look)).execute(&mut *connection).await?;
        adopt::finds_owner(&mut connection, &queue.rows).await
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    };

    use ichido::{Guarded, Operate, Queue, Status, Table, inspect::ParkedFilter, store::ProcessId};
    use ichido_testkit::{
        large::{PAGE, pages},
        size,
    };

    use super::*;

    /// More steps than a page takes, together with the window of those in groups; each row of a table takes several.
    const FEW: u64 = 60_000;

    /// A store that counts the steps of all that it reads.
    async fn counting(store: &Sqlite) -> Arc<AtomicU64> {
        let (steps, mut all) = (Arc::new(AtomicU64::new(0)), Vec::new());
        while all.len() < store.readers.options().get_max_connections() as usize {
            let (steps, mut connection) = (steps.clone(), store.readers.acquire().await.unwrap());
            connection.lock_handle().await.unwrap().set_progress_handler(100, move || {
                steps.fetch_add(100, Relaxed);
                true
            });
            all.push(connection);
        }
        steps
    }

    async fn filled(folder: &std::path::Path, rows: u32) -> Sqlite {
        let orders = Table::new("big_order", "process_id", Status::new("status", "0", "1").failed("2"));
        let paid = Queue::broker("paid", Guarded::new("", "paid").lease());
        let queues = vec![Queue::managed("mail"), Queue::table("orders", orders), paid];
        let store = Sqlite::new(&format!("sqlite://{}", folder.join("large.db").display()), queues).unwrap();
        store.migrate().await.unwrap();
        let (nobody, few) = (ProcessId::NOBODY, rows / 4);
        let series = format!("with recursive s(n) as (select 1 union all select n + 1 from s where n < {rows})");
        let fill = [
            "create table big_order (id integer primary key, status text default '0' not null, process_id text)".into(),
            format!(
                "insert into ichido_message (queue, owner, payload, group_key) {series} select 'mail', case when n % 10 < 8 then '{nobody}' end, '{{}}', \
                 case when n % 20 in (1, 9) then 'g' || ((n / 20) % 1000) end from s"
            ),
            "insert into ichido_parked (queue, key, state, attempts, due_at, parked_at) select 'mail', cast(id as text), case when id % 10 < 5 then 'waiting' \
             else 'dead' end, 1, case when id % 10 < 5 then strftime('%Y-%m-%dT%H:%M:%fZ', 2000000000 + id, 'unixepoch') end, \
             strftime('%Y-%m-%dT%H:%M:%fZ', 1000000000 - id, 'unixepoch') from ichido_message where owner is not null"
                .into(),
            format!(
                "insert into ichido_mutex (id, queue, owner) {series} select printf('%012d', n), case when n % 2 = 0 then 'paid' else 'other' end, \
                 case when n % 4 = 0 then '{nobody}' end from s where n <= {few}"
            ),
            format!(
                "insert into big_order (id, status, process_id) {series} select n, case when n % 5 = 0 then '0' else '1' end, \
                 case when n % 10 = 0 then '{nobody}' end from s"
            ),
            "create index big_order_claim on big_order (id) where status = '0' and process_id is null".into(),
        ];
        let mut own = store.begin_tx().await.unwrap();
        for statement in fill {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *own).await.unwrap();
        }
        own.commit().await.unwrap();
        store
    }

    #[tokio::test]
    async fn a_page_of_messages_takes_few_steps_however_many_there_are() {
        let (folder, rows) = (tempfile::tempdir().unwrap(), size(100_000, 10_000_000));
        let store = filled(folder.path(), rows).await;
        let steps = counting(&store).await;
        let middle = async |state: &str, time: &str| {
            let middle = format!(
                "select {time}, key from ichido_parked where state = '{state}' order by {time} limit 1 offset {}",
                rows / 8
            );
            let row = sqlx::query(AssertSqlSafe(middle)).fetch_one(&store.readers).await.unwrap();
            [row.get(0), row.get(1)]
        };
        for filter in pages(rows, middle("waiting", "due_at").await, middle("dead", "parked_at").await) {
            steps.store(0, Relaxed);
            let page = store.messages(&filter).await.unwrap();
            assert!(page.messages.len() == PAGE && page.notes.is_empty(), "{filter:?}: {page:?}");
            let took = steps.load(Relaxed);
            assert!(took < FEW, "{filter:?}: {took} steps for {rows} rows");
        }
        let mut failed = ParkedFilter::default();
        failed.limit = 20;
        steps.store(0, Relaxed);
        assert_eq!(store.parked(&failed).await.unwrap().len(), 20);
        let took = steps.load(Relaxed);
        assert!(took < FEW, "failed list: {took} steps");
        assert!(!store.finds_owner_by_index(&store.queues().await.unwrap()[1]).await.unwrap());
    }
}
