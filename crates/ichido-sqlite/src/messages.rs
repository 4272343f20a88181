//! Messages in queues: the verbs of [`Queues`]. Claiming and releasing is done here; `sending` writes the rows of what is sent, `parked`
//! those of what is put aside.

use std::{collections::BTreeMap, sync::Arc};

use ichido::{
    Delivery, Error, Key, Message, MessageId, NewMessage, Result,
    store::{Failure, ProcessId, Queues, Registration},
};
use ichido_sql::{Claims, Heads, LowerBound, Owned, Past, Start};
use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    Sqlite,
    groups::free_group,
    outbox::send_guarded,
    sending::{delay, send_managed, send_row},
    statements::{Kind, Statements},
    value,
};

/// One process that claims from one queue.
struct Claimer<'a> {
    store: &'a Sqlite,
    process: ProcessId,
    queue: &'a Statements,
}

impl Claims for Claimer<'_> {
    async fn ungrouped(&self, count: usize, _: &Start) -> Result<(Vec<Delivery>, bool)> {
        let found = self.store.claim_rows(self.process, self.queue, count).await?;
        let there = match &self.queue.groups {
            Some(groups) => self.store.any_grouped(groups).await?,
            None => false,
        };
        Ok((found, there))
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

impl Queues for Sqlite {
    async fn send(
        &self,
        connection: &mut SqliteConnection,
        queue: &str,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>> {
        let queue = self.queue(queue).await?;
        ichido_sql::refuse_messages(&queue.queue, queue.payload_limit, &queue.rows.mapping, messages)?;
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            sent.push(match queue.rows.kind {
                Kind::Managed => send_managed(connection, queue, message).await?,
                Kind::Mutex => send_guarded(connection, queue, message).await?,
                Kind::Table => send_row(connection, queue, message).await?,
            });
        }
        for (key, due) in ichido_sql::delayed(&sent, messages) {
            delay(connection, queue, key, due).await?;
        }
        Ok(sent.into_iter().map(|sent| MessageId { queue: queue.queue.clone(), key: sent.key }).collect())
    }

    async fn claim(&self, process: ProcessId, queue: &str, count: usize) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        if !self.shared.alive.is_ours(process) {
            return Err(Error::LostClaim);
        }
        ichido_sql::claim(&Claimer { store: self, process, queue }, count).await
    }

    async fn claimed(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let mut connection = self.readers.acquire().await?;
        let own = sqlx::query(AssertSqlSafe(queue.claimed.clone())).bind(process.to_string());
        let own = own.fetch_all(&mut *connection).await?;
        deliveries(&mut connection, queue, process, &own).await
    }

    async fn release(&self, deliveries: &[Delivery]) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        for ((queue, owner), freed) in ichido_sql::by_owner(deliveries) {
            free(tx.connection(), self.queue(queue).await?, owner, &freed).await?;
        }
        tx.commit().await
    }

    async fn park(&self, delivery: &Delivery, failure: &Failure) -> Result<bool> {
        let mut tx = self.begin_tx().await?;
        if !self.park_in(tx.connection(), delivery, failure).await? {
            tx.rollback().await?;
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    async fn return_due(&self, by: &Registration) -> Result<u64> {
        let queues: Vec<&str> = by.queues.keys().map(AsRef::as_ref).collect();
        let due = sqlx::query(
            "select distinct queue from ichido_parked where state = 'waiting' and due_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now') \
             and queue in (select value from json_each(?))",
        );
        let due = due.bind(serde_json::to_string(&queues)?).fetch_all(&self.readers).await?;
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
        let all = format!("select {}", looks.join(", "));
        let all = sqlx::query(AssertSqlSafe(all)).fetch_one(&self.readers).await?;
        ichido_sql::first_undrained(queues, |at| Ok(all.try_get::<bool, _>(at)?))
    }

    async fn backlog(&self, queue: &str) -> Result<Option<u64>> {
        self.claimable(queue).await.map(Some)
    }
}

impl Sqlite {
    /// Claims rows that are in no group. Nobody else writes between the look and the claim: the transaction began with the
    /// right to write. A look without it comes first, so that an empty queue costs no write.
    async fn claim_rows(&self, process: ProcessId, queue: &Statements, count: usize) -> Result<Vec<Delivery>> {
        let look = sqlx::query(AssertSqlSafe(queue.pick.clone())).bind(1);
        if count == 0 || look.fetch_optional(&self.readers).await?.is_none() {
            return Ok(Vec::new());
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut tx = self.begin_tx().await?;
        if !self.is_known(tx.connection(), process).await? {
            tx.rollback().await?;
            return Err(Error::LostClaim);
        }
        let picked = sqlx::query(AssertSqlSafe(queue.pick.clone())).bind(count).fetch_all(tx.connection()).await?;
        let deliveries = deliveries(tx.connection(), queue, process, &picked).await?;
        let keys = key_list(deliveries.iter().map(|delivery| &delivery.message.key));
        let claim = sqlx::query(AssertSqlSafe(queue.claim.clone())).bind(process.to_string()).bind(keys);
        let claimed = claim.execute(tx.connection()).await?.rows_affected();
        if claimed != deliveries.len() as u64 {
            tx.rollback().await?;
            return Err(Error::Setup(format!(
                "queue `{}`: {claimed} rows match {} keys; the key is not unique",
                queue.queue,
                deliveries.len()
            )));
        }
        tx.commit().await?;
        Ok(deliveries)
    }

    /// Has nobody declared this process dead?
    pub(crate) async fn is_known(&self, connection: &mut SqliteConnection, process: ProcessId) -> Result<bool> {
        let known = sqlx::query("select 1 from ichido_process where id = ?").bind(process.to_string());
        Ok(known.fetch_optional(connection).await?.is_some())
    }

    pub(crate) async fn claimable(&self, queue: &str) -> Result<u64> {
        let queue = self.queue(queue).await?;
        let counted = sqlx::query(AssertSqlSafe(queue.backlog.clone())).fetch_one(&self.readers).await?;
        Ok(counted.try_get::<i64, _>(0)?.try_into().unwrap_or(0))
    }
}

/// Frees these messages of an owner, and the groups that they hold.
pub(crate) async fn free(
    tx: &mut SqliteConnection,
    queue: &Statements,
    owner: ProcessId,
    freed: &[Owned],
) -> Result<()> {
    let keys = key_list(freed.iter().map(|owned| &owned.key));
    let release = sqlx::query(AssertSqlSafe(queue.release.clone())).bind(owner.to_string());
    release.bind(keys).execute(&mut *tx).await?;
    for owned in freed {
        free_group(tx, queue, owner, owned.group.as_ref()).await?;
    }
    Ok(())
}

/// The keys as one JSON array of arrays of text.
pub(crate) fn key_list<'a>(keys: impl IntoIterator<Item = &'a Key>) -> String {
    let keys: Vec<_> = keys.into_iter().map(Key::columns).collect();
    serde_json::to_string(&keys).unwrap_or_default()
}

/// The key in the first columns of a row.
pub(crate) fn key(queue: &Statements, row: &SqliteRow) -> Result<Key> {
    let columns = (0..queue.rows.key.len()).map(|at| row.try_get::<String, _>(at));
    Ok(Key::new(columns.collect::<Result<Vec<_>, _>>()?))
}

pub(crate) async fn deliveries(
    connection: &mut SqliteConnection,
    queue: &Statements,
    process: ProcessId,
    rows: &[SqliteRow],
) -> Result<Vec<Delivery>> {
    let messages: Vec<_> = rows.iter().map(|row| message(queue, process, row)).collect::<Result<_>>()?;
    let past = past(connection, queue, &messages).await?;
    let deliveries = messages.into_iter().zip(rows).map(|(message, row)| {
        let past = past.get(&message.key.to_string());
        let delivery = Past::delivery(past, message, process, row.try_get("ichido_group_key")?, queue.payload_limit);
        Ok(delivery.after(row.try_get("ichido_waited")?))
    });
    deliveries.collect()
}

/// What is known about these messages, by key.
async fn past(
    connection: &mut SqliteConnection,
    queue: &Statements,
    messages: &[Message],
) -> Result<BTreeMap<String, Past>> {
    let keys: Vec<_> = messages.iter().map(|message| message.key.to_string()).collect();
    let known = sqlx::query(
        "select key, attempts, suspect, state from ichido_parked where queue = ?1 and key in (select value from json_each(?2))",
    );
    let known = known.bind(&*queue.queue).bind(serde_json::to_string(&keys)?).fetch_all(connection).await?;
    let past =
        known.iter().map(|row| Ok((row.try_get(0)?, Past::new(row.try_get(3)?, row.try_get(1)?, row.try_get(2)?))));
    past.collect()
}

fn message(queue: &Statements, process: ProcessId, row: &SqliteRow) -> Result<Message> {
    let rows = &queue.rows;
    let key = key(queue, row)?;
    if rows.kind != Kind::Table {
        let payload: Option<Vec<u8>> = row.try_get(1)?;
        let mut message = Message::new(queue.queue.clone(), key, payload.unwrap_or_default());
        message.headers = serde_json::from_str(row.try_get(2)?).unwrap_or_default();
        return Ok(message);
    }
    let mut columns = value::object(row, rows.key.len(), &rows.columns)?;
    // The row was read just before it was claimed; the action sees it as it is now.
    columns.insert(rows.owner.name.clone(), process.to_string().into());
    let mut message = Message::new(queue.queue.clone(), key, serde_json::to_vec(&columns)?);
    message.kinds = value::kinds(row, rows.key.len(), &rows.columns)?;
    Ok(message)
}
