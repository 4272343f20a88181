//! What is to be published after commit: written with the send, read by the relay, and made due again when a message is retried.

use std::{sync::Arc, time::Duration};

use ichido::{
    Delivery, Guarded, Key, Message, NewMessage, Result,
    broker::{Circulating, OutboxState, Outgoing, Publication, Unsent},
    inspect::MOST_COUNTED,
    store::{Outbox, ProcessId},
};
use ichido_sql::Sent;
use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};

use crate::{Sqlite, statements::Statements};

/// Now, as times are written here.
const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

impl Outbox for Sqlite {
    fn broker_queues(&self) -> Vec<Arc<str>> {
        ichido_sql::broker_queues(&self.shared.queues)
    }

    async fn publish(
        &self,
        connection: &mut SqliteConnection,
        queue: &str,
        messages: &[Publication],
    ) -> Result<Vec<String>> {
        let queue = self.queue(queue).await?;
        queue.mutex()?;
        ichido_sql::refuse_publications(&queue.queue, queue.payload_limit, messages)?;
        let mut ids = Vec::with_capacity(messages.len());
        for message in messages {
            let id = ichido_sql::new_id();
            let insert = sqlx::query(
                "insert into ichido_outbox (id, queue, exchange, routing_key, headers, payload) values (?, ?, ?, ?, ?, ?)",
            );
            let insert = insert.bind(&id).bind(&*queue.queue).bind(&message.exchange).bind(&message.routing_key);
            let insert = insert.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
            insert.execute(&mut *connection).await?;
            ids.push(id);
        }
        Ok(ids)
    }

    async fn unsent(&self, queue: &str, most: usize) -> Result<Vec<Unsent>> {
        let queue = self.queue(queue).await?;
        let unsent = format!(
            "select number, edition, attempts, id, mutex is not null, exchange, routing_key, headers, payload, \
             cast(round((julianday('now') - julianday(created_at)) * 86400000) as integer) from ichido_outbox \
             where queue = ? and published_at is null and due_at <= {NOW} order by number limit ?"
        );
        let unsent = sqlx::query(AssertSqlSafe(unsent)).bind(&*queue.queue);
        let unsent = unsent.bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(&self.readers).await?;
        let origin = self.origin().await?;
        unsent.iter().map(|row| read(row, queue, &origin)).collect()
    }

    async fn take_turn(&self, relay: ProcessId, queue: &str) -> Result<bool> {
        let queue = self.queue(queue).await?;
        let lasts = after(queue.mutex()?.rules.relay_after);
        let take = format!(
            "insert into ichido_relay as r (queue, owner, until) values (?1, ?2, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3)) \
             on conflict (queue) do update set owner = excluded.owner, until = excluded.until \
             where r.owner = excluded.owner or r.until <= {NOW}"
        );
        let mut tx = self.begin_tx().await?;
        let take = sqlx::query(AssertSqlSafe(take)).bind(&*queue.queue).bind(relay.to_string()).bind(lasts);
        let taken = take.execute(tx.connection()).await?.rows_affected() == 1;
        tx.commit().await?;
        Ok(taken)
    }

