//! Parked messages: put aside with a reason, returned when due, retried and discarded by operators. The parked row and the
//! queue's row always change in one transaction.

use std::{collections::BTreeSet, sync::Arc};

use ichido::{Delivery, Key, MessageId, Result, message::Claim, store::Failure};
use ichido_sql::Note;
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::{
    MySql, fault, messages,
    statements::{Kind, Statements},
};

/// A point in time as operators read it.
pub(crate) const UTC: &str = "'%Y-%m-%dT%H:%i:%s.%fZ'";

impl MySql {
    /// Parks in a transaction that is there; false if the claim was gone.
    pub(crate) async fn park_in(
        &self,
        tx: &mut MySqlConnection,
        delivery: &Delivery,
        failure: &Failure,
    ) -> Result<bool> {
        let Some(claim) = &delivery.claim else { return Ok(false) };
        let queue = self.queue(&delivery.message.queue).await?;
        // What is only locked is free for others since the rollback: whoever is at it now decides.
        if claim.locked && !self.is_free(&mut *tx, delivery).await? {
            return Ok(false);
        }
        if queue.has_inbox() {
            return self.park_received(tx, queue, delivery, claim, failure).await;
        }
        let statement = if failure.retry_after.is_none() { &queue.park_dead } else { &queue.park_waiting };
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
            self.free_group(&mut *tx, queue, claim.owner, group).await?;
        }
        self.keep_payload(&mut *tx, queue, delivery).await?;
        self.write_note(tx, queue, key, Note::failure(failure)).await?;
        Ok(true)
    }

    /// The same where the inbox guards: there may be no row yet.
    async fn park_received(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        delivery: &Delivery,
        claim: &Claim,
        failure: &Failure,
    ) -> Result<bool> {
        if !self.set_aside(&mut *tx, queue, delivery, claim.in_row()).await? {
            return Ok(false);
        }
        self.keep_payload(&mut *tx, queue, delivery).await?;
        self.write_note(tx, queue, &delivery.message.key, Note::failure(failure)).await?;
        Ok(true)
    }

    /// Writes what is known about a message, keeping its last failures.
    pub(crate) async fn write_note(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        key: &Key,
        note: Note<'_>,
    ) -> Result<()> {
        let key = key.to_string().into_bytes();
        let parked = &self.shared.schema.parked;
        let history = match note.error {
            None => None,
            Some(error) => {
                let past = format!(
                    "select date_format(utc_timestamp(6), {UTC}), (select history from {parked} where queue = ? and `key` = ?)"
                );
                let past = sqlx::query(AssertSqlSafe(past)).bind(&*queue.queue).bind(&key).fetch_one(&mut *tx).await?;
                let (at, past): (String, Option<String>) = (past.try_get(0)?, past.try_get(1)?);
                Some(ichido::inspect::history(past.as_deref(), note.attempts, at, error))
            }
        };
        let write = format!(
            "insert into {parked} (queue, `key`, state, attempts, suspect, due_at, parked_at, history) \
             values (?, ?, ?, ?, ?, date_add(utc_timestamp(6), interval ? microsecond), utc_timestamp(6), coalesce(?, '[]')) \
             on duplicate key update state = values(state), attempts = values(attempts), suspect = values(suspect), \
             due_at = values(due_at), parked_at = values(parked_at), history = coalesce(?, history)"
        );
        let write = sqlx::query(AssertSqlSafe(write)).bind(&*queue.queue).bind(&key).bind(note.state.as_str());
        let write = write.bind(note.attempts).bind(note.suspect).bind(note.wait_ms().map(|ms| ms.saturating_mul(1000)));
        write.bind(&history).bind(&history).execute(tx).await?;
        Ok(())
    }

    /// Owner null again and state released, attempts kept. What is not there any more as we left it is forgotten; rows that
    /// somebody has locked are left for another time: this runs with the sign of life.
    pub(crate) async fn return_due_of(&self, queue: &Statements) -> Result<u64> {
        let parked = &self.shared.schema.parked;
        let mut tx = self.begin_own().await?;
        let due = format!(
            "select convert(`key` using utf8mb4) from {parked} where queue = ? and state = 'waiting' and due_at <= utc_timestamp(6) \
             order by due_at limit 500 for update skip locked"
        );
        let due = sqlx::query(AssertSqlSafe(due)).bind(&*queue.queue).fetch_all(&mut *tx).await?;
        let due: Vec<String> = due.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let keys: Vec<Key> = due.iter().map(|key| key.parse()).collect::<Result<_>>()?;
        let still = rows_of(&mut tx, queue, &queue.waiting, &keys, "").await?;
        let free = rows_of(&mut tx, queue, &queue.waiting, &keys, " for update skip locked").await?;
        if !free.is_empty() {
            let mut back = sqlx::query(AssertSqlSafe(queue.of_many(&queue.return_due, free.len(), "")));
            for column in free.iter().flat_map(Key::columns) {
                back = back.bind(column);
            }
            back.execute(&mut *tx).await?;
        }
        let release = format!("update {parked} set state = 'released', due_at = null where queue = ? and `key` = ?");
        for key in &free {
            let release = sqlx::query(AssertSqlSafe(release.clone())).bind(&*queue.queue);
            release.bind(key.to_string().into_bytes()).execute(&mut *tx).await?;
        }
        self.republish(&mut tx, queue, &free).await?;
        let forget = format!("delete from {parked} where queue = ? and `key` = ?");
        for key in keys.iter().filter(|key| !still.contains(key)) {
            let forget = sqlx::query(AssertSqlSafe(forget.clone())).bind(&*queue.queue);
            forget.bind(key.to_string().into_bytes()).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(free.len() as u64)
    }

    /// A dead row that is not dead any more, or a released one that is done or gone, has nothing to be known about.
    pub(crate) async fn tidy_queue(&self, queue: &Statements) -> Result<()> {
        let parked = &self.shared.schema.parked;
        let page = format!(
            "select convert(`key` using utf8mb4), state, cast(parked_at as char) from {parked} \
             where queue = ? and state in ('dead', 'released') and `key` > ? order by `key` limit 500"
        );
        let forget = format!(
            "delete from {parked} where queue = ? and `key` = ? and state = ? and parked_at = cast(? as datetime(6))"
        );
        let mut last = String::new();
        loop {
            let known = sqlx::query(AssertSqlSafe(page.clone())).bind(&*queue.queue).bind(last.into_bytes());
            let known = known.fetch_all(&self.own).await?;
            let Some(end) = known.last() else { return Ok(()) };
            last = end.try_get(0)?;
            let keys: Vec<Key> = known.iter().map(|row| row.try_get::<String, _>(0)?.parse()).collect::<Result<_>>()?;
            let fits = self.fitting(queue, &keys).await?;
            for row in &known {
                let (key, state, parked_at): (String, String, String) =
                    (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                if !fits.contains(&(key.clone(), state.clone())) {
                    let (mut tx, key) = (self.begin_own().await?, key.into_bytes());
                    let forget = sqlx::query(AssertSqlSafe(forget.clone())).bind(&*queue.queue).bind(&key);
                    if forget.bind(state).bind(parked_at).execute(&mut *tx).await?.rows_affected() > 0 {
                        self.free_failed(&mut tx, queue, &key).await?;
                    }
                    tx.commit().await?;
                }
            }
        }
    }

    /// Which of these keys have a row that fits which state.
    async fn fitting(&self, queue: &Statements, keys: &[Key]) -> Result<BTreeSet<(String, String)>> {
        let mut there = sqlx::query(AssertSqlSafe(queue.of_many(&queue.dead_or_new, keys.len(), "")));
        for column in keys.iter().flat_map(Key::columns) {
            there = there.bind(column);
        }
        let mut fits = BTreeSet::new();
        for row in there.fetch_all(&self.own).await? {
            let (key, at) = (messages::key(queue, &row)?.to_string(), queue.rows.key.len());
            let states: [(i64, &str); 2] = [(row.try_get(at)?, "dead"), (row.try_get(at + 1)?, "released")];
            fits.extend(
                states.into_iter().filter(|(fits, _)| *fits == 1).map(|(_, state)| (key.clone(), state.to_owned())),
            );
        }
        Ok(fits)
    }

    /// An operator's retry: back into circulation as attempt one; its past is kept.
    pub(crate) async fn retry_message(&self, id: &MessageId) -> Result<bool> {
        let queue = self.queue(&id.queue).await?;
        let past = format!(
            "update {} set state = 'released', attempts = 0, suspect = 0, due_at = null where queue = ? and `key` = ?",
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
            format!("update {parked} set state = 'discarded' where queue = ? and `key` = ?")
        } else {
            format!("delete from {parked} where queue = ? and `key` = ?")
        };
        self.by_hand("discard", queue, &id.key, &queue.discard, &past).await
    }

    /// One message, re-checked under its row's lock, with a note in the audit.
    async fn by_hand(&self, verb: &str, queue: &Statements, key: &Key, row: &Arc<str>, past: &str) -> Result<bool> {
        queue.refuse_key(key)?;
        let mut tx = self.begin_own().await?;
        let text = key.to_string().into_bytes();
        let dead = format!(
            "select history from {} where queue = ? and `key` = ? and state = 'dead' for update",
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
        self.free_failed(&mut tx, queue, &text).await?;
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
            format!("insert into {} (verb, queue, `key`, detail) values (?, ?, ?, ?)", self.shared.schema.audit);
        let audit = sqlx::query(AssertSqlSafe(audit)).bind(verb).bind(&*queue.queue).bind(&text);
        audit.bind(dead.try_get::<String, _>(0)?).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// Runs a statement about these keys and returns the keys that it gives.
async fn rows_of(
    tx: &mut MySqlConnection,
    queue: &Statements,
    statement: &Arc<str>,
    keys: &[Key],
    end: &str,
) -> Result<Vec<Key>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut query = sqlx::query(AssertSqlSafe(queue.of_many(statement, keys.len(), end)));
    for column in keys.iter().flat_map(Key::columns) {
        query = query.bind(column);
    }
    let rows = query.fetch_all(tx).await?;
    rows.iter().map(|row| messages::key(queue, row)).collect()
}
