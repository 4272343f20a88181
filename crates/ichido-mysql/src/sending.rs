//! Sending, in the caller's transaction. A delayed message is sent and parked in one go: its owner is nobody's until it is due.

use ichido::{
    Due, Error, Key, Message, NewMessage, Payload,
    error::Result,
    sql::{Fields, Value},
    store::ProcessId,
};
use ichido_sql::{NewRow, Sent};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::{
    MySql, fault,
    messages::key,
    quote,
    statements::{Column, Statements},
};

/// Messages per statement.
const ROWS: usize = 512;

/// Bytes per statement, a message more or less: servers take packets of 16 MiB.
const BYTES: usize = 4 << 20;

impl MySql {
    pub(crate) async fn send_managed(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>> {
        let mut sent = Vec::with_capacity(messages.len());
        for run in messages.chunk_by(|one, next| one.unique.is_none() && next.unique.is_none()) {
            if let Some(unique) = &run[0].unique {
                sent.push(self.send_unique(connection, queue, &run[0], unique).await?);
                continue;
            }
            for part in parts(run, |message| message.payload.len()) {
                sent.extend(self.insert_messages(connection, queue, part).await?);
            }
        }
        Ok(sent)
    }

    /// One statement for all of them: the server counts their ids in one go, in steps of its own.
    async fn insert_messages(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>, sqlx::Error> {
        let places = vec!["(?, ?, ?, ?, ?, ?)"; messages.len()].join(", ");
        let insert = format!(
            "insert into {} (queue, owner, payload, headers, group_key, unique_key) values {places}",
            self.shared.known.tables.message
        );
        let mut insert = sqlx::query(AssertSqlSafe(insert));
        for message in messages {
            let owner = message.due.map(|_| ProcessId::NOBODY.to_string());
            let payload = String::from_utf8_lossy(&message.payload).into_owned();
            let headers = message.written_headers().unwrap_or_default();
            insert = insert.bind(&*queue.queue).bind(owner).bind(payload).bind(headers).bind(&message.group);
            insert = insert.bind(message.unique.as_ref().map(String::as_bytes));
        }
        let first = self.within(insert.execute(&mut *connection)).await?.last_insert_id();
        let step = if messages.len() == 1 { 1 } else { self.step(connection).await? };
        let id = |at: u64| Sent::new(Key::new([(first + at * step).to_string()]));
        Ok((0..messages.len() as u64).map(id).collect())
    }

    /// By how much the ids of rows that are inserted together differ: more than one where several servers count.
    async fn step(&self, connection: &mut MySqlConnection) -> Result<u64, sqlx::Error> {
        let step = sqlx::query("select cast(@@auto_increment_increment as unsigned)");
        let step = self.within(step.fetch_one(connection)).await?;
        step.try_get(0)
    }

    /// The first message with this key that is neither done nor failed, or else this one. Whether somebody else sends the
    /// same one, the insert tells: it waits for them.
    async fn send_unique(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        message: &NewMessage,
        unique: &str,
    ) -> Result<Sent> {
        let first = format!(
            "select cast(id as char) from {} where queue = ? and unique_key = ?",
            self.shared.known.tables.message
        );
        // A snapshot of the caller's may not see what was sent meanwhile; a locking read does.
        for lock in ["", " lock in share mode"].into_iter().cycle().take(ichido_sql::UNIQUE_TRIES as usize) {
            let first =
                sqlx::query(AssertSqlSafe(format!("{first}{lock}"))).bind(&*queue.queue).bind(unique.as_bytes());
            if let Some(row) = self.within(first.fetch_optional(&mut *connection)).await? {
                return Ok(Sent::before(Key::new([row.try_get::<String, _>(0)?])));
            }
            match self.insert_messages(&mut *connection, queue, std::slice::from_ref(message)).await {
                Err(error) if fault::is_unique(&error) => {}
                sent => return Ok(sent?.remove(0)),
            }
        }
        Err(ichido_sql::unique_in_motion(unique))
    }

    /// Parks what was sent to be run later.
    pub(crate) async fn delay(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        key: &Key,
        due: Due,
    ) -> Result<()> {
        let park = format!(
            "insert into {} (queue, `key`, state, attempts, due_at, parked_at, history) values (?, ?, 'waiting', 0, \
             coalesce(date_add('1970-01-01', interval ? microsecond), date_add(utc_timestamp(6), interval ? microsecond)), utc_timestamp(6), '[]') \
             on duplicate key update state = 'waiting', attempts = 0, suspect = 0, due_at = values(due_at), \
             parked_at = values(parked_at), history = '[]'",
            self.shared.known.tables.parked
        );
        let (after, at) = due.millis();
        let microseconds = |ms: Option<i64>| ms.map(|ms| ms.saturating_mul(1000));
        let park = sqlx::query(AssertSqlSafe(park)).bind(&*queue.queue).bind(key.to_string().into_bytes());
        let park = park.bind(microseconds(at)).bind(microseconds(after));
        self.within(park.execute(connection)).await?;
        Ok(())
    }
}

impl MySql {
    /// Fields are columns; columns that the message does not name get their defaults.
    pub(crate) async fn send_row(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        message: &NewMessage,
    ) -> Result<Sent> {
        let whole = Message::new(queue.queue.clone(), Key::new([""]), message.payload.clone());
        let fields = Fields::decode(&whole).map_err(|_| ichido_sql::not_columns(&queue.queue))?;
        let row = NewRow::new(&queue.rows.mapping, fields.names(), message.due.is_some(), quote::literal, |name| {
            let columns = &queue.rows.columns;
            let found = columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
            let known = columns.iter().map(|column| column.name.as_str());
            let column = found.ok_or_else(|| ichido_sql::unknown_field(&queue.queue, name, known))?;
            Ok((column.quoted.clone(), if column.is_bytes() { "from_base64(?)" } else { "?" }.to_owned()))
        })?;
        let mut insert = sqlx::query(AssertSqlSafe(row.insert(&queue.rows.mapping.table)));
        for name in &row.bound {
            insert = insert.bind(text(&fields.value(name)?));
        }
        let sent = self.within(insert.execute(&mut *connection)).await?;
        let values = key_values(queue, &fields, &row.bound, sent.last_insert_id())?;
        Ok(Sent::new(self.read_key(connection, queue, &values).await?))
    }

    /// The key as the server writes it, of the row with these values.
    async fn read_key(&self, connection: &mut MySqlConnection, queue: &Statements, values: &[String]) -> Result<Key> {
        let rows = &queue.rows;
        let given = |column: &Column| if column.is_bytes() { "from_base64(?)".into() } else { column.value_of("?") };
        let is: Vec<_> = rows.key.iter().map(|column| format!("t.{} = {}", column.quoted, given(column))).collect();
        let read = format!("select {} from {} t where {}", rows.key_out(), rows.mapping.table, is.join(" and "));
        let mut read = sqlx::query(AssertSqlSafe(read));
        for value in values {
            read = read.bind(value);
        }
        key(queue, &self.within(read.fetch_one(connection)).await?)
    }
}

/// The messages in parts that one statement can carry, each of [`powers`] of them.
pub(crate) fn parts<T>(messages: &[T], size: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let (mut rows, mut bytes) = (0, 0);
    let parts = messages.chunk_by(move |one, _| {
        rows += 1;
        bytes += size(one);
        let fits = rows < ROWS && bytes < BYTES;
        if !fits {
            (rows, bytes) = (0, 0);
        }
        fits
    });
    parts.flat_map(powers)
}

/// In parts whose lengths are powers of two: the text of an insert depends on the number of its rows, and the server keeps each.
pub(crate) fn powers<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let (part, rest) = rows.split_at(1 << rows.len().checked_ilog2()?);
        rows = rest;
        Some(part)
    })
}

