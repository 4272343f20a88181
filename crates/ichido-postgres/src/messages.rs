//! Messages in queues: the verbs of [`Queues`]. Rows are claimed and written here (`sending` has the
//! statements); the others are those of all stores.

use std::time::Instant;

use ichido::{
    Delivery, Error, Key, Message, NewMessage,
    error::Result,
    store::{ProcessId, Queues},
};
use ichido_sql::{Claiming, Kind, Past, Sending, Sent, SqlStore, Start, verbs};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use crate::{Postgres, sending::send_rows, statements::Statements};

impl Queues for Postgres {
    async fn claimed(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let own = sqlx::query(AssertSqlSafe(queue.claimed.clone())).bind(process.to_string());
        let own = self.own.fetch_all(own).await?;
        self.deliveries(queue, process, &own.iter().collect::<Vec<_>>(), true).await
    }

    ichido_sql::queues!();
}

impl Sending for Postgres {
    async fn insert(&self, tx: &mut PgConnection, queue: &Statements, messages: &[NewMessage]) -> Result<Vec<Sent>> {
        let sent = match queue.kind {
            Kind::Managed => self.send_managed(tx, queue, messages).await?,
            Kind::Mutex => self.send_guarded(tx, queue, messages).await?,
            Kind::Table => send_rows(tx, queue, messages, !self.own.is_pooled()).await?,
        };
        self.delay(tx, queue, &sent, messages).await?;
        Ok(sent)
    }
}

impl Claiming for Postgres {
    /// Claims rows that are in no group, and tells whether there are messages in groups.
    async fn claim_rows(
        &self,
        process: ProcessId,
        queue: &Statements,
        count: usize,
        start: &Start,
    ) -> Result<(Vec<Delivery>, bool)> {
        let began = Instant::now();
        let (statement, values) = match start {
            Start::First => (&queue.claim, &[][..]),
            Start::At(values) => (&queue.claim_from, &values[..]),
        };
        let claim = sqlx::query(AssertSqlSafe(statement.clone())).bind(process.to_string());
        let mut claim = claim.bind(i64::try_from(count).unwrap_or(i64::MAX));
        for value in values {
            claim = claim.bind(value);
        }
        let rows = self.own.fetch_all(claim).await?;
        let Some(first) = rows.first() else { return Err(Error::LostClaim) };
        if !first.try_get::<bool, _>(0)? {
            return Err(Error::LostClaim);
        }
        let (any_parked, grouped) = (first.try_get(1)?, first.try_get(2)?);
        let claimed = claimed_rows(&rows);
        let last = claimed.last().and_then(|row| order(queue, row));
        queue.bound.note(start, last, (claimed.len(), count), began.elapsed());
        Ok((self.deliveries(queue, process, &claimed, any_parked).await?, grouped))
    }
}

impl Postgres {
    pub(crate) async fn deliveries(
        &self,
        queue: &Statements,
        process: ProcessId,
        rows: &[&PgRow],
        any_parked: bool,
    ) -> Result<Vec<Delivery>> {
        let messages: Vec<_> = rows.iter().map(|row| message(queue, row)).collect::<Result<_>>()?;
        let known: &[Message] = if any_parked { &messages } else { &[] };
        let past = verbs::queues::past(self, None, queue, known).await?;
        let deliveries = messages.into_iter().zip(rows).map(|(message, row)| {
            let past = past.get(&message.key.to_string());
            let delivery = Past::delivery(past, message, process, row.try_get("group_key")?, queue.payload_limit);
            Ok(delivery.after(row.try_get("waited")?))
        });
        deliveries.collect()
    }
}

/// The rows that were claimed; a claim that found nothing still answers with a row.
pub(crate) fn claimed_rows(rows: &[PgRow]) -> Vec<&PgRow> {
    rows.iter().filter(|row| row.try_get::<Option<&str>, _>("k0").is_ok_and(|key| key.is_some())).collect()
}

/// The values of the claim order of a row; none if one of them is null.
fn order(queue: &Statements, row: &PgRow) -> Option<Vec<String>> {
    (0..queue.bound_columns).map(|at| row.try_get(format!("b{at}").as_str()).ok()?).collect()
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
    let message = Message::new(queue.queue.clone(), key(queue, row)?, payload.into_bytes());
    Ok(message.with_headers(serde_json::from_str(row.try_get("headers")?).unwrap_or_default()))
}
