//! Parked messages: put aside with a reason, returned when due, retried and discarded by operators. The parked row and the
//! queue's row always change in one transaction.

use std::{collections::BTreeSet, sync::Arc};

use ichido::{Delivery, Key, MessageId, Result, message::Claim, store::Failure};
use ichido_sql::Note;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::{
    Postgres, fault, messages,
    statements::{Kind, Statements},
};

/// A point in time as operators read it.
pub(crate) const UTC: &str = "'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'";

impl Postgres {
    /// Parks in a transaction that is there; false if the claim was gone.
    pub(crate) async fn park_in(&self, tx: &mut PgConnection, delivery: &Delivery, failure: &Failure) -> Result<bool> {
        let Some(claim) = &delivery.claim else { return Ok(false) };
        let queue = self.queue(&delivery.message.queue).await?;
        // What is only locked is free for others since the rollback: whoever is at it now decides.
        if claim.locked && !self.is_free(&mut *tx, delivery).await? {
            return Ok(false);
        }
        let statement = if failure.retry_after.is_none() { &queue.park_dead } else { &queue.park_waiting };
        if queue.has_inbox() {
            return self.park_received(tx, queue, delivery, claim, failure).await;
        }
        let mut park =
            sqlx::query(AssertSqlSafe(statement.clone())).bind(claim.in_row().map(|owner| owner.to_string()));
        for column in delivery.message.key.columns() {
            park = park.bind(column);
        }
        if park.execute(&mut *tx).await?.rows_affected() != 1 {
            return Ok(false);
        }
        let (key, group) = (&delivery.message.key, claim.group.as_ref());
        if failure.retry_after.is_none() {
            self.hold_group(&mut *tx, queue, claim.owner, group, key).await?;
        } else {
            self.free_groups(&mut *tx, queue, claim.owner, &group.cloned().into_iter().collect::<Vec<_>>()).await?;
        }
        self.keep_payload(tx, queue, delivery).await?;
        self.write_note(tx, queue, &delivery.message.key, Note::failure(failure)).await?;
        Ok(true)
    }

    /// The same where the inbox guards: there may be no row yet.
    async fn park_received(
        &self,
        tx: &mut PgConnection,
        queue: &Statements,
        delivery: &Delivery,
        claim: &Claim,
        failure: &Failure,
    ) -> Result<bool> {
        let key = &delivery.message.key;
        if !self.set_aside(&mut *tx, queue, &key.columns()[0], claim.in_row()).await? {
            return Ok(false);
        }
        self.keep_payload(&mut *tx, queue, delivery).await?;
        self.write_note(tx, queue, key, Note::failure(failure)).await?;
        Ok(true)
    }

    /// Writes what is known about a message, keeping its last failures.
    pub(crate) async fn write_note(
        &self,
        tx: &mut PgConnection,
        queue: &Statements,
        key: &Key,
        note: Note<'_>,
    ) -> Result<()> {
        let key = key.to_string();
        let parked = &self.shared.schema.parked;
        let history = match note.error {
            None => None,
            Some(error) => {
                let past = format!(
                    "select to_char(clock_timestamp() at time zone 'utc', {UTC}), (select history from {parked} where queue = $1 and key = $2)"
                );
                let past = sqlx::query(AssertSqlSafe(past)).bind(&*queue.queue).bind(&key).fetch_one(&mut *tx).await?;
                let (at, past): (String, Option<String>) = (past.try_get(0)?, past.try_get(1)?);
                Some(ichido::inspect::history(past.as_deref(), note.attempts, at, error))
            }
        };
        let write = format!(
            "insert into {parked} as p (queue, key, state, attempts, suspect, due_at, history) \
             values ($1, $2, $3, $4, $5, now() + $6 * interval '1 millisecond', coalesce($7, '[]')) \
             on conflict (queue, key) do update set state = excluded.state, attempts = excluded.attempts, suspect = excluded.suspect, \
             due_at = excluded.due_at, parked_at = now(), history = coalesce($7, p.history)"
        );
        let write = sqlx::query(AssertSqlSafe(write)).bind(&*queue.queue).bind(&key).bind(note.state.as_str());
        let write = write
            .bind(i32::try_from(note.attempts).unwrap_or(i32::MAX))
            .bind(note.suspect)
            .bind(note.wait_ms())
            .bind(history);
        write.execute(tx).await?;
        Ok(())
    }