/// What the key columns of a row that was just sent were given; the server counts some itself.
fn key_values(queue: &Statements, fields: &Fields, bound: &[&str], counted: u64) -> Result<Vec<String>> {
    let value = |column: &Column| match bound.iter().find(|name| name.eq_ignore_ascii_case(&column.name)) {
        Some(name) => Ok(text(&fields.value(name)?).unwrap_or_default()),
        None if column.counts_itself() => Ok(counted.to_string()),
        None => {
            let text = format!("a message for the queue `{}` must contain its key `{}`", queue.queue, column.name);
            Err(Error::Refused(text))
        }
    };
    queue.rows.key.iter().map(value).collect()
}

/// A field as text, which the server reads as a value of the column's type.
pub(crate) fn text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Bool(value) => Some(u8::from(*value).to_string()),
        other => other.text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_inserted_in_powers_of_two_and_in_order() {
        let rows: Vec<_> = (0..1235).collect();
        let lengths: Vec<_> = parts(&rows, |_| 1).map(<[_]>::len).collect();
        assert_eq!(lengths, [512, 512, 128, 64, 16, 2, 1]);
        assert_eq!(parts(&rows, |_| 1).collect::<Vec<_>>().concat(), rows);
        let lengths: Vec<_> = parts(&rows[..7], |_| BYTES / 2).map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 2, 2, 1]);
        assert_eq!(powers::<u8>(&[]).count(), 0);
    }
}
