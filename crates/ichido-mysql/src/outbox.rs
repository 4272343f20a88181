//! What is to be published after commit: written with the send, read by the relay, and made due again when a message is retried.

use std::{sync::Arc, time::Duration};

use ichido::{
    Delivery, Guarded, Key, Message, NewMessage, Result,
    broker::{Circulating, OutboxState, Outgoing, Publication, Unsent},
    inspect::MOST_COUNTED,
    store::{Outbox, ProcessId},
};
use ichido_sql::Sent;
use sqlx::{AssertSqlSafe, MySqlConnection, Row, mysql::MySqlRow};

use crate::{MySql, fault, sending::parts, statements::Statements};

impl Outbox for MySql {
    fn broker_queues(&self) -> Vec<Arc<str>> {
        ichido_sql::broker_queues(&self.shared.queues)
    }

    async fn publish(
        &self,
        connection: &mut MySqlConnection,
        queue: &str,
        messages: &[Publication],
    ) -> Result<Vec<String>> {
        let queue = self.queue(queue).await?;
        queue.mutex()?;
        ichido_sql::refuse_publications(&queue.queue, queue.payload_limit, messages)?;
        let mut ids = Vec::with_capacity(messages.len());
        for part in parts(messages, |message| message.payload.len()) {
            let rows = vec!["(?, ?, ?, ?, ?, ?, utc_timestamp(6), utc_timestamp(6))"; part.len()].join(", ");
            let insert = format!(
                "insert into {} (id, queue, exchange, routing_key, headers, payload, created_at, due_at) values {rows}",
                self.shared.schema.outbox
            );
            let mut insert = sqlx::query(AssertSqlSafe(insert));
            for message in part {
                let id = ichido_sql::new_id();
                insert = insert.bind(id.clone()).bind(&*queue.queue).bind(&message.exchange).bind(&message.routing_key);
                insert = insert.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
                ids.push(id);
            }
            insert.execute(&mut *connection).await?;
        }
        Ok(ids)
    }

    async fn unsent(&self, queue: &str, most: usize) -> Result<Vec<Unsent>> {
        let queue = self.queue(queue).await?;
        let unsent = format!(
            "select number, edition, attempts, id, mutex is not null, exchange, routing_key, headers, payload, \
             timestampdiff(microsecond, created_at, utc_timestamp(6)) div 1000 from {} \
             where queue = ? and published_at is null and due_at <= utc_timestamp(6) order by number limit ?",
            self.shared.schema.outbox
        );
        let unsent = sqlx::query(AssertSqlSafe(unsent)).bind(&*queue.queue);
        let unsent = unsent.bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(&self.own).await?;
        let origin = self.origin().await?;
        unsent.iter().map(|row| read(row, queue, &origin)).collect()
    }

    /// Takes over, or else is the first.
    async fn take_turn(&self, relay: ProcessId, queue: &str) -> Result<bool> {
        let queue = self.queue(queue).await?;
        let lasts = ichido::message::wait_ms(queue.mutex()?.rules.relay_after).saturating_mul(1000);
        let (table, until) = (&self.shared.schema.relay, "utc_timestamp(6) + interval ? microsecond");
        let take = format!(
            "update {table} set owner = ?, `until` = {until} where queue = ? and (owner = ? or `until` <= utc_timestamp(6))"
        );
        let take = sqlx::query(AssertSqlSafe(take)).bind(relay.to_string()).bind(lasts).bind(&*queue.queue);
        if take.bind(relay.to_string()).execute(&self.own).await?.rows_affected() == 1 {
            return Ok(true);
        }
        let first = format!("insert into {table} (queue, owner, `until`) values (?, ?, {until})");
        let first = sqlx::query(AssertSqlSafe(first)).bind(&*queue.queue).bind(relay.to_string()).bind(lasts);
        match first.execute(&self.own).await {
            Err(error) if fault::is_unique(&error) => Ok(false),
            first => Ok(first?.rows_affected() == 1),
        }
    }

    async fn leave_turn(&self, relay: ProcessId, queue: &str) -> Result<()> {
        let leave = format!("delete from {} where queue = ? and owner = ?", self.shared.schema.relay);
        sqlx::query(AssertSqlSafe(leave)).bind(queue).bind(relay.to_string()).execute(&self.own).await?;
        Ok(())
    }

    async fn note_published(&self, _: &str, published: &[&Unsent]) -> Result<()> {
        self.published(published).await
    }

    async fn note_unpublished(&self, _: &str, unsent: &Unsent, error: &str, wait: Duration) -> Result<()> {
        self.unpublished(unsent, error, wait).await
    }

    async fn keep(&self, message: &Message) -> Result<bool> {
        let (queue, id) = (self.queue(&message.queue).await?, &message.key.columns()[0]);
        queue.refuse_key(&message.key)?;
        let mut tx = self.begin_own().await?;
        let lock = format!(
            "select cast(id as char) from {} where id = ? and queue = ? for update skip locked",
            self.shared.schema.mutex
        );
        let lock = sqlx::query(AssertSqlSafe(lock)).bind(id).bind(&*queue.queue);
        let found: Option<String> = lock.fetch_optional(&mut *tx).await?.map(|row| row.try_get(0)).transpose()?;
        let kept = found.as_ref() == Some(id) && self.keep_in(&mut tx, queue, message).await?;
        tx.commit().await?;
        Ok(kept)
    }

