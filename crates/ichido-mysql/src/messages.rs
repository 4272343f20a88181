//! Sending, claiming and releasing messages.

use std::collections::BTreeMap;

use ichido::{
    Delivery, Error, Key, Message, MessageId, NewMessage, Payload, ProcessId, Result,
    backend::{self, Past},
    sql::{Fields, Value},
};
use sqlx::{AssertSqlSafe, MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    MySql,
    statements::{Column, Statements},
};

impl MySql {
    pub(crate) async fn send_in(
        &self,
        connection: &mut MySqlConnection,
        queue: &str,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>> {
        let queue = self.queue(queue).await?;
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            backend::refuse_size(&queue.queue, queue.payload_limit, message)?;
            let key = if queue.rows.managed {
                self.send_managed(connection, queue, message).await?
            } else {
                send_row(connection, queue, message).await?
            };
            sent.push(MessageId { queue: queue.queue.clone(), key });
        }
        Ok(sent)
    }

    async fn send_managed(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        message: &NewMessage,
    ) -> Result<Key> {
        let insert = format!("insert into {} (queue, payload, headers) values (?, ?, ?)", self.shared.schema.message);
        let payload = String::from_utf8_lossy(&message.payload).into_owned();
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(&*queue.queue).bind(payload);
        let sent = insert.bind(serde_json::to_string(&message.headers)?).execute(connection).await?;
        Ok(Key::new([sent.last_insert_id().to_string()]))
    }

    /// Two steps: the server knows no UPDATE … RETURNING. The own process row is locked first, so that a rescuer leaves us
    /// alone meanwhile and a process that counts as dead gets nothing.
    pub(crate) async fn claim_from(&self, process: ProcessId, queue: &str, count: usize) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut tx = self.begin_own().await?;
        let alive = format!(
            "select 1 from {} where id = ? and heartbeat_at > utc_timestamp(6) - interval lease_us microsecond lock in share mode",
            self.shared.schema.process
        );
        let alive = sqlx::query(AssertSqlSafe(alive)).bind(process.to_string()).fetch_optional(&mut *tx).await?;
        if alive.is_none() {
            tx.rollback().await?;
            return Err(Error::LostClaim);
        }
        let mut pick = sqlx::query(AssertSqlSafe(queue.pick.clone()));
        if !queue.rows.managed {
            pick = pick.bind(process.to_string());
        }
        let picked = pick.bind(count).fetch_all(&mut *tx).await?;
        let deliveries = self.deliveries(&mut tx, queue, process, &picked).await?;
        if !deliveries.is_empty() {
            let keys: Vec<_> = deliveries.iter().map(|delivery| &delivery.message.key).collect();
            let claim = queue.of_many(&queue.claim, keys.len(), "");
            let mut claim = sqlx::query(AssertSqlSafe(claim)).bind(process.to_string());
            for column in keys.iter().flat_map(|key| key.columns()) {
                claim = claim.bind(column);
            }
            let claimed = claim.execute(&mut *tx).await?.rows_affected();
            if claimed != deliveries.len() as u64 {
                tx.rollback().await?;
                let text = format!("queue `{}`: {claimed} rows match {} keys", queue.queue, keys.len());
                return Err(Error::Setup(text));
            }
        }
        tx.commit().await?;
        Ok(deliveries)
    }

    pub(crate) async fn claimed_by(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let mut connection = self.own.acquire().await?;
        let own = sqlx::query(AssertSqlSafe(queue.claimed.clone())).bind(process.to_string());
        let own = own.fetch_all(&mut *connection).await?;
        self.deliveries(&mut connection, queue, process, &own).await
    }

    async fn deliveries(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        process: ProcessId,
        rows: &[MySqlRow],
    ) -> Result<Vec<Delivery>> {
        let messages: Vec<_> = rows.iter().map(|row| message(queue, row)).collect::<Result<_>>()?;
        let past = self.past(connection, queue, &messages).await?;
        let deliveries = messages.into_iter().map(|message| {
            let past = past.get(&message.key.to_string());
            Past::delivery(past, message, process, queue.payload_limit)
        });
        Ok(deliveries.collect())
    }

    /// What is known about these messages, by key.
    async fn past(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        messages: &[Message],
    ) -> Result<BTreeMap<String, Past>> {
        if messages.is_empty() {
            return Ok(BTreeMap::new());
        }
        let places = vec!["?"; messages.len()].join(", ");
        let known = format!(
            "select convert(`key` using utf8mb4), attempts, suspect, state from {} where queue = ? and `key` in ({places})",
            self.shared.schema.parked
        );
        let mut known = sqlx::query(AssertSqlSafe(known)).bind(&*queue.queue);
        for message in messages {
            known = known.bind(message.key.to_string().into_bytes());
        }
        let known = known.fetch_all(connection).await?;
        let past = known.iter().map(|row| {
            let (attempts, suspect): (i32, i8) = (row.try_get(1)?, row.try_get(2)?);
            Ok((row.try_get(0)?, Past::new(row.try_get(3)?, attempts.unsigned_abs(), suspect != 0)))
        });
        past.collect()
    }

    pub(crate) async fn drained(&self, queue: &str) -> Result<bool> {
        let queue = self.queue(queue).await?;
        let drained =
            sqlx::query(AssertSqlSafe(queue.drained.clone())).bind(&*queue.queue).fetch_one(&self.own).await?;
        Ok(drained.try_get::<i64, _>(0)? == 1)
    }

    pub(crate) async fn release_all(&self, deliveries: &[Delivery]) -> Result<()> {
        for ((queue, owner), keys) in backend::by_owner(deliveries) {
            let queue = self.queue(queue).await?;
            let mut connection = self.own.acquire().await?;
            free(&mut connection, queue, owner, &keys).await?;
        }
        Ok(())
    }
}

