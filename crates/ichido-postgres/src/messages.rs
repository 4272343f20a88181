//! Sending, claiming and releasing messages.

use std::collections::BTreeMap;

use ichido::{
    Delivery, Error, Key, Message, MessageId, NewMessage, ProcessId, Result,
    backend::{self, Past},
};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use crate::{Postgres, statements::Statements};

impl Postgres {
    pub(crate) async fn send_in(
        &self,
        connection: &mut PgConnection,
        queue: &str,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>> {
        let queue = self.queue(queue).await?;
        for message in messages {
            backend::refuse_size(&queue.queue, queue.payload_limit, message)?;
        }
        let keys = if queue.rows.managed {
            self.send_managed(connection, queue, messages).await?
        } else {
            send_rows(connection, queue, messages, !self.own.is_pooled()).await?
        };
        Ok(keys.into_iter().map(|key| MessageId { queue: queue.queue.clone(), key }).collect())
    }

    async fn send_managed(
        &self,
        connection: &mut PgConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Key>> {
        let payloads: Vec<_> =
            messages.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect();
        let headers: Vec<_> =
            messages.iter().map(|message| serde_json::to_string(&message.headers)).collect::<Result<_, _>>()?;
        let insert = format!(
            "insert into {} (queue, payload, headers) select $1, p, h from unnest($2::text[], $3::text[]) with ordinality as m(p, h, at) order by at returning id::text",
            self.shared.schema.message
        );
        let sent = sqlx::query(AssertSqlSafe(insert)).bind(&*queue.queue).bind(payloads).bind(headers);
        let sent = sent.persistent(!self.own.is_pooled()).fetch_all(connection).await?;
        sent.iter().map(|row| Ok(Key::new([row.try_get::<String, _>(0)?]))).collect()
    }

    pub(crate) async fn claim_from(&self, process: ProcessId, queue: &str, count: usize) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let claim = sqlx::query(AssertSqlSafe(queue.claim.clone())).bind(process.to_string()).bind(count);
        let found = self.own.fetch_all(claim).await?;
        let Some(first) = found.first() else { return Err(Error::LostClaim) };
        if !first.try_get::<bool, _>(0)? {
            return Err(Error::LostClaim);
        }
        let any_parked = first.try_get(1)?;
        let claimed: Vec<_> =
            found.iter().filter(|row| row.try_get::<Option<&str>, _>("k0").is_ok_and(|key| key.is_some())).collect();
        self.deliveries(queue, process, &claimed, any_parked).await
    }

    pub(crate) async fn claimed_by(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let own = sqlx::query(AssertSqlSafe(queue.claimed.clone())).bind(process.to_string());
        let own = self.own.fetch_all(own).await?;
        self.deliveries(queue, process, &own.iter().collect::<Vec<_>>(), true).await
    }

    async fn deliveries(
        &self,
        queue: &Statements,
        process: ProcessId,
        rows: &[&PgRow],
        any_parked: bool,
    ) -> Result<Vec<Delivery>> {
        let messages: Vec<_> = rows.iter().map(|row| message(queue, row)).collect::<Result<_>>()?;
        let past =
            if any_parked && !messages.is_empty() { self.past(queue, &messages).await? } else { BTreeMap::new() };
        let deliveries = messages.into_iter().map(|message| {
            let past = past.get(&message.key.to_string());
            Past::delivery(past, message, process, queue.payload_limit)
        });
        Ok(deliveries.collect())
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

    pub(crate) async fn drained(&self, queue: &str) -> Result<bool> {
        let queue = self.queue(queue).await?;
        let drained = self.own.fetch_one(sqlx::query(AssertSqlSafe(queue.drained.clone())).bind(&*queue.queue)).await?;
        Ok(drained.try_get(0)?)
    }

    pub(crate) async fn release_all(&self, deliveries: &[Delivery]) -> Result<()> {
        for ((queue, owner), keys) in backend::by_owner(deliveries) {
            let queue = self.queue(queue).await?;
            let mut release = sqlx::query(AssertSqlSafe(queue.release.clone())).bind(owner.to_string());
            for column in key_columns(queue, &keys) {
                release = release.bind(column);
            }
            self.own.execute(release).await?;
        }
        Ok(())
    }
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

/// Fields are columns: the server reads them as values of the table's own types. Columns that a message does not name get
/// their defaults, so messages are grouped by the columns they name. Behind a pooler, statements have no name.
async fn send_rows(
    connection: &mut PgConnection,
    queue: &Statements,
    messages: &[NewMessage],
    named: bool,
) -> Result<Vec<Key>> {
    let mut sent = Vec::with_capacity(messages.len());
    let mut at = 0;
    while at < messages.len() {
        let columns = named_columns(queue, &messages[at])?;
        let mut end = at + 1;
        while end < messages.len() && named_columns(queue, &messages[end])? == columns {
            end += 1;
        }
        let array: Vec<_> = messages[at..end].iter().map(|message| String::from_utf8_lossy(&message.payload)).collect();
        let insert = sqlx::query(AssertSqlSafe(insert_rows(queue, &columns)?)).bind(format!("[{}]", array.join(",")));
        let found = insert.persistent(named).fetch_all(&mut *connection).await?;
        sent.extend(found.iter().map(|row| key(queue, row)).collect::<Result<Vec<_>>>()?);
        at = end;
    }
    Ok(sent)
}

fn named_columns(queue: &Statements, message: &NewMessage) -> Result<Vec<String>> {
    let text = String::from_utf8_lossy(&message.payload);
    let fields: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&text).map_err(|_| backend::not_columns(&queue.queue))?;
    for name in fields.keys() {
        let known = || queue.rows.columns.iter().map(|column| column.name.as_str());
        if !known().any(|column| column == name) {
            return Err(backend::unknown_field(&queue.queue, name, known()));
        }
    }
    Ok(fields.into_keys().collect())
}

fn insert_rows(queue: &Statements, fields: &[String]) -> Result<String> {
    let rows = &queue.rows;
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (column, value) in rows.mapping.fixed() {
        names.push(column.to_owned());
        values.push(crate::quote::literal(value)?);
    }
    for column in rows.columns.iter().filter(|column| fields.contains(&column.name)) {
        // A send is a new, unowned message, whatever its fields say.
        if !names.contains(&column.quoted) && column.quoted != rows.owner.quoted {
            names.push(column.quoted.clone());
            values.push(match column.kind.as_str() {
                "bytea" => format!("decode(e.value ->> {}, 'base64')", crate::quote::literal(&column.name)?),
                _ => format!("r.{}", column.quoted),
            });
        }
    }
    let keys: Vec<_> =
        rows.key.iter().enumerate().map(|(at, column)| format!("{}::text as k{at}", column.quoted)).collect();
    Ok(format!(
        "insert into {table} ({}) select {} from jsonb_array_elements($1::jsonb) with ordinality as e(value, at), \
         jsonb_populate_record(null::{table}, e.value {without}) as r order by e.at returning {}",
        names.join(", "),
        values.join(", "),
        keys.join(", "),
        table = rows.table,
        without = without_bytes(queue)?,
    ))
}

/// Bytes are base64 in JSON, which the record would read as text: they are decoded apart.
fn without_bytes(queue: &Statements) -> Result<String> {
    let bytes = queue.rows.columns.iter().filter(|column| column.kind == "bytea");
    Ok(bytes
        .map(|column| Ok(format!("- {}::text", crate::quote::literal(&column.name)?)))
        .collect::<Result<Vec<_>>>()?
        .join(" "))
}
