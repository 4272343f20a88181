//! What is to be published after commit: written with the send, read by the relay, and made due again when a message is retried.

use ichido::{
    Guarded, Key, NewMessage,
    broker::{Publication, Unsent},
    error::Result,
    store::{Outbox, ProcessId},
};
use ichido_sql::{Sent, SqlStore, payload_hash, verbs};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::{Postgres, statements::Statements};

impl Outbox for Postgres {
    async fn publish(&self, tx: &mut PgConnection, queue: &str, messages: &[Publication]) -> Result<Vec<String>> {
        let queue = self.queue(queue).await?;
        let ids = verbs::outbox::new_ids(queue, messages)?;
        let texts = |text: fn(&Publication) -> String| messages.iter().map(text).collect::<Vec<_>>();
        let headers = messages.iter().map(|message| serde_json::to_string(&message.headers));
        let payloads: Vec<&[u8]> = messages.iter().map(|message| &*message.payload).collect();
        let insert = format!(
            "insert into {} (id, queue, exchange, routing_key, headers, payload) select id, $6, e, k, h, p \
             from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) with ordinality as m(id, e, k, h, p, at) order by at",
            self.shared.known.tables.outbox,
        );
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(&ids).bind(texts(|message| message.exchange.clone()));
        let insert = insert.bind(texts(|message| message.routing_key.clone()));
        let insert = insert.bind(headers.collect::<Result<Vec<_>, _>>()?).bind(payloads).bind(&*queue.queue);
        insert.persistent(!self.own.is_pooled()).execute(tx).await?;
        Ok(ids)
    }

    /// A row that somebody has locked is about to go, with its message.
    async fn note_published(&self, _: &str, published: &[&Unsent]) -> Result<()> {
        let outbox = &self.shared.known.tables.outbox;
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

    ichido_sql::outbox!();
}

impl Postgres {
    /// Sends to a broker's queue: the mutex, and what is to be published. A delayed message is due when it is returned.
    pub(crate) async fn send_guarded(
        &self,
        connection: &mut PgConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>> {
        let Guarded { exchange, routing_key, .. } = queue.rules()?;
        let ids: Vec<String> = messages.iter().map(|_| ichido_sql::new_id()).collect();
        let headers = messages.iter().map(NewMessage::broker_headers);
        let payloads: Vec<&[u8]> = messages.iter().map(|message| &*message.payload).collect();
        let delayed: Vec<bool> = messages.iter().map(|message| message.due.is_some()).collect();
        let insert = format!(
            "with sent as (select * from unnest($1::text[], $2::text[], $3::bytea[], $4::boolean[], $8::bytea[]) with ordinality as m(id, h, p, d, hash, at)), \
             guarded as (insert into {} (id, queue, owner, hash) select id, $5, case when d then '{}'::uuid end, hash from sent) \
             insert into {} (id, mutex, queue, exchange, routing_key, headers, payload, due_at, published_at) \
             select id, id, $5, $6, $7, h, p, case when not d then now() end, case when d then now() end from sent order by at",
            self.shared.known.tables.mutex,
            ProcessId::NOBODY,
            self.shared.known.tables.outbox,
        );
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(&ids).bind(headers.collect::<Result<Vec<_>, _>>()?);
        let hashes: Vec<_> = payloads.iter().map(|payload| payload_hash(payload)).collect();
        let insert =
            insert.bind(payloads).bind(delayed).bind(&*queue.queue).bind(exchange).bind(routing_key).bind(hashes);
        insert.persistent(!self.own.is_pooled()).execute(connection).await?;
        Ok(ids.into_iter().map(|id| Sent::new(Key::new([id]))).collect())
    }
}
