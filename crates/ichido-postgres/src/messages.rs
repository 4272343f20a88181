//! Messages in queues: the verbs of [`Queues`]. Claiming and releasing is done here; `sending` writes the rows of what is sent, `parked`
//! those of what is put aside.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use ichido::{
    Delivery, Error, Key, Message, MessageId, NewMessage, Result,
    store::{Failure, ProcessId, Queues, Registration},
};
use ichido_sql::{Claims, Heads, LowerBound, Owned, Past, Start};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use crate::{
    Postgres,
    sending::send_rows,
    statements::{Kind, Statements},
};

/// One process that claims from one queue.
struct Claimer<'a> {
    store: &'a Postgres,
    process: ProcessId,
    queue: &'a Statements,
}

impl Claims for Claimer<'_> {
    async fn ungrouped(&self, count: usize, start: &Start) -> Result<(Vec<Delivery>, bool)> {
        self.store.claim_rows(self.process, self.queue, count, start).await
    }

    async fn heads(&self, count: usize) -> Result<Vec<Delivery>> {
        let Some(groups) = &self.queue.groups else { return Ok(Vec::new()) };
        self.store.claim_heads(self.process, self.queue, groups, count).await
    }

    fn bound(&self) -> &LowerBound {
        &self.queue.bound
    }

    fn groups(&self) -> Option<(&Heads, bool)> {
        self.queue.groups.as_ref().map(|groups| (&groups.heads, groups.all))
    }
}

impl Queues for Postgres {
    async fn send(
        &self,
        connection: &mut PgConnection,
        queue: &str,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>> {
        let queue = self.queue(queue).await?;
        ichido_sql::refuse_messages(&queue.queue, queue.payload_limit, &queue.rows.mapping, messages)?;
        let sent = match queue.rows.kind {
            Kind::Managed => self.send_managed(connection, queue, messages).await?,
            Kind::Mutex => self.send_guarded(connection, queue, messages).await?,
            Kind::Table => send_rows(connection, queue, messages, !self.own.is_pooled()).await?,
        };
        self.delay(connection, queue, &sent, messages).await?;
        Ok(sent.into_iter().map(|sent| MessageId { queue: queue.queue.clone(), key: sent.key }).collect())
    }

    async fn claim(&self, process: ProcessId, queue: &str, count: usize) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        ichido_sql::claim(&Claimer { store: self, process, queue }, count).await
    }

    async fn claimed(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let own = sqlx::query(AssertSqlSafe(queue.claimed.clone())).bind(process.to_string());
        let own = self.own.fetch_all(own).await?;
        self.deliveries(queue, process, &own.iter().collect::<Vec<_>>(), true).await
    }

