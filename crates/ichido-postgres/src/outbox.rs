//! What is to be published after commit: written with the send, read by the relay, and made due again when a message is retried.

use std::{sync::Arc, time::Duration};

use ichido::{
    Delivery, Guarded, Key, Message, NewMessage, Result,
    broker::{Circulating, OutboxState, Outgoing, Publication, Unsent},
    inspect::MOST_COUNTED,
    store::{Outbox, ProcessId},
};
use ichido_sql::Sent;
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use crate::{Postgres, statements::Statements};

impl Outbox for Postgres {
    fn broker_queues(&self) -> Vec<Arc<str>> {
        ichido_sql::broker_queues(&self.shared.queues)
    }

    async fn publish(
        &self,
        connection: &mut PgConnection,
        queue: &str,
        messages: &[Publication],
    ) -> Result<Vec<String>> {
        let queue = self.queue(queue).await?;
        queue.mutex()?;
        ichido_sql::refuse_publications(&queue.queue, queue.payload_limit, messages)?;
        let ids: Vec<String> = messages.iter().map(|_| ichido_sql::new_id()).collect();
        let texts = |text: fn(&Publication) -> String| messages.iter().map(text).collect::<Vec<_>>();
        let headers = messages.iter().map(|message| serde_json::to_string(&message.headers));
        let payloads: Vec<&[u8]> = messages.iter().map(|message| &*message.payload).collect();
        let insert = format!(
            "insert into {} (id, queue, exchange, routing_key, headers, payload) select id, $6, e, k, h, p \
             from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) with ordinality as m(id, e, k, h, p, at) order by at",
            self.shared.schema.outbox,
        );
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(&ids).bind(texts(|message| message.exchange.clone()));
        let insert = insert.bind(texts(|message| message.routing_key.clone()));
        let insert = insert.bind(headers.collect::<Result<Vec<_>, _>>()?).bind(payloads).bind(&*queue.queue);
        insert.persistent(!self.own.is_pooled()).execute(connection).await?;
        Ok(ids)
    }

    async fn unsent(&self, queue: &str, most: usize) -> Result<Vec<Unsent>> {
        let queue = self.queue(queue).await?;
        let unsent = format!(
            "select number, edition, attempts, id, mutex is not null, exchange, routing_key, headers, payload, \
             (extract(epoch from clock_timestamp() - created_at) * 1000)::bigint from {} \
             where queue = $1 and published_at is null and due_at <= clock_timestamp() order by number limit $2",
            self.shared.schema.outbox
        );
        let unsent = sqlx::query(AssertSqlSafe(unsent)).bind(&*queue.queue);
        let unsent = self.own.fetch_all(unsent.bind(i64::try_from(most).unwrap_or(i64::MAX))).await?;
        let origin = self.origin().await?;
        unsent.iter().map(|row| read(row, queue, &origin)).collect()
    }

    async fn take_turn(&self, relay: ProcessId, queue: &str) -> Result<bool> {
        let queue = self.queue(queue).await?;
        let lasts = ichido::message::wait_ms(queue.mutex()?.rules.relay_after);
        let take = format!(
            "insert into {} as r (queue, owner, until) values ($1, $2::text::uuid, clock_timestamp() + $3 * interval '1 millisecond') \
             on conflict (queue) do update set owner = excluded.owner, until = excluded.until \
             where r.owner = excluded.owner or r.until <= clock_timestamp()",
            self.shared.schema.relay
        );
        let take = sqlx::query(AssertSqlSafe(take)).bind(&*queue.queue).bind(relay.to_string()).bind(lasts);
        Ok(self.own.execute(take).await?.rows_affected() == 1)
    }

    async fn leave_turn(&self, relay: ProcessId, queue: &str) -> Result<()> {
        let leave = format!("delete from {} where queue = $1 and owner = $2::text::uuid", self.shared.schema.relay);
        self.own.execute(sqlx::query(AssertSqlSafe(leave)).bind(queue).bind(relay.to_string())).await?;
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
        let lock =
            format!("select id from {} where id = $1 and queue = $2 for update skip locked", self.shared.schema.mutex);
        let lock = sqlx::query(AssertSqlSafe(lock)).bind(id).bind(&*queue.queue);
        let found: Option<String> = lock.fetch_optional(&mut *tx).await?.map(|row| row.try_get(0)).transpose()?;
        let kept = found.as_ref() == Some(id) && self.keep_in(&mut tx, queue, message).await?;
        tx.commit().await?;
        Ok(kept)
    }

