//! What operators see: counts, processes, parked messages, statements and warnings.

use std::time::Duration;

use ichido::{Inspect, Messages, error::Result};
use ichido_sql::{Kind, SqlStore, verbs};
use sqlx::Row;

use crate::{Postgres, adopt, statements::Statements};

impl Inspect for Postgres {
    ichido_sql::inspect!();

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
        for queue in self.queues().await?.iter().filter(|queue| queue.kind == Kind::Table) {
            let claims = queue.all_grouped() || self.claims_by_index(&queue.look).await?;
            let owners = self.finds_owner_by_index(queue).await?;
            let groups = match &queue.groups {
                Some(groups) => self.claims_by_index(&groups.look).await?,
                None => true,
            };
            warnings.extend(ichido_sql::missing_indexes(queue, claims, owners, groups));
        }
        warnings.extend(self.own.unguarded().await?);
        let oldest = self.oldest_snapshot().await?;
        warnings.extend(oldest.and_then(|(session, seconds)| ichido_sql::old_snapshot(&session, seconds)));
        warnings.extend(verbs::inspect::long_messages(self, lease).await?);
        Ok(warnings)
    }
}

impl Postgres {
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

    /// Asks the planner: are the rows of an owner found by the owner?
    pub(crate) async fn finds_owner_by_index(&self, queue: &Statements) -> Result<bool> {
        let mut tx = self.begin_own().await?;
        let found = self.timed(adopt::finds_owner(&mut tx, &queue.rows)).await?;
        tx.rollback().await?;
        Ok(found)
    }

    /// Asks the planner, with reading the whole table made unattractive: does an index serve the claim?
    async fn claims_by_index(&self, look: &str) -> Result<bool> {
        let mut tx = self.begin_own().await?;
        let by_index = self.timed(adopt::explain(&mut tx, look)).await?.1;
        tx.rollback().await?;
        Ok(by_index)
    }
}

impl Messages for Postgres {
    ichido_sql::messages!();
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