    async fn circulating(&self, queue: &str, age: Duration, most: usize) -> Result<Circulating> {
        let queue = self.queue(queue).await?;
        let old = format!(
            "select cast(m.id as char) from {} m join {} o on o.mutex = m.id where m.queue = ? and m.owner is null \
             and o.published_at < utc_timestamp(6) - interval ? microsecond order by o.published_at limit ?",
            self.shared.schema.mutex, self.shared.schema.outbox
        );
        let age = ichido::message::wait_ms(age).saturating_mul(1000);
        let old = sqlx::query(AssertSqlSafe(old)).bind(&*queue.queue).bind(age).bind(most as u64);
        let old = old.fetch_all(&self.own).await?;
        let old: Vec<Key> =
            old.iter().map(|row| Ok(Key::new([row.try_get::<String, _>(0)?]))).collect::<Result<_>>()?;
        if old.is_empty() {
            return Ok(Circulating::default());
        }
        let failed = format!("select count(*) from {} where queue = ? and state = 'dead'", self.shared.schema.parked);
        let failed = sqlx::query(AssertSqlSafe(failed)).bind(&*queue.queue);
        let failed: i64 = failed.fetch_one(&self.own).await?.try_get(0)?;
        Ok(Circulating { old, failed: failed.unsigned_abs() })
    }

    /// Row by row in their order: what somebody is at is passed over, and nothing else is locked on the way.
    async fn publish_again(&self, queue: &str, keys: &[Key], most: usize) -> Result<u64> {
        let queue = self.queue(queue).await?;
        let mut tx = self.begin_own().await?;
        let mut free = Vec::new();
        for key in keys {
            queue.refuse_key(key)?;
            if free.len() < most && self.is_unowned(&mut tx, queue, key).await? {
                free.push(key.clone());
            }
        }
        self.republish(&mut tx, queue, &free).await?;
        tx.commit().await?;
        Ok(free.len() as u64)
    }
}