    async fn leave_turn(&self, relay: ProcessId, queue: &str) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        let leave = sqlx::query("delete from ichido_relay where queue = ? and owner = ?");
        leave.bind(queue).bind(relay.to_string()).execute(tx.connection()).await?;
        tx.commit().await
    }

    async fn note_published(&self, _: &str, published: &[&Unsent]) -> Result<()> {
        self.published(published).await
    }

    async fn note_unpublished(&self, _: &str, unsent: &Unsent, error: &str, wait: Duration) -> Result<()> {
        self.unpublished(unsent, error, wait).await
    }

    async fn keep(&self, message: &Message) -> Result<bool> {
        let queue = self.queue(&message.queue).await?;
        queue.refuse_key(&message.key)?;
        let mut tx = self.begin_tx().await?;
        match keep_in(tx.connection(), queue, message).await {
            Ok(kept) => {
                tx.commit().await?;
                Ok(kept)
            }
            Err(error) => {
                tx.rollback().await?;
                Err(error)
            }
        }
    }

    async fn circulating(&self, queue: &str, age: Duration, most: usize) -> Result<Circulating> {
        let queue = self.queue(queue).await?;
        let ms = ichido::message::wait_ms(age);
        let old = sqlx::query(
            "select m.id from ichido_mutex m join ichido_outbox o on o.mutex = m.id where m.queue = ?1 and m.owner is null \
             and o.published_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2) order by o.published_at limit ?3",
        );
        let old = old.bind(&*queue.queue).bind(format!("-{}.{:03} seconds", ms / 1000, ms % 1000));
        let old = old.bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(&self.readers).await?;
        let old: Vec<Key> =
            old.iter().map(|row| Ok(Key::new([row.try_get::<String, _>(0)?]))).collect::<Result<_>>()?;
        if old.is_empty() {
            return Ok(Circulating::default());
        }
        let failed = sqlx::query("select count(*) from ichido_parked where queue = ? and state = 'dead'");
        let failed: i64 = failed.bind(&*queue.queue).fetch_one(&self.readers).await?.try_get(0)?;
        Ok(Circulating { old, failed: failed.unsigned_abs() })
    }

    async fn publish_again(&self, queue: &str, keys: &[Key], most: usize) -> Result<u64> {
        let queue = self.queue(queue).await?;
        keys.iter().try_for_each(|key| queue.refuse_key(key))?;
        let ids: Vec<_> = keys.iter().map(|key| &key.columns()[0]).collect();
        let free = sqlx::query(
            "select m.id from json_each(?1) k join ichido_mutex m on m.id = k.value where m.queue = ?2 and m.owner is null \
             order by k.key limit ?3",
        );
        let mut tx = self.begin_tx().await?;
        let free = free.bind(serde_json::to_string(&ids)?).bind(&*queue.queue);
        let free = free.bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(tx.connection()).await?;
        let free: Vec<Key> =
            free.iter().map(|row| Ok(Key::new([row.try_get::<String, _>(0)?]))).collect::<Result<_>>()?;
        republish(tx.connection(), queue, &free).await?;
        tx.commit().await?;
        Ok(free.len() as u64)
    }
}

impl Sqlite {
    pub(crate) async fn published(&self, published: &[&Unsent]) -> Result<()> {
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
        gone.bind(&numbers).execute(tx.connection()).await?;
        sqlx::query(AssertSqlSafe(kept)).bind(&numbers).execute(tx.connection()).await?;
        tx.commit().await
    }

    pub(crate) async fn unpublished(&self, unsent: &Unsent, error: &str, wait: Duration) -> Result<()> {
        let note = sqlx::query(
            "update ichido_outbox set attempts = attempts + 1, error = ?1, due_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2) \
             where number = ?3 and edition = ?4 and published_at is null",
        );
        let mut tx = self.begin_tx().await?;
        let note = note.bind(error).bind(after(wait)).bind(unsent.number).bind(unsent.edition);
        note.execute(tx.connection()).await?;
        tx.commit().await
    }

    pub(crate) async fn outbox_of(&self, queue: &Statements) -> Result<Option<OutboxState>> {
        if queue.mutex.is_none() {
            return Ok(None);
        }
        let counts = format!(
            "select count(*), cast(round((julianday('now') - julianday(min(due_at))) * 86400) as integer), \
             (select error from ichido_outbox where queue = ?1 and published_at is null and error is not null order by number limit 1) \
             from (select due_at from ichido_outbox where queue = ?1 and published_at is null and (due_at <= {NOW} or error is not null) \
             limit {MOST_COUNTED})"
        );
        let row = sqlx::query(AssertSqlSafe(counts)).bind(&*queue.queue).fetch_one(&self.readers).await?;
        let unpublished = row.try_get::<i64, _>(0)?.unsigned_abs();
        Ok(Some(OutboxState::new(unpublished, row.try_get(1)?, row.try_get(2)?)))
    }
}

