//! Sending, claiming and releasing messages.

use std::collections::BTreeMap;

use ichido::{
    Delivery, Error, Key, Message, MessageId, NewMessage, Payload, ProcessId, Result,
    backend::{self, Past},
    sql::Fields,
};
use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};

use crate::{Sqlite, statements::Statements, value};

impl Sqlite {
    pub(crate) async fn send_in(
        &self,
        connection: &mut SqliteConnection,
        queue: &str,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>> {
        let queue = self.queue(queue).await?;
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            backend::refuse_size(&queue.queue, queue.payload_limit, message)?;
            let key = if queue.rows.managed {
                send_managed(connection, queue, message).await?
            } else {
                send_row(connection, queue, message).await?
            };
            sent.push(MessageId { queue: queue.queue.clone(), key });
        }
        Ok(sent)
    }

    /// Nobody else writes between the look and the claim: the transaction began with the right to write. A look without it
    /// comes first, so that an empty queue costs no write.
    pub(crate) async fn claim_from(&self, process: ProcessId, queue: &str, count: usize) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        if !self.shared.alive.is_ours(process) {
            return Err(Error::LostClaim);
        }
        let look = sqlx::query(AssertSqlSafe(queue.pick.clone())).bind(1);
        if look.fetch_optional(&self.readers).await?.is_none() {
            return Ok(Vec::new());
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut tx = self.begin_tx().await?;
        let known = sqlx::query("select 1 from ichido_process where id = ?").bind(process.to_string());
        if known.fetch_optional(tx.connection()).await?.is_none() {
            tx.rollback().await?;
            return Err(Error::LostClaim);
        }
        let picked = sqlx::query(AssertSqlSafe(queue.pick.clone())).bind(count).fetch_all(tx.connection()).await?;
        let deliveries = deliveries(tx.connection(), queue, process, &picked).await?;
        let keys: Vec<_> = deliveries.iter().map(|delivery| &delivery.message.key).collect();
        let claim = sqlx::query(AssertSqlSafe(queue.claim.clone())).bind(process.to_string()).bind(key_list(&keys));
        let claimed = claim.execute(tx.connection()).await?.rows_affected();
        if claimed != deliveries.len() as u64 {
            tx.rollback().await?;
            return Err(Error::Setup(format!(
                "queue `{}`: {claimed} rows match {} keys; the key is not unique",
                queue.queue,
                keys.len()
            )));
        }
        tx.commit().await?;
        Ok(deliveries)
    }

    pub(crate) async fn claimed_by(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let mut connection = self.readers.acquire().await?;
        let own = sqlx::query(AssertSqlSafe(queue.claimed.clone())).bind(process.to_string());
        let own = own.fetch_all(&mut *connection).await?;
        deliveries(&mut connection, queue, process, &own).await
    }

    pub(crate) async fn drained(&self, queue: &str) -> Result<bool> {
        let queue = self.queue(queue).await?;
        let drained =
            sqlx::query(AssertSqlSafe(queue.drained.clone())).bind(&*queue.queue).fetch_one(&self.readers).await?;
        Ok(drained.try_get(0)?)
    }

    pub(crate) async fn release_all(&self, deliveries: &[Delivery]) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        for ((queue, owner), keys) in backend::by_owner(deliveries) {
            let release = sqlx::query(AssertSqlSafe(self.queue(queue).await?.release.clone()));
            release.bind(owner.to_string()).bind(key_list(&keys)).execute(tx.connection()).await?;
        }
        tx.commit().await
    }
}

/// The keys as one JSON array of arrays of text.
pub(crate) fn key_list(keys: &[&Key]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| key.columns()).collect();
    serde_json::to_string(&keys).unwrap_or_default()
}

/// The key in the first columns of a row.
pub(crate) fn key(queue: &Statements, row: &SqliteRow) -> Result<Key> {
    let columns = (0..queue.rows.key.len()).map(|at| row.try_get::<String, _>(at));
    Ok(Key::new(columns.collect::<Result<Vec<_>, _>>()?))
}

async fn deliveries(
    connection: &mut SqliteConnection,
    queue: &Statements,
    process: ProcessId,
    rows: &[SqliteRow],
) -> Result<Vec<Delivery>> {
    let messages: Vec<_> = rows.iter().map(|row| message(queue, process, row)).collect::<Result<_>>()?;
    let past = past(connection, queue, &messages).await?;
    let deliveries = messages.into_iter().map(|message| {
        let past = past.get(&message.key.to_string());
        Past::delivery(past, message, process, queue.payload_limit)
    });
    Ok(deliveries.collect())
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
    if rows.managed {
        let payload: String = row.try_get(1)?;
        let mut message = Message::new(queue.queue.clone(), key, payload.into_bytes());
        message.headers = serde_json::from_str(row.try_get(2)?).unwrap_or_default();
        return Ok(message);
    }
    let mut columns = value::object(row, rows.key.len(), &rows.columns)?;
    // The row was read just before it was claimed; the action sees it as it is now.
    columns.insert(rows.owner.name.clone(), process.to_string().into());
    Ok(Message::new(queue.queue.clone(), key, serde_json::to_vec(&columns)?))
}

async fn send_managed(connection: &mut SqliteConnection, queue: &Statements, message: &NewMessage) -> Result<Key> {
    let insert =
        sqlx::query("insert into ichido_message (queue, payload, headers) values (?, ?, ?) returning cast(id as text)");
    let insert = insert.bind(&*queue.queue).bind(String::from_utf8_lossy(&message.payload).into_owned());
    let row = insert.bind(serde_json::to_string(&message.headers)?).fetch_one(connection).await?;
    Ok(Key::new([row.try_get::<String, _>(0)?]))
}

/// Fields are columns; columns that the message does not name get their defaults.
async fn send_row(connection: &mut SqliteConnection, queue: &Statements, message: &NewMessage) -> Result<Key> {
    let fields = Fields::decode(&Message::new(queue.queue.clone(), Key::new([""]), message.payload.clone()))
        .map_err(|_| backend::not_columns(&queue.queue))?;
    let (insert, names) = insert_row(queue, &fields)?;
    let mut insert = sqlx::query(AssertSqlSafe(insert));
    for name in names {
        insert = value::bind(insert, fields.value(name)?);
    }
    key(queue, &insert.fetch_one(connection).await?)
}

/// The statement, and the fields to bind to it.
fn insert_row<'a>(queue: &Statements, fields: &'a Fields) -> Result<(String, Vec<&'a str>)> {
    let rows = &queue.rows;
    let (mut names, mut values, mut bound) = (Vec::new(), Vec::new(), Vec::new());
    for (column, value) in rows.mapping.fixed() {
        names.push(column.to_owned());
        values.push(crate::quote::literal(value)?);
    }
    for name in fields.names() {
        let Some(column) = rows.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)) else {
            let known = rows.columns.iter().map(|column| column.name.as_str());
            return Err(backend::unknown_field(&queue.queue, name, known));
        };
        // A send is a new, unowned message, whatever its fields say.
        if !names.contains(&column.quoted) && column.quoted != rows.owner.quoted {
            names.push(column.quoted.clone());
            values.push("?".into());
            bound.push(name);
        }
    }
    let keys: Vec<_> = rows.key.iter().map(|column| format!("cast({} as text)", column.quoted)).collect();
    let (table, keys) = (&rows.table, keys.join(", "));
    Ok((format!("insert into {table} ({}) values ({}) returning {keys}", names.join(", "), values.join(", ")), bound))
}