    async fn circulating(&self, queue: &str, age: Duration, most: usize) -> Result<Circulating> {
        let queue = self.queue(queue).await?;
        let old = format!(
            "select m.id from {} m join {} o on o.mutex = m.id where m.queue = $1 and m.owner is null \
             and o.published_at < clock_timestamp() - $2 * interval '1 millisecond' order by o.published_at limit $3",
            self.shared.schema.mutex, self.shared.schema.outbox
        );
        let old = sqlx::query(AssertSqlSafe(old)).bind(&*queue.queue).bind(ichido::message::wait_ms(age));
        let old = self.own.fetch_all(old.bind(i64::try_from(most).unwrap_or(i64::MAX))).await?;
        let old: Vec<Key> =
            old.iter().map(|row| Ok(Key::new([row.try_get::<String, _>(0)?]))).collect::<Result<_>>()?;
        if old.is_empty() {
            return Ok(Circulating::default());
        }
        let failed = format!("select count(*) from {} where queue = $1 and state = 'dead'", self.shared.schema.parked);
        let failed = sqlx::query(AssertSqlSafe(failed)).bind(&*queue.queue);
        let failed: i64 = self.own.fetch_one(failed).await?.try_get(0)?;
        Ok(Circulating { old, failed: failed.unsigned_abs() })
    }

    async fn publish_again(&self, queue: &str, keys: &[Key], most: usize) -> Result<u64> {
        let queue = self.queue(queue).await?;
        keys.iter().try_for_each(|key| queue.refuse_key(key))?;
        let again = format!(
            "with free as materialized (select m.id from {} m, unnest($1::text[]) with ordinality as k(id, at) \
             where m.id = k.id and m.queue = $2 and m.owner is null order by at limit $3 for update of m skip locked) \
             update {} o set published_at = null, due_at = clock_timestamp(), edition = edition + 1, attempts = 0, error = null \
             from free where o.mutex = free.id",
            self.shared.schema.mutex, self.shared.schema.outbox
        );
        let ids: Vec<_> = keys.iter().map(|key| key.columns()[0].clone()).collect();
        let again = sqlx::query(AssertSqlSafe(again)).bind(ids).bind(&*queue.queue);
        Ok(self.own.execute(again.bind(i64::try_from(most).unwrap_or(i64::MAX))).await?.rows_affected())
    }
}