/// Sends to a broker's queue: the mutex, and what is to be published. A delayed message is due when it is returned.
pub(crate) async fn send_guarded(
    connection: &mut SqliteConnection,
    queue: &Statements,
    message: &NewMessage,
) -> Result<Sent> {
    let Guarded { exchange, routing_key, .. } = &queue.mutex()?.rules;
    let (id, delayed) = (ichido_sql::new_id(), message.due.is_some());
    let guard = sqlx::query("insert into ichido_mutex (id, queue, owner) values (?, ?, ?)").bind(&id);
    let guard = guard.bind(&*queue.queue).bind(delayed.then(|| ProcessId::NOBODY.to_string()));
    guard.execute(&mut *connection).await?;
    let insert = format!(
        "insert into ichido_outbox (id, mutex, queue, exchange, routing_key, headers, payload, due_at, published_at) \
         values (?1, ?1, ?2, ?3, ?4, ?5, ?6, {})",
        if delayed { format!("null, {NOW}") } else { format!("{NOW}, null") }
    );
    let insert = sqlx::query(AssertSqlSafe(insert)).bind(&id).bind(&*queue.queue).bind(exchange).bind(routing_key);
    let insert = insert.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
    insert.execute(connection).await?;
    Ok(Sent::new(Key::new([id])))
}

/// These messages are published again: their time has come, or somebody wants it so. Nothing where no broker keeps the queue.
pub(crate) async fn republish(tx: &mut SqliteConnection, queue: &Statements, keys: &[Key]) -> Result<u64> {
    if queue.mutex.is_none() || keys.is_empty() {
        return Ok(0);
    }
    let due = format!(
        "update ichido_outbox set published_at = null, due_at = {NOW}, edition = edition + 1, attempts = 0, error = null \
         where mutex in (select value from json_each(?))"
    );
    let ids: Vec<_> = keys.iter().map(|key| &key.columns()[0]).collect();
    Ok(sqlx::query(AssertSqlSafe(due)).bind(serde_json::to_string(&ids)?).execute(tx).await?.rows_affected())
}

/// What another program has published, with a mutex of its own making, is kept when it fails: a retry needs it.
pub(crate) async fn keep_payload(tx: &mut SqliteConnection, queue: &Statements, delivery: &Delivery) -> Result<()> {
    if queue.mutex.is_none() || delivery.refused.is_some() {
        return Ok(());
    }
    keep_in(tx, queue, &delivery.message).await?;
    Ok(())
}

async fn keep_in(tx: &mut SqliteConnection, queue: &Statements, message: &Message) -> Result<bool> {
    let keep = format!(
        "insert into ichido_outbox (id, mutex, queue, exchange, routing_key, headers, payload, published_at) \
         select id, id, queue, ?3, ?4, ?5, ?6, {NOW} from ichido_mutex where id = ?1 and queue = ?2 on conflict (mutex) do nothing"
    );
    let keep = sqlx::query(AssertSqlSafe(keep)).bind(&message.key.columns()[0]).bind(&*queue.queue);
    let keep = keep.bind("").bind(&queue.mutex()?.rules.queue);
    let keep = keep.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
    Ok(keep.execute(tx).await?.rows_affected() == 1)
}

/// So long after now, as SQLite counts.
fn after(time: Duration) -> String {
    let ms = ichido::message::wait_ms(time);
    format!("+{}.{:03} seconds", ms / 1000, ms % 1000)
}

fn read(row: &SqliteRow, queue: &Statements, origin: &Arc<str>) -> Result<Unsent> {
    let guarded: bool = row.try_get(4)?;
    Ok(Unsent {
        number: row.try_get(0)?,
        edition: row.try_get(1)?,
        attempts: row.try_get(2)?,
        waited: row.try_get(9)?,
        message: Outgoing {
            id: row.try_get(3)?,
            origin: origin.clone(),
            queue: guarded.then(|| queue.queue.clone()),
            exchange: row.try_get(5)?,
            routing_key: row.try_get(6)?,
            headers: serde_json::from_str(row.try_get(7)?).unwrap_or_default(),
            payload: row.try_get(8)?,
        },
    })
}
