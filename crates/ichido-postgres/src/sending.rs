//! Sending, in the caller's transaction. A delayed message is sent and parked in one go: its owner is nobody's until it is due.

use std::collections::BTreeMap;

use ichido::{Key, NewMessage, error::Result, store::ProcessId};
use ichido_sql::Sent;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::{Postgres, messages::key, statements::Statements};

impl Postgres {
    pub(crate) async fn send_managed(
        &self,
        connection: &mut PgConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>> {
        let mut sent = Vec::with_capacity(messages.len());
        for run in messages.chunk_by(|one, next| one.unique.is_none() && next.unique.is_none()) {
            match &run[0].unique {
                Some(unique) => sent.push(self.send_unique(connection, queue, &run[0], unique).await?),
                None => sent.extend(self.insert_messages(connection, queue, run).await?),
            }
        }
        Ok(sent)
    }

    async fn insert_messages(
        &self,
        connection: &mut PgConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>> {
        let payloads = messages.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned());
        let headers = messages.iter().map(NewMessage::written_headers);
        let groups = messages.iter().map(|message| message.group.clone());
        let uniques = messages.iter().map(|message| message.unique.clone());
        let delayed = messages.iter().map(|message| message.due.is_some());
        let insert = format!(
            "insert into {} (queue, owner, payload, headers, group_key, unique_key) \
             select $1, case when d then '{}'::uuid end, p, h, g, u \
             from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[]) with ordinality as m(p, h, g, u, d, at) order by at \
             on conflict (queue, unique_key) where unique_key is not null do nothing returning id::text",
            self.shared.known.tables.message,
            ProcessId::NOBODY,
        );
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(&*queue.queue).bind(payloads.collect::<Vec<_>>());
        let insert = insert.bind(headers.collect::<Result<Vec<_>, _>>()?).bind(groups.collect::<Vec<_>>());
        let insert = insert.bind(uniques.collect::<Vec<_>>()).bind(delayed.collect::<Vec<_>>());
        let sent = insert.persistent(!self.own.is_pooled()).fetch_all(connection).await?;
        sent.iter().map(|row| Ok(Sent::new(Key::new([row.try_get::<String, _>(0)?])))).collect()
    }

    /// The first message with this key that is neither done nor failed, or else this one.
    async fn send_unique(
        &self,
        connection: &mut PgConnection,
        queue: &Statements,
        message: &NewMessage,
        unique: &str,
    ) -> Result<Sent> {
        let first =
            format!("select id::text from {} where queue = $1 and unique_key = $2", self.shared.known.tables.message);
        for _ in 0..ichido_sql::UNIQUE_TRIES {
            let first = sqlx::query(AssertSqlSafe(first.clone())).bind(&*queue.queue).bind(unique);
            if let Some(row) = first.persistent(!self.own.is_pooled()).fetch_optional(&mut *connection).await? {
                return Ok(Sent::before(Key::new([row.try_get::<String, _>(0)?])));
            }
            // Somebody may be sending the same one: this waits for them and then inserts, or does nothing.
            let sent = self.insert_messages(&mut *connection, queue, std::slice::from_ref(message)).await?;
            if let Some(sent) = sent.into_iter().next() {
                return Ok(sent);
            }
        }
        Err(ichido_sql::unique_in_motion(unique))
    }

    /// Parks what was sent to be run later.
    pub(crate) async fn delay(
        &self,
        connection: &mut PgConnection,
        queue: &Statements,
        sent: &[Sent],
        messages: &[NewMessage],
    ) -> Result<()> {
        let (mut keys, mut after, mut at) = (Vec::new(), Vec::new(), Vec::new());
        for (key, due) in ichido_sql::delayed(sent, messages) {
            keys.push(key.to_string());
            let (delay, time) = due.millis();
            after.push(delay);
            at.push(time);
        }
        if keys.is_empty() {
            return Ok(());
        }
        let park = format!(
            "insert into {} (queue, key, state, attempts, due_at) \
             select $1, k, 'waiting', 0, coalesce(to_timestamp(t / 1000.0), clock_timestamp() + d * interval '1 millisecond') \
             from unnest($2::text[], $3::bigint[], $4::bigint[]) as m(k, d, t) \
             on conflict (queue, key) do update set state = 'waiting', attempts = 0, suspect = false, due_at = excluded.due_at, \
             parked_at = now(), history = '[]'",
            self.shared.known.tables.parked
        );
        let park = sqlx::query(AssertSqlSafe(park)).bind(&*queue.queue).bind(keys).bind(after).bind(at);
        park.persistent(!self.own.is_pooled()).execute(connection).await?;
        Ok(())
    }
}

/// Fields are columns: the server reads them as values of the table's own types. Columns that a message does not name get
/// their defaults, so messages are grouped by the columns they name. Behind a pooler, statements have no name.
pub(crate) async fn send_rows(
    connection: &mut PgConnection,
    queue: &Statements,
    messages: &[NewMessage],
    named: bool,
) -> Result<Vec<Sent>> {
    let mut sent = Vec::with_capacity(messages.len());
    let mut at = 0;
    while at < messages.len() {
        let columns = named_columns(queue, &messages[at])?;
        let mut end = at + 1;
        let delayed = messages[at].due.is_some();
        while end < messages.len()
            && messages[end].due.is_some() == delayed
            && named_columns(queue, &messages[end])? == columns
        {
            end += 1;
        }
        let array: Vec<_> = messages[at..end].iter().map(|message| String::from_utf8_lossy(&message.payload)).collect();
        let insert = sqlx::query(AssertSqlSafe(insert_rows(queue, &columns, delayed)?));
        let insert = insert.bind(format!("[{}]", array.join(",")));
        let found = insert.persistent(named).fetch_all(&mut *connection).await?;
        sent.extend(found.iter().map(|row| Ok(Sent::new(key(queue, row)?))).collect::<Result<Vec<_>>>()?);
        at = end;
    }
    Ok(sent)
}

fn named_columns(queue: &Statements, message: &NewMessage) -> Result<Vec<String>> {
    let text = String::from_utf8_lossy(&message.payload);
    let fields: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&text).map_err(|_| ichido_sql::not_columns(&queue.queue))?;
    for name in fields.keys() {
        let known = || queue.rows.columns.iter().map(|column| column.name.as_str());
        if !known().any(|column| column == name) {
            return Err(ichido_sql::unknown_field(&queue.queue, name, known()));
        }
    }
    Ok(fields.into_keys().collect())
}

fn insert_rows(queue: &Statements, fields: &[String], delayed: bool) -> Result<String> {
    let rows = &queue.rows;
    let (mut names, mut values) = (Vec::new(), Vec::new());
    if delayed {
        names.push(rows.owner.quoted.clone());
        values.push(format!("'{}'", ProcessId::NOBODY));
    }
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
        table = rows.mapping.table,
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