/// Frees these rows of an owner.
pub(crate) async fn free(
    connection: &mut MySqlConnection,
    queue: &Statements,
    owner: ProcessId,
    keys: &[&Key],
) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut release = sqlx::query(AssertSqlSafe(queue.of_many(&queue.release, keys.len(), ""))).bind(owner.to_string());
    for column in keys.iter().flat_map(|key| key.columns()) {
        release = release.bind(column);
    }
    release.execute(connection).await?;
    Ok(())
}

/// The key in the first columns of a row.
pub(crate) fn key(queue: &Statements, row: &MySqlRow) -> Result<Key> {
    let columns = (0..queue.rows.key.len()).map(|at| row.try_get::<String, _>(at));
    Ok(Key::new(columns.collect::<Result<Vec<_>, _>>()?))
}

fn message(queue: &Statements, row: &MySqlRow) -> Result<Message> {
    let after = queue.rows.key.len();
    let payload: String = row.try_get(after)?;
    let mut message = Message::new(queue.queue.clone(), key(queue, row)?, payload.into_bytes());
    message.headers = serde_json::from_str(row.try_get(after + 1)?).unwrap_or_default();
    Ok(message)
}

/// Fields are columns; columns that the message does not name get their defaults.
async fn send_row(connection: &mut MySqlConnection, queue: &Statements, message: &NewMessage) -> Result<Key> {
    let whole = Message::new(queue.queue.clone(), Key::new([""]), message.payload.clone());
    let fields = Fields::decode(&whole).map_err(|_| backend::not_columns(&queue.queue))?;
    let (insert, bound) = insert_row(queue, &fields)?;
    let mut insert = sqlx::query(AssertSqlSafe(insert));
    for name in &bound {
        insert = insert.bind(text(&fields.value(name)?));
    }
    let sent = insert.execute(&mut *connection).await?;
    read_key(connection, queue, &key_values(queue, &fields, &bound, sent.last_insert_id())?).await
}

/// What the key columns of a row that was just sent were given; the server counts some itself.
fn key_values(queue: &Statements, fields: &Fields, bound: &[&str], counted: u64) -> Result<Vec<String>> {
    let value = |column: &Column| match bound.iter().find(|name| name.eq_ignore_ascii_case(&column.name)) {
        Some(name) => Ok(text(&fields.value(name)?).unwrap_or_default()),
        None if column.counts_itself => Ok(counted.to_string()),
        None => {
            let text = format!("a message for the queue `{}` must name its key `{}`", queue.queue, column.name);
            Err(Error::Refused(text))
        }
    };
    queue.rows.key.iter().map(value).collect()
}

/// The key as the server writes it, of the row with these values.
async fn read_key(connection: &mut MySqlConnection, queue: &Statements, values: &[String]) -> Result<Key> {
    let rows = &queue.rows;
    let given = |column: &Column| if column.is_bytes() { "from_base64(?)".into() } else { column.value_of("?") };
    let is: Vec<_> = rows.key.iter().map(|column| format!("t.{} = {}", column.quoted, given(column))).collect();
    let read = format!("select {} from {} t where {}", rows.key_out(), rows.table, is.join(" and "));
    let mut read = sqlx::query(AssertSqlSafe(read));
    for value in values {
        read = read.bind(value);
    }
    key(queue, &read.fetch_one(connection).await?)
}

/// A field as text, which the server reads as a value of the column's type.
pub(crate) fn text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Bool(value) => Some(u8::from(*value).to_string()),
        other => other.text(),
    }
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
            values.push(if column.is_bytes() { "from_base64(?)" } else { "?" }.into());
            bound.push(name);
        }
    }
    Ok((format!("insert into {} ({}) values ({})", rows.table, names.join(", "), values.join(", ")), bound))
}
