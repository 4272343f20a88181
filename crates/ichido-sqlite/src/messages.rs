//! Messages in queues: the verbs of [`Queues`]. Rows are claimed and written here (`sending` has the
//! statements); the others are those of all stores.

use ichido::{
    Delivery, Error, Key, Message, NewMessage,
    error::Result,
    store::{ProcessId, Queues},
};
use ichido_sql::{Claiming, Kind, Past, Sending, Sent, SqlStore, Start, verbs};
use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    Sqlite,
    outbox::send_guarded,
    sending::{delay, send_managed, send_row},
    statements::Statements,
    value,
};

impl Queues for Sqlite {
    async fn claimed(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let mut connection = self.readers.acquire().await?;
        let own = sqlx::query(AssertSqlSafe(queue.claimed.clone())).bind(process.to_string());
        let own = own.fetch_all(&mut *connection).await?;
        self.deliveries(&mut connection, queue, process, &own).await
    }

    ichido_sql::queues!();
}

impl Sending for Sqlite {
    async fn insert(
        &self,
        tx: &mut SqliteConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>> {
        let mut all = Vec::with_capacity(messages.len());
        for message in messages {
            all.push(match queue.kind {
                Kind::Managed => send_managed(tx, queue, message).await?,
                Kind::Mutex => send_guarded(tx, queue, message).await?,
                Kind::Table => send_row(tx, queue, message).await?,
            });
        }
        for (key, due) in ichido_sql::delayed(&all, messages) {
            delay(tx, queue, key, due).await?;
        }
        Ok(all)
    }
}

impl Claiming for Sqlite {
    /// What is done leaves SQLite's index at once, and nobody walks over it: a claim always begins with the first row.
    async fn claim_rows(
        &self,
        process: ProcessId,
        queue: &Statements,
        count: usize,
        _: &Start,
    ) -> Result<(Vec<Delivery>, bool)> {
        if !self.shared.alive.is_ours(process) {
            return Err(Error::LostClaim);
        }
        let found = self.claim_ungrouped(process, queue, count).await?;
        let there = match &queue.groups {
            Some(groups) => self.any_grouped(groups).await?,
            None => false,
        };
        Ok((found, there))
    }
}

impl Sqlite {
    /// Claims rows that are in no group. Nobody else writes between the look and the claim: the transaction began with the
    /// right to write. A look without it comes first, so that an empty queue costs no write.
    async fn claim_ungrouped(&self, process: ProcessId, queue: &Statements, count: usize) -> Result<Vec<Delivery>> {
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
        let deliveries = self.deliveries(&mut tx, queue, process, &picked).await?;
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

impl Sqlite {
    pub(crate) async fn deliveries(
        &self,
        connection: &mut SqliteConnection,
        queue: &Statements,
        process: ProcessId,
        rows: &[SqliteRow],
    ) -> Result<Vec<Delivery>> {
        let messages: Vec<_> = rows.iter().map(|row| message(queue, process, row)).collect::<Result<_>>()?;
        let past = verbs::queues::past(self, Some(connection), queue, &messages).await?;
        let deliveries = messages.into_iter().zip(rows).map(|(message, row)| {
            let past = past.get(&message.key.to_string());
            let group = row.try_get("ichido_group_key")?;
            let delivery = Past::delivery(past, message, process, group, queue.payload_limit);
            Ok(delivery.after(row.try_get("ichido_waited")?))
        });
        deliveries.collect()
    }
}

fn message(queue: &Statements, process: ProcessId, row: &SqliteRow) -> Result<Message> {
    let rows = &queue.rows;
    let key = key(queue, row)?;
    if rows.mapping.kind != Kind::Table {
        let payload: Option<Vec<u8>> = row.try_get(1)?;
        let message = Message::new(queue.queue.clone(), key, payload.unwrap_or_default());
        return Ok(message.with_headers(serde_json::from_str(row.try_get(2)?).unwrap_or_default()));
    }
    let mut columns = value::object(row, rows.key.len(), &rows.columns)?;
    // The row was read just before it was claimed; the action sees it as it is now.
    columns.insert(rows.owner.name.clone(), process.to_string().into());
    let mut message = Message::new(queue.queue.clone(), key, serde_json::to_vec(&columns)?);
    message.kinds = value::kinds(row, rows.key.len(), &rows.columns)?;
    Ok(message)
}