impl Postgres {
    /// Sends to a broker's queue: the mutex, and what is to be published. A delayed message is due when it is returned.
    pub(crate) async fn send_guarded(
        &self,
        connection: &mut PgConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>> {
        let Guarded { exchange, routing_key, .. } = &queue.mutex()?.rules;
        let ids: Vec<String> = messages.iter().map(|_| ichido_sql::new_id()).collect();
        let headers = messages.iter().map(|message| serde_json::to_string(&message.headers));
        let payloads: Vec<&[u8]> = messages.iter().map(|message| &*message.payload).collect();
        let delayed: Vec<bool> = messages.iter().map(|message| message.due.is_some()).collect();
        let insert = format!(
            "with sent as (select * from unnest($1::text[], $2::text[], $3::bytea[], $4::boolean[]) with ordinality as m(id, h, p, d, at)), \
             guarded as (insert into {} (id, queue, owner) select id, $5, case when d then '{}'::uuid end from sent) \
             insert into {} (id, mutex, queue, exchange, routing_key, headers, payload, due_at, published_at) \
             select id, id, $5, $6, $7, h, p, case when not d then now() end, case when d then now() end from sent order by at",
            self.shared.schema.mutex,
            ProcessId::NOBODY,
            self.shared.schema.outbox,
        );
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(&ids).bind(headers.collect::<Result<Vec<_>, _>>()?);
        let insert = insert.bind(payloads).bind(delayed).bind(&*queue.queue).bind(exchange).bind(routing_key);
        insert.persistent(!self.own.is_pooled()).execute(connection).await?;
        Ok(ids.into_iter().map(|id| Sent::new(Key::new([id]))).collect())
    }

    /// A row that somebody has locked is about to go, with its message.
    pub(crate) async fn published(&self, published: &[&Unsent]) -> Result<()> {
        let outbox = &self.shared.schema.outbox;
        let (numbers, editions): (Vec<_>, Vec<_>) =
            published.iter().map(|unsent| (unsent.number, unsent.edition)).unzip();
        let gone = format!("delete from {outbox} where number = any($1) and mutex is null");
        let kept = format!(
            "with there as (select o.number from {outbox} o, unnest($1::bigint[], $2::bigint[]) as k(number, edition) \
             where o.number = k.number and o.edition = k.edition and o.mutex is not null for update of o skip locked) \
             update {outbox} o set published_at = clock_timestamp(), attempts = 0, error = null from there where o.number = there.number"
        );
        if published.iter().any(|unsent| unsent.message.queue.is_none()) {
            self.own.execute(sqlx::query(AssertSqlSafe(gone)).bind(&numbers)).await?;
        }
        self.own.execute(sqlx::query(AssertSqlSafe(kept)).bind(&numbers).bind(&editions)).await?;
        Ok(())
    }

    pub(crate) async fn unpublished(&self, unsent: &Unsent, error: &str, wait: Duration) -> Result<()> {
        let note = format!(
            "update {} set attempts = attempts + 1, error = $3, due_at = clock_timestamp() + $4 * interval '1 millisecond' \
             where number = $1 and edition = $2 and published_at is null",
            self.shared.schema.outbox
        );
        let note = sqlx::query(AssertSqlSafe(note)).bind(unsent.number).bind(unsent.edition).bind(error);
        self.own.execute(note.bind(ichido::message::wait_ms(wait))).await?;
        Ok(())
    }

    /// These messages are published again: their time has come, or somebody wants it so. Nothing where no broker keeps the queue.
    pub(crate) async fn republish(&self, tx: &mut PgConnection, queue: &Statements, keys: &[Key]) -> Result<u64> {
        if queue.mutex.is_none() || keys.is_empty() {
            return Ok(0);
        }
        let due = format!(
            "update {} set published_at = null, due_at = clock_timestamp(), edition = edition + 1, attempts = 0, error = null where mutex = any($1)",
            self.shared.schema.outbox
        );
        let ids: Vec<_> = keys.iter().map(|key| key.columns()[0].clone()).collect();
        Ok(sqlx::query(AssertSqlSafe(due)).bind(ids).execute(tx).await?.rows_affected())
    }

    /// What another program has published, with a mutex of its own making, is kept when it fails: a retry needs it.
    pub(crate) async fn keep_payload(
        &self,
        tx: &mut PgConnection,
        queue: &Statements,
        delivery: &Delivery,
    ) -> Result<()> {
        if queue.mutex.is_none() || delivery.refused.is_some() {
            return Ok(());
        }
        self.keep_in(tx, queue, &delivery.message).await?;
        Ok(())
    }

    async fn keep_in(&self, tx: &mut PgConnection, queue: &Statements, message: &Message) -> Result<bool> {
        let keep = format!(
            "insert into {} (id, mutex, queue, exchange, routing_key, headers, payload, published_at) \
             select id, id, $2, $3, $4, $5, $6, clock_timestamp() from {} where id = $1 and queue = $2 on conflict (mutex) do nothing",
            self.shared.schema.outbox, self.shared.schema.mutex
        );
        let keep = sqlx::query(AssertSqlSafe(keep)).bind(&message.key.columns()[0]).bind(&*queue.queue);
        // To this queue only, by the exchange that leads to every queue by its name.
        let keep = keep.bind("").bind(&queue.mutex()?.rules.queue);
        let keep = keep.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
        Ok(keep.execute(tx).await?.rows_affected() == 1)
    }

    pub(crate) async fn outbox_of(&self, queue: &Statements) -> Result<Option<OutboxState>> {
        if queue.mutex.is_none() {
            return Ok(None);
        }
        let counts = format!(
            "select count(*), extract(epoch from clock_timestamp() - min(due_at))::bigint, \
             (select error from {outbox} where queue = $1 and published_at is null and error is not null order by number limit 1) \
             from (select due_at from {outbox} where queue = $1 and published_at is null and (due_at <= clock_timestamp() or error is not null) \
             limit {MOST_COUNTED}) u",
            outbox = self.shared.schema.outbox
        );
        let row = self.own.fetch_one(sqlx::query(AssertSqlSafe(counts)).bind(&*queue.queue)).await?;
        let unpublished = row.try_get::<i64, _>(0)?.unsigned_abs();
        Ok(Some(OutboxState::new(unpublished, row.try_get(1)?, row.try_get(2)?)))
    }
}

fn read(row: &PgRow, queue: &Statements, origin: &Arc<str>) -> Result<Unsent> {
    let guarded: bool = row.try_get(4)?;
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
