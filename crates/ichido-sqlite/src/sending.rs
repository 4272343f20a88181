//! Sending, in the caller's transaction. A delayed message is sent and parked in one go: its owner is nobody's until it is due.

use ichido::{Due, Key, Message, NewMessage, Payload, error::Result, sql::Fields, store::ProcessId};
use ichido_sql::{NewRow, Sent};
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use crate::{messages::key, quote, statements::Statements, value};

/// Whoever sends has the right to write already: nobody else can send the same unique key meanwhile.
pub(crate) async fn send_managed(
    connection: &mut SqliteConnection,
    queue: &Statements,
    message: &NewMessage,
) -> Result<Sent> {
    if let Some(unique) = &message.unique {
        let first = sqlx::query("select cast(id as text) from ichido_message where queue = ? and unique_key = ?");
        if let Some(row) = first.bind(&*queue.queue).bind(unique).fetch_optional(&mut *connection).await? {
            return Ok(Sent::before(Key::new([row.try_get::<String, _>(0)?])));
        }
    }
    let insert = sqlx::query(
        "insert into ichido_message (queue, owner, payload, headers, group_key, unique_key) values (?, ?, ?, ?, ?, ?) \
         returning cast(id as text)",
    );
    let owner = message.due.map(|_| ProcessId::NOBODY.to_string());
    let insert = insert.bind(&*queue.queue).bind(owner).bind(String::from_utf8_lossy(&message.payload).into_owned());
    let insert = insert.bind(message.written_headers()?).bind(&message.group).bind(&message.unique);
    let row = insert.fetch_one(connection).await?;
    Ok(Sent::new(Key::new([row.try_get::<String, _>(0)?])))
}

/// Parks what was sent to be run later.
pub(crate) async fn delay(connection: &mut SqliteConnection, queue: &Statements, key: &Key, due: Due) -> Result<()> {
    let (after, at) = due.millis();
    let seconds = |ms: i64| format!("{}.{:03}", ms / 1000, ms % 1000);
    let (start, shift) = match at {
        Some(at) => (seconds(at), "unixepoch".to_owned()),
        None => ("now".to_owned(), format!("+{} seconds", seconds(after.unwrap_or_default()))),
    };
    let park = sqlx::query(
        "insert into ichido_parked (queue, key, state, attempts, due_at) \
         values (?1, ?2, 'waiting', 0, strftime('%Y-%m-%dT%H:%M:%fZ', ?3, ?4)) \
         on conflict (queue, key) do update set state = 'waiting', attempts = 0, suspect = 0, due_at = excluded.due_at, \
         parked_at = excluded.parked_at, history = '[]'",
    );
    park.bind(&*queue.queue).bind(key.to_string()).bind(start).bind(shift).execute(connection).await?;
    Ok(())
}

/// Fields are columns; columns that the message does not name get their defaults.
pub(crate) async fn send_row(
    connection: &mut SqliteConnection,
    queue: &Statements,
    message: &NewMessage,
) -> Result<Sent> {
    let fields = Fields::decode(&Message::new(queue.queue.clone(), Key::new([""]), message.payload.clone()))
        .map_err(|_| ichido_sql::not_columns(&queue.queue))?;
    let row = NewRow::new(&queue.rows.mapping, fields.names(), message.due.is_some(), quote::literal, |name| {
        let columns = &queue.rows.columns;
        let found = columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        let known = columns.iter().map(|column| column.name.as_str());
        let column = found.ok_or_else(|| ichido_sql::unknown_field(&queue.queue, name, known))?;
        Ok((column.quoted.clone(), "?".to_owned()))
    })?;
    let keys: Vec<_> = queue.rows.key.iter().map(|column| format!("cast({} as text)", column.quoted)).collect();
    let insert = format!("{} returning {}", row.insert(&queue.rows.mapping.table), keys.join(", "));
    let mut insert = sqlx::query(AssertSqlSafe(insert));
    for name in row.bound {
        insert = value::bind(insert, fields.value(name)?);
    }
    Ok(Sent::new(key(queue, &insert.fetch_one(connection).await?)?))
}
