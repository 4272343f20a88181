//! Messages in queues: the verbs of [`Queues`]. Rows are claimed and written here (`sending` has the
//! statements); the others are those of all stores.

use std::time::Instant;

use ichido::{
    Delivery, Error, Key, Message, NewMessage,
    error::Result,
    store::{ProcessId, Queues},
};
use ichido_sql::{Claiming, Kind, Past, Sending, Sent, SqlStore, Start, padded, verbs};
use sqlx::{AssertSqlSafe, MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    MySql,
    session::{Own, give_back},
    statements::Statements,
};

impl Queues for MySql {
    async fn claimed(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        let queue = self.queue(queue).await?;
        let mut lent = self.take(&self.own).await?;
        let own = sqlx::query(AssertSqlSafe(queue.claimed.clone())).bind(process.to_string());
        let own = self.within(own.fetch_all(&mut **lent)).await?;
        let deliveries = self.deliveries(&mut lent, queue, process, &own).await?;
        give_back(lent);
        Ok(deliveries)
    }

    ichido_sql::queues!();
}

impl Sending for MySql {
    async fn insert(&self, tx: &mut MySqlConnection, queue: &Statements, messages: &[NewMessage]) -> Result<Vec<Sent>> {
        let sent = match queue.kind {
            Kind::Managed => self.send_managed(tx, queue, messages).await?,
            Kind::Mutex => self.send_guarded(tx, queue, messages).await?,
            Kind::Table => {
                let mut rows = Vec::with_capacity(messages.len());
                for message in messages {
                    rows.push(self.send_row(&mut *tx, queue, message).await?);
                }
                rows
            }
        };
        for (key, due) in ichido_sql::delayed(&sent, messages) {
            self.delay(tx, queue, key, due).await?;
        }
        Ok(sent)
    }
}

impl Claiming for MySql {
    /// Claims rows that are in no group, and tells whether there are messages in groups. Two steps: the server knows no
    /// UPDATE … RETURNING.
    async fn claim_rows(
        &self,
        process: ProcessId,
        queue: &Statements,
        count: usize,
        start: &Start,
    ) -> Result<(Vec<Delivery>, bool)> {
        let (mut tx, there) = self.begin_claim(process, queue).await?;
        let began = Instant::now();
        let mut pick = match start {
            Start::First => sqlx::query(AssertSqlSafe(queue.pick.clone())),
            Start::At(_) => sqlx::query(AssertSqlSafe(queue.pick_from.clone())),
        };
        if queue.rows.mapping.kind == Kind::Table {
            pick = pick.bind(process.to_string());
        }
        if let Start::At(values) = start {
            pick = pick.bind(&values[0]);
        }
        let pick = pick.bind(i64::try_from(count).unwrap_or(i64::MAX));
        let picked = self.within(pick.fetch_all(&mut *tx)).await?;
        let took = began.elapsed();
        let deliveries = self.deliveries(&mut tx, queue, process, &picked).await?;
        self.claim_picked(&mut tx, queue, process, &deliveries).await?;
        Self::commit_own(tx).await?;
        let last = picked.last().and_then(|row| row.try_get::<Option<String>, _>("ichido_bound").ok()?);
        queue.bound.note(start, last.map(|value| vec![value]), (picked.len(), count), took);
        Ok((deliveries, there))
    }
}

impl MySql {
    /// Begins a claim: the own process row is locked first, so that a rescuer leaves us alone meanwhile and a process that
    /// counts as dead gets nothing. Tells whether there are messages in groups.
    pub(crate) async fn begin_claim(&self, process: ProcessId, queue: &Statements) -> Result<(Own, bool)> {
        let mut tx = self.begin_own().await?;
        let there = queue.groups.as_ref().map_or("0", |groups| &groups.there);
        let alive = format!(
            "select {there} from {} where id = ? and heartbeat_at > utc_timestamp(6) - interval lease_us microsecond lock in share mode",
            self.shared.known.tables.process
        );
        let alive = sqlx::query(AssertSqlSafe(alive)).bind(process.to_string());
        let alive = self.within(alive.fetch_optional(&mut *tx)).await?;
        let Some(alive) = alive else {
            Self::rollback_own(tx).await?;
            return Err(Error::LostClaim);
        };
        Ok((tx, alive.try_get::<i64, _>(0)? == 1))
    }

    /// Writes the owner into rows that were picked and locked.
    pub(crate) async fn claim_picked(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        process: ProcessId,
        picked: &[Delivery],
    ) -> Result<()> {
        if picked.is_empty() {
            return Ok(());
        }
        let claim = queue.of_many(&queue.claim, picked.len(), "");
        let mut claim = sqlx::query(AssertSqlSafe(claim)).bind(process.to_string());
        for column in padded(picked).flat_map(|delivery| delivery.message.key.columns()) {
            claim = claim.bind(column);
        }
        let claimed = self.within(claim.execute(tx)).await?.rows_affected();
        if claimed != picked.len() as u64 {
            let text = format!("queue `{}`: {claimed} rows match {} keys", queue.queue, picked.len());
            return Err(Error::Setup(text));
        }
        Ok(())
    }

    pub(crate) async fn deliveries(
        &self,
        connection: &mut MySqlConnection,
        queue: &Statements,
        process: ProcessId,
        rows: &[MySqlRow],
    ) -> Result<Vec<Delivery>> {
        let messages: Vec<_> = rows.iter().map(|row| message(queue, row)).collect::<Result<_>>()?;
        let past = verbs::queues::past(self, Some(connection), queue, &messages).await?;
        let deliveries = messages.into_iter().zip(rows).map(|(message, row)| {
            let past = past.get(&message.key.to_string());
            let delivery =
                Past::delivery(past, message, process, row.try_get("ichido_group_key")?, queue.payload_limit);
            Ok(delivery.after(row.try_get("ichido_waited")?))
        });
        deliveries.collect()
    }
}

/// The key in the first columns of a row.
pub(crate) fn key(queue: &Statements, row: &MySqlRow) -> Result<Key> {
    let columns = (0..queue.rows.key.len()).map(|at| row.try_get::<String, _>(at));
    Ok(Key::new(columns.collect::<Result<Vec<_>, _>>()?))
}

fn message(queue: &Statements, row: &MySqlRow) -> Result<Message> {
    let after = queue.rows.key.len();
    let payload: String = row.try_get(after)?;
    let mut message = Message::new(queue.queue.clone(), key(queue, row)?, payload.into_bytes());
    message = message.with_headers(serde_json::from_str(row.try_get(after + 1)?).unwrap_or_default());
    message.kinds = queue.kinds.clone();
    Ok(message)
}
