//! What is to be published after commit: written with the send, read by the relay, and made due again when a message is retried.

use ichido::{
    Guarded, Key, NewMessage,
    broker::{Publication, Unsent},
    error::Result,
    store::{Outbox, ProcessId},
};
use ichido_sql::{Dialect, Sent, SqlStore, payload_hash, verbs};
use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::{Sqlite, sql::SqliteDialect, statements::Statements};

/// Now, as times are written here.
const NOW: &str = SqliteDialect::NOW;

impl Outbox for Sqlite {
    async fn publish(&self, tx: &mut SqliteConnection, queue: &str, messages: &[Publication]) -> Result<Vec<String>> {
        let queue = self.queue(queue).await?;
        let ids = verbs::outbox::new_ids(queue, messages)?;
        for (id, message) in ids.iter().zip(messages) {
            let insert = sqlx::query(
                "insert into ichido_outbox (id, queue, exchange, routing_key, headers, payload) values (?, ?, ?, ?, ?, ?)",
            );
            let insert = insert.bind(id).bind(&*queue.queue).bind(&message.exchange).bind(&message.routing_key);
            let insert = insert.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
            insert.execute(&mut *tx).await?;
        }
        Ok(ids)
    }

    async fn note_published(&self, _: &str, published: &[&Unsent]) -> Result<()> {
        let numbers: Vec<_> = published.iter().map(|unsent| [unsent.number, unsent.edition]).collect();
        let numbers = serde_json::to_string(&numbers)?;
        let kept = format!(
            "update ichido_outbox as o set published_at = {NOW}, attempts = 0, error = null from json_each(?) k \
             where o.number = json_extract(k.value, '$[0]') and o.edition = json_extract(k.value, '$[1]') and o.mutex is not null"
        );
        let mut tx = self.begin_tx().await?;
        let gone = sqlx::query(
            "delete from ichido_outbox where mutex is null and number in (select json_extract(k.value, '$[0]') from json_each(?) k)",
        );
        gone.bind(&numbers).execute(&mut *tx).await?;
        sqlx::query(AssertSqlSafe(kept)).bind(&numbers).execute(&mut *tx).await?;
        tx.commit().await
    }

    ichido_sql::outbox!();
}

/// Sends to a broker's queue: the mutex, and what is to be published. A delayed message is due when it is returned.
pub(crate) async fn send_guarded(
    connection: &mut SqliteConnection,
    queue: &Statements,
    message: &NewMessage,
) -> Result<Sent> {
    let Guarded { exchange, routing_key, .. } = queue.rules()?;
    let (id, delayed) = (ichido_sql::new_id(), message.due.is_some());
    let guard = sqlx::query("insert into ichido_mutex (id, queue, owner, hash) values (?, ?, ?, ?)").bind(&id);
    let guard = guard.bind(&*queue.queue).bind(delayed.then(|| ProcessId::NOBODY.to_string()));
    guard.bind(payload_hash(&message.payload)).execute(&mut *connection).await?;
    let insert = format!(
        "insert into ichido_outbox (id, mutex, queue, exchange, routing_key, headers, payload, due_at, published_at) \
         values (?1, ?1, ?2, ?3, ?4, ?5, ?6, {})",
        if delayed { format!("null, {NOW}") } else { format!("{NOW}, null") }
    );
    let insert = sqlx::query(AssertSqlSafe(insert)).bind(&id).bind(&*queue.queue).bind(exchange).bind(routing_key);
    let insert = insert.bind(message.broker_headers()?).bind(&*message.payload);
    insert.execute(connection).await?;
    Ok(Sent::new(Key::new([id])))
}