    /// Owner null again and state released, attempts kept. What is not there any more as we left it is forgotten.
    pub(crate) async fn return_due_of(&self, queue: &Statements) -> Result<u64> {
        let parked = &self.shared.schema.parked;
        let mut tx = self.begin_own().await?;
        let due = format!(
            "select key from {parked} where queue = $1 and state = 'waiting' and due_at <= now() order by due_at limit 500 for update skip locked"
        );
        let due = sqlx::query(AssertSqlSafe(due)).bind(&*queue.queue).fetch_all(&mut *tx).await?;
        let due: Vec<String> = due.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let keys: Vec<Key> = due.iter().map(|key| key.parse()).collect::<Result<_>>()?;
        let back = keys_of(&mut tx, queue, &queue.return_due, &keys).await?;
        let still = keys_of(&mut tx, queue, &queue.waiting, &keys).await?;
        let gone: Vec<_> = due.into_iter().filter(|key| !back.contains(key) && !still.contains(key)).collect();
        let release =
            format!("update {parked} set state = 'released', due_at = null where queue = $1 and key = any($2)");
        sqlx::query(AssertSqlSafe(release)).bind(&*queue.queue).bind(&back).execute(&mut *tx).await?;
        let returned: Vec<Key> = back.iter().map(|key| key.parse()).collect::<Result<_>>()?;
        self.republish(&mut tx, queue, &returned).await?;
        let forget = format!("delete from {parked} where queue = $1 and key = any($2)");
        sqlx::query(AssertSqlSafe(forget)).bind(&*queue.queue).bind(&gone).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(back.len() as u64)
    }

    /// A dead row that is not dead any more, or a released one that is done or gone, has nothing to be known about.
    pub(crate) async fn tidy_queue(&self, queue: &Statements) -> Result<()> {
        let parked = &self.shared.schema.parked;
        let page = format!(
            "select key, state, parked_at::text from {parked} where queue = $1 and state in ('dead', 'released') and key > $2 order by key limit 500"
        );
        let forget =
            format!("delete from {parked} where queue = $1 and key = $2 and state = $3 and parked_at::text = $4");
        let mut last = String::new();
        loop {
            let known =
                self.own.fetch_all(sqlx::query(AssertSqlSafe(page.clone())).bind(&*queue.queue).bind(&last)).await?;
            let Some(end) = known.last() else { return Ok(()) };
            last = end.try_get(0)?;
            let keys: Vec<Key> = known.iter().map(|row| row.try_get::<&str, _>(0)?.parse()).collect::<Result<_>>()?;
            let fits = self.fitting(queue, &keys).await?;
            for row in &known {
                let (key, state, parked_at): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                if !fits.contains(&(key.to_owned(), state)) {
                    let mut tx = self.begin_own().await?;
                    let forget = sqlx::query(AssertSqlSafe(forget.clone())).bind(&*queue.queue).bind(key);
                    if forget.bind(state).bind(parked_at).execute(&mut *tx).await?.rows_affected() > 0 {
                        self.free_failed(&mut tx, queue, &[key.to_owned()]).await?;
                    }
                    tx.commit().await?;
                }
            }
        }
    }

    /// Which of these keys have a row that fits which state.
    async fn fitting(&self, queue: &Statements, keys: &[Key]) -> Result<BTreeSet<(String, &'static str)>> {
        let mut there = sqlx::query(AssertSqlSafe(queue.dead_or_new.clone()));
        for column in messages::key_columns(queue, &keys.iter().collect::<Vec<_>>()) {
            there = there.bind(column);
        }
        let mut fits = BTreeSet::new();
        for row in self.own.fetch_all(there).await? {
            let (key, at) = (messages::key(queue, &row)?.to_string(), queue.rows.key.len());
            let states = [(row.try_get(at)?, "dead"), (row.try_get(at + 1)?, "released")];
            fits.extend(states.into_iter().filter(|(fits, _)| *fits).map(|(_, state)| (key.clone(), state)));
        }
        Ok(fits)
    }

