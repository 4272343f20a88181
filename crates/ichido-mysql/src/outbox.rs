//! What is to be published after commit: written with the send, read by the relay, and made due again when a message is retried.

use ichido::{
    Guarded, Key, NewMessage,
    broker::{Publication, Unsent},
    error::Result,
    store::{Outbox, ProcessId},
};
use ichido_sql::{Sent, SqlStore, padded, padded_len, payload_hash, verbs};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::{MySql, quote, sending::parts, statements::Statements};

impl Outbox for MySql {
    async fn publish(&self, tx: &mut MySqlConnection, queue: &str, messages: &[Publication]) -> Result<Vec<String>> {
        let queue = self.queue(queue).await?;
        let ids = verbs::outbox::new_ids(queue, messages)?;
        let mut left = ids.iter();
        for part in parts(messages, |message| message.payload.len()) {
            let rows = vec!["(?, ?, ?, ?, ?, ?, utc_timestamp(6), utc_timestamp(6))"; part.len()].join(", ");
            let insert = format!(
                "insert into {} (id, queue, exchange, routing_key, headers, payload, created_at, due_at) values {rows}",
                self.shared.known.tables.outbox
            );
            let mut insert = sqlx::query(AssertSqlSafe(insert));
            for (message, id) in part.iter().zip(&mut left) {
                insert = insert.bind(id).bind(&*queue.queue).bind(&message.exchange).bind(&message.routing_key);
                insert = insert.bind(serde_json::to_string(&message.headers)?).bind(&*message.payload);
            }
            self.within(insert.execute(&mut *tx)).await?;
        }
        Ok(ids)
    }

    /// Two steps, neither of which waits: a row that somebody has locked is about to go, with its message.
    async fn note_published(&self, _: &str, published: &[&Unsent]) -> Result<()> {
        let (kept, gone): (Vec<&Unsent>, Vec<_>) = published.iter().partition(|unsent| unsent.message.queue.is_some());
        let outbox = format!("{} o force index (primary)", self.shared.known.tables.outbox);
        let numbers = |places: String| format!("o.number in ({places})");
        if !gone.is_empty() {
            let delete = format!("delete o from {outbox} where o.mutex is null and {}", numbers(quote::places(&gone)));
            let delete = sqlx::query(AssertSqlSafe(delete));
            self.run_alone(padded(&gone).fold(delete, |delete, unsent| delete.bind(unsent.number))).await?;
        }
        if kept.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin_own().await?;
        let editions = vec!["(o.number = ? and o.edition = ?)"; padded_len(kept.len())].join(" or ");
        let there = format!("select o.number from {outbox} where {editions} for update skip locked");
        let there = sqlx::query(AssertSqlSafe(there));
        let there = padded(&kept).fold(there, |there, unsent| there.bind(unsent.number).bind(unsent.edition));
        let there = self.within(there.fetch_all(&mut *tx)).await?;
        let there: Vec<i64> = there.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        if !there.is_empty() {
            let note = format!(
                "update {outbox} set o.published_at = utc_timestamp(6), o.attempts = 0, o.error = null where {}",
                numbers(quote::places(&there))
            );
            let note = sqlx::query(AssertSqlSafe(note));
            self.within(padded(&there).fold(note, sqlx::query::Query::bind).execute(&mut *tx)).await?;
        }
        Self::commit_own(tx).await
    }

    ichido_sql::outbox!();
}

impl MySql {
    /// Sends to a broker's queue: the mutex, and what is to be published. A delayed message is due when it is returned.
    pub(crate) async fn send_guarded(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        messages: &[NewMessage],
    ) -> Result<Vec<Sent>> {
        let rules = queue.rules()?;
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
        let rows = vec!["(?, ?, ?, ?)"; ids.len()].join(", ");
        let insert = format!("insert into {} (id, queue, owner, hash) values {rows}", self.shared.known.tables.mutex);
        let mut insert = sqlx::query(AssertSqlSafe(insert));
        for (id, message) in ids.iter().zip(messages) {
            insert = insert.bind(id).bind(&*queue.queue).bind(message.due.map(|_| ProcessId::NOBODY.to_string()));
            insert = insert.bind(payload_hash(&message.payload));
        }
        self.within(insert.execute(connection)).await?;
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
        // There are too many mixtures to keep each.
        let same = rows.iter().all(|row| *row == rows[0]);
        let insert = format!(
            "insert into {} (id, mutex, queue, exchange, routing_key, headers, payload, created_at, due_at, published_at) values {}",
            self.shared.known.tables.outbox,
            rows.join(", ")
        );
        let mut insert = sqlx::query(AssertSqlSafe(insert)).persistent(same);
        for (id, message) in ids.iter().zip(messages) {
            insert = insert.bind(id).bind(id).bind(&*queue.queue).bind(&rules.exchange).bind(&rules.routing_key);
            insert = insert.bind(message.broker_headers()?).bind(&*message.payload);
        }
        self.within(insert.execute(connection)).await?;
        Ok(())
    }
}