    async fn release(&self, deliveries: &[Delivery]) -> Result<()> {
        for ((queue, owner), freed) in ichido_sql::by_owner(deliveries) {
            let queue = self.queue(queue).await?;
            let mut tx = self.begin_own().await?;
            self.free(&mut tx, queue, owner, &freed).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    async fn park(&self, delivery: &Delivery, failure: &Failure) -> Result<bool> {
        let mut tx = self.begin_own().await?;
        if !self.park_in(&mut tx, delivery, failure).await? {
            tx.rollback().await?;
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    async fn return_due(&self, by: &Registration) -> Result<u64> {
        let queues: Vec<&str> = by.queues.keys().map(AsRef::as_ref).collect();
        let due = format!(
            "select distinct queue from {} where state = 'waiting' and due_at <= now() and queue = any($1)",
            self.shared.schema.parked
        );
        let due = self.own.fetch_all(sqlx::query(AssertSqlSafe(due)).bind(queues)).await?;
        let mut returned = 0;
        for row in due {
            returned += self.return_due_of(self.queue(row.try_get(0)?).await?).await?;
        }
        Ok(returned)
    }

    async fn tidy(&self, by: &Registration) -> Result<()> {
        for queue in by.queues.keys() {
            self.tidy_queue(self.queue(queue).await?).await?;
        }
        Ok(())
    }

    /// One statement: it sees all of them at the same moment.
    async fn undrained(&self, queues: &[Arc<str>]) -> Result<Option<Arc<str>>> {
        if queues.is_empty() {
            return Ok(None);
        }
        let mut looks = Vec::with_capacity(queues.len());
        for queue in queues {
            looks.push(&*self.queue(queue).await?.drained);
        }
        let all = self.own.fetch_one(sqlx::query(AssertSqlSafe(format!("select {}", looks.join(", "))))).await?;
        ichido_sql::first_undrained(queues, |at| Ok(all.try_get::<bool, _>(at)?))
    }

    async fn backlog(&self, queue: &str) -> Result<Option<u64>> {
        self.claimable(queue).await.map(Some)
    }
}

impl Postgres {
    /// Claims rows that are in no group, and tells whether there are messages in groups.
    async fn claim_rows(
        &self,
        process: ProcessId,
        queue: &Statements,
        count: usize,
        start: &Start,
    ) -> Result<(Vec<Delivery>, bool)> {
        let began = Instant::now();
        let (statement, values) = match start {
            Start::First => (&queue.claim, &[][..]),
            Start::At(values) => (&queue.claim_from, &values[..]),
        };
        let claim = sqlx::query(AssertSqlSafe(statement.clone())).bind(process.to_string());
        let mut claim = claim.bind(i64::try_from(count).unwrap_or(i64::MAX));
        for value in values {
            claim = claim.bind(value);
        }
        let rows = self.own.fetch_all(claim).await?;
        let Some(first) = rows.first() else { return Err(Error::LostClaim) };
        if !first.try_get::<bool, _>(0)? {
            return Err(Error::LostClaim);
        }
        let (any_parked, grouped) = (first.try_get(1)?, first.try_get(2)?);
        let claimed = claimed_rows(&rows);
        let last = claimed.last().and_then(|row| order(queue, row));
        queue.bound.note(start, last, (claimed.len(), count), began.elapsed());
        Ok((self.deliveries(queue, process, &claimed, any_parked).await?, grouped))
    }

    pub(crate) async fn deliveries(
        &self,
        queue: &Statements,
        process: ProcessId,
        rows: &[&PgRow],
        any_parked: bool,
    ) -> Result<Vec<Delivery>> {
        let messages: Vec<_> = rows.iter().map(|row| message(queue, row)).collect::<Result<_>>()?;
        let past =
            if any_parked && !messages.is_empty() { self.past(queue, &messages).await? } else { BTreeMap::new() };
        let deliveries = messages.into_iter().zip(rows).map(|(message, row)| {
            let past = past.get(&message.key.to_string());
            let delivery = Past::delivery(past, message, process, row.try_get("group_key")?, queue.payload_limit);
            Ok(delivery.after(row.try_get("waited")?))
        });
        deliveries.collect()
    }

    /// What is known about these messages, by key.
    async fn past(&self, queue: &Statements, messages: &[Message]) -> Result<BTreeMap<String, Past>> {
        let keys: Vec<_> = messages.iter().map(|message| message.key.to_string()).collect();
        let known = format!(
            "select key, attempts, suspect, state from {} where queue = $1 and key = any($2)",
            self.shared.schema.parked
        );
        let known = self.own.fetch_all(sqlx::query(AssertSqlSafe(known)).bind(&*queue.queue).bind(keys)).await?;
        let past = known.iter().map(|row| {
            Ok((row.try_get(0)?, Past::new(row.try_get(3)?, row.try_get::<i32, _>(1)?.unsigned_abs(), row.try_get(2)?)))
        });
        past.collect()
    }

    pub(crate) async fn claimable(&self, queue: &str) -> Result<u64> {
        let queue = self.queue(queue).await?;
        let counted = self.own.fetch_one(sqlx::query(AssertSqlSafe(queue.backlog.clone()))).await?;
        Ok(counted.try_get::<i64, _>(0)?.try_into().unwrap_or(0))
    }

    /// Frees these messages of an owner, and the groups that they hold.
    pub(crate) async fn free(
        &self,
        tx: &mut PgConnection,
        queue: &Statements,
        owner: ProcessId,
        freed: &[Owned],
    ) -> Result<()> {
        let keys: Vec<_> = freed.iter().map(|owned| &owned.key).collect();
        let mut release = sqlx::query(AssertSqlSafe(queue.release.clone())).bind(owner.to_string());
        for column in key_columns(queue, &keys) {
            release = release.bind(column);
        }
        release.execute(&mut *tx).await?;
        let groups: Vec<_> = freed.iter().filter_map(|owned| owned.group.clone()).collect();
        Ok(self.free_groups(tx, queue, owner, &groups).await?)
    }
}

/// The rows that were claimed; a claim that found nothing still answers with a row.
pub(crate) fn claimed_rows(rows: &[PgRow]) -> Vec<&PgRow> {
    rows.iter().filter(|row| row.try_get::<Option<&str>, _>("k0").is_ok_and(|key| key.is_some())).collect()
}

/// The values of the claim order of a row; none if one of them is null.
fn order(queue: &Statements, row: &PgRow) -> Option<Vec<String>> {
    (0..queue.bound_columns).map(|at| row.try_get(format!("b{at}").as_str()).ok()?).collect()
}

/// The keys turned into one array per key column.
pub(crate) fn key_columns(queue: &Statements, keys: &[&Key]) -> Vec<Vec<String>> {
    let column = |at: usize| keys.iter().filter_map(|key| key.columns().get(at).cloned()).collect();
    (0..queue.rows.key.len()).map(column).collect()
}

/// The key in the columns `k0`, `k1`, … of a row.
pub(crate) fn key(queue: &Statements, row: &PgRow) -> Result<Key> {
    let columns = (0..queue.rows.key.len()).map(|at| row.try_get::<String, _>(format!("k{at}").as_str()));
    Ok(Key::new(columns.collect::<Result<Vec<_>, _>>()?))
}

fn message(queue: &Statements, row: &PgRow) -> Result<Message> {
    let payload: String = row.try_get("payload")?;
    let mut message = Message::new(queue.queue.clone(), key(queue, row)?, payload.into_bytes());
    message.headers = serde_json::from_str(row.try_get("headers")?).unwrap_or_default();
    Ok(message)
}