    /// An operator's retry: back into circulation as attempt one; its past is kept.
    pub(crate) async fn retry_message(&self, id: &MessageId) -> Result<bool> {
        let queue = self.queue(&id.queue).await?;
        let past = format!(
            "update {} set state = 'released', attempts = 0, suspect = false, due_at = null where queue = $1 and key = $2",
            self.shared.schema.parked
        );
        self.by_hand("retry", queue, &id.key, &queue.revive, &past).await
    }

    /// An operator's discard: out of sight, with a note.
    pub(crate) async fn discard_message(&self, id: &MessageId) -> Result<bool> {
        let queue = self.queue(&id.queue).await?;
        let parked = &self.shared.schema.parked;
        let stays_new = queue.rows.kind == Kind::Table && !queue.rows.mapping.has_failed_value();
        let past = if stays_new {
            format!("update {parked} set state = 'discarded' where queue = $1 and key = $2")
        } else {
            format!("delete from {parked} where queue = $1 and key = $2")
        };
        self.by_hand("discard", queue, &id.key, &queue.discard, &past).await
    }

    /// One message, re-checked under its row's lock, with a note in the audit.
    async fn by_hand(&self, verb: &str, queue: &Statements, key: &Key, row: &Arc<str>, past: &str) -> Result<bool> {
        queue.refuse_key(key)?;
        let mut tx = self.begin_own().await?;
        let text = key.to_string();
        let dead = format!(
            "select history from {} where queue = $1 and key = $2 and state = 'dead' for update",
            self.shared.schema.parked
        );
        let dead = sqlx::query(AssertSqlSafe(dead)).bind(&*queue.queue).bind(&text).fetch_optional(&mut *tx).await?;
        let Some(dead) = dead else { return Ok(false) };
        let hash = if verb == "discard" { self.kept_hash(&mut tx, queue, key).await? } else { None };
        let mut change = sqlx::query(AssertSqlSafe(row.clone()));
        for column in key.columns() {
            change = change.bind(column);
        }
        let changed = change.execute(&mut *tx).await.map_err(|error| match error {
            error if queue.rows.kind == Kind::Managed && fault::is_unique(&error) => {
                ichido_sql::unique_taken(&queue.queue, key)
            }
            error => error.into(),
        })?;
        if changed.rows_affected() != 1 {
            return Ok(false);
        }
        sqlx::query(AssertSqlSafe(past.to_owned())).bind(&*queue.queue).bind(&text).execute(&mut *tx).await?;
        self.free_failed(&mut tx, queue, std::slice::from_ref(&text)).await?;
        if self.republish(&mut tx, queue, std::slice::from_ref(key)).await? == 0
            && verb == "retry"
            && queue.mutex.is_some()
        {
            return Err(ichido_sql::nothing_kept(&queue.queue, key));
        }
        if let Some(hash) = hash {
            self.shut(&mut tx, queue, key, hash).await?;
        }
        let audit =
            format!("insert into {} (verb, queue, key, detail) values ($1, $2, $3, $4)", self.shared.schema.audit);
        let audit = sqlx::query(AssertSqlSafe(audit))
            .bind(verb)
            .bind(&*queue.queue)
            .bind(&text)
            .bind(dead.try_get::<String, _>(0)?);
        audit.execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// Runs a statement about these keys and returns the keys that it gives.
async fn keys_of(tx: &mut PgConnection, queue: &Statements, statement: &Arc<str>, keys: &[Key]) -> Result<Vec<String>> {
    let mut query = sqlx::query(AssertSqlSafe(statement.clone()));
    for column in messages::key_columns(queue, &keys.iter().collect::<Vec<_>>()) {
        query = query.bind(column);
    }
    let rows = query.fetch_all(tx).await?;
    rows.iter().map(|row| Ok(messages::key(queue, row)?.to_string())).collect()
}