impl MySql {
    /// Sends to a broker's queue: the mutex, and what is to be published. A delayed message is due when it is returned.
    pub(crate) async fn send_guarded(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>> {
        let rules = &queue.mutex()?.rules;
        let mut sent = Vec::with_capacity(messages.len());
        for part in parts(messages, |message| message.payload.len()) {
            let ids: Vec<String> = part.iter().map(|_| ichido_sql::new_id()).collect();
            self.insert_guards(connection, queue, &ids, part).await?;
            self.insert_unsent(connection, queue, rules, &ids, part).await?;
            sent.extend(ids.into_iter().map(|id| Sent::new(Key::new([id]))));
        }
        Ok(sent)
    }

    async fn insert_guards(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        ids: &[String],
        messages: &[NewMessage],
    ) -> Result<()> {
        let rows = vec!["(?, ?, ?)"; ids.len()].join(", ");
        let insert = format!("insert into {} (id, queue, owner) values {rows}", self.shared.schema.mutex);
        let mut insert = sqlx::query(AssertSqlSafe(insert));
        for (id, message) in ids.iter().zip(messages) {
            insert = insert.bind(id).bind(&*queue.queue).bind(message.due.map(|_| ProcessId::NOBODY.to_string()));
        }
        insert.execute(connection).await?;
        Ok(())
    }

    async fn insert_unsent(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        rules: &Guarded,
        ids: &[String],
        messages: &[NewMessage],
    ) -> Result<()> {
        let now = "(?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), utc_timestamp(6), null)";
        let later = "(?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), null, utc_timestamp(6))";
        let rows: Vec<_> = messages.iter().map(|message| if message.due.is_some() { later } else { now }).collect();
        let insert = format!(
            "insert into {} (id, mutex, queue, exchange, routing_key, headers, payload, created_at, due_at, published_at) values {}",
            self.shared.schema.outbox,
            rows.join(", ")
        );
        let mut insert = sqlx::query(AssertSqlSafe(insert));
        for (id, message) in ids.iter().zip(messages) {
            insert = insert.bind(id).bind(id).bind(&*queue.queue).bind(&rules.exchange).bind(&rules.routing_key);
            insert = insert.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
        }
        insert.execute(connection).await?;
        Ok(())
    }

    /// Two steps, neither of which waits: a row that somebody has locked is about to go, with its message.
    pub(crate) async fn published(&self, published: &[&Unsent]) -> Result<()> {
        let (kept, gone): (Vec<&Unsent>, Vec<_>) = published.iter().partition(|unsent| unsent.message.queue.is_some());
        let outbox = format!("{} o force index (primary)", self.shared.schema.outbox);
        let numbers = |count: usize| format!("o.number in ({})", vec!["?"; count].join(", "));
        if !gone.is_empty() {
            let delete = format!("delete o from {outbox} where o.mutex is null and {}", numbers(gone.len()));
            let delete = sqlx::query(AssertSqlSafe(delete));
            gone.iter().fold(delete, |delete, unsent| delete.bind(unsent.number)).execute(&self.own).await?;
        }
        if kept.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin_own().await?;
        let editions = vec!["(o.number = ? and o.edition = ?)"; kept.len()].join(" or ");
        let there = format!("select o.number from {outbox} where {editions} for update skip locked");
        let there = sqlx::query(AssertSqlSafe(there));
        let there = kept.iter().fold(there, |there, unsent| there.bind(unsent.number).bind(unsent.edition));
        let there = there.fetch_all(&mut *tx).await?;
        let there: Vec<i64> = there.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        if !there.is_empty() {
            let note = format!(
                "update {outbox} set o.published_at = utc_timestamp(6), o.attempts = 0, o.error = null where {}",
                numbers(there.len())
            );
            let note = sqlx::query(AssertSqlSafe(note));
            there.iter().fold(note, sqlx::query::Query::bind).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    pub(crate) async fn unpublished(&self, unsent: &Unsent, error: &str, wait: Duration) -> Result<()> {
        let note = format!(
            "update {} set attempts = attempts + 1, error = ?, due_at = utc_timestamp(6) + interval ? microsecond \
             where number = ? and edition = ? and published_at is null",
            self.shared.schema.outbox
        );
        let wait = ichido::message::wait_ms(wait).saturating_mul(1000);
        let note = sqlx::query(AssertSqlSafe(note)).bind(error).bind(wait).bind(unsent.number).bind(unsent.edition);
        note.execute(&self.own).await?;
        Ok(())
    }

    /// These messages are published again: their time has come, or somebody wants it so. Nothing where no broker keeps the queue.
    pub(crate) async fn republish(&self, tx: &mut MySqlConnection, queue: &Statements, keys: &[Key]) -> Result<u64> {
        if queue.mutex.is_none() || keys.is_empty() {
            return Ok(0);
        }
        let due = format!(
            "update {} o force index (ichido_outbox_mutex) set o.published_at = null, o.due_at = utc_timestamp(6), \
             o.edition = o.edition + 1, o.attempts = 0, o.error = null where o.mutex in ({})",
            self.shared.schema.outbox,
            vec!["?"; keys.len()].join(", ")
        );
        let due = sqlx::query(AssertSqlSafe(due));
        let due = keys.iter().fold(due, |due, key| due.bind(&key.columns()[0]));
        Ok(due.execute(tx).await?.rows_affected())
    }

    /// What another program has published, with a mutex of its own making, is kept when it fails: a retry needs it.
    pub(crate) async fn keep_payload(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        delivery: &Delivery,
    ) -> Result<()> {
        if queue.mutex.is_none() || delivery.refused.is_some() {
            return Ok(());
        }
        self.keep_in(tx, queue, &delivery.message).await?;
        Ok(())
    }

    async fn keep_in(&self, tx: &mut MySqlConnection, queue: &Statements, message: &Message) -> Result<bool> {
        let keep = format!(
            "insert into {outbox} (id, mutex, queue, exchange, routing_key, headers, payload, created_at, published_at) \
             select m.id, m.id, m.queue, ?, ?, ?, ?, utc_timestamp(6), utc_timestamp(6) from {mutex} m \
             where m.id = ? and m.queue = ? and not exists (select 1 from {outbox} o where o.mutex = m.id)",
            outbox = self.shared.schema.outbox,
            mutex = self.shared.schema.mutex
        );
        let keep = sqlx::query(AssertSqlSafe(keep)).bind("").bind(&queue.mutex()?.rules.queue);
        let keep = keep.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
        let keep = keep.bind(&message.key.columns()[0]).bind(&*queue.queue);
        Ok(keep.execute(tx).await?.rows_affected() == 1)
    }

    pub(crate) async fn outbox_of(&self, queue: &Statements) -> Result<Option<OutboxState>> {
        if queue.mutex.is_none() {
            return Ok(None);
        }
        let counts = format!(
            "select count(*), timestampdiff(second, min(due_at), utc_timestamp(6)), \
             (select error from {outbox} where queue = ? and published_at is null and error is not null order by number limit 1) \
             from (select due_at from {outbox} where queue = ? and published_at is null and (due_at <= utc_timestamp(6) or error is not null) \
             limit {MOST_COUNTED}) u",
            outbox = self.shared.schema.outbox
        );
        let row =
            sqlx::query(AssertSqlSafe(counts)).bind(&*queue.queue).bind(&*queue.queue).fetch_one(&self.own).await?;
        let unpublished = row.try_get::<i64, _>(0)?.unsigned_abs();
        Ok(Some(OutboxState::new(unpublished, row.try_get(1)?, row.try_get(2)?)))
    }
}

fn read(row: &MySqlRow, queue: &Statements, origin: &Arc<str>) -> Result<Unsent> {
    let guarded = row.try_get::<i64, _>(4)? == 1;
    Ok(Unsent {
        number: row.try_get(0)?,
        edition: row.try_get(1)?,
        attempts: row.try_get::<i32, _>(2)?.unsigned_abs(),
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
