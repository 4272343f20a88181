//! Parked messages: put aside with a reason, returned when due, retried and discarded by operators. The parked row and the
//! queue's row always change in one transaction.

use std::{collections::BTreeSet, sync::Arc};

use ichido::{Delivery, Key, MessageId, Result, store::Failure};
use ichido_sql::Note;
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use crate::{
    Sqlite, fault,
    groups::{free_failed, free_group, hold_group},
    inbox::{kept_hash, set_aside, shut},
    messages,
    outbox::{keep_payload, republish},
    statements::{Kind, Statements},
};

impl Sqlite {
    /// Parks in a transaction that is there; false if the claim was gone.
    pub(crate) async fn park_in(
        &self,
        tx: &mut SqliteConnection,
        delivery: &Delivery,
        failure: &Failure,
    ) -> Result<bool> {
        let Some(claim) = &delivery.claim else { return Ok(false) };
        let queue = self.queue(&delivery.message.queue).await?;
        let (key, group) = (&delivery.message.key, claim.group.as_ref());
        if queue.has_inbox() {
            let aside = set_aside(&mut *tx, queue, delivery, claim).await?;
            if aside {
                keep_payload(&mut *tx, queue, delivery).await?;
                write_note(tx, queue, key, Note::failure(failure)).await?;
            }
            return Ok(aside);
        }
        let statement = if failure.retry_after.is_none() { &queue.park_dead } else { &queue.park_waiting };
        let mut park =
            sqlx::query(AssertSqlSafe(statement.clone())).bind(claim.in_row().map(|owner| owner.to_string()));
        for column in key.columns() {
            park = park.bind(column);
        }
        if park.execute(&mut *tx).await?.rows_affected() != 1 {
            return Ok(false);
        }
        if failure.retry_after.is_none() {
            hold_group(&mut *tx, queue, claim.owner, group, key).await?;
        } else {
            free_group(&mut *tx, queue, claim.owner, group).await?;
        }
        keep_payload(&mut *tx, queue, delivery).await?;
        write_note(tx, queue, key, Note::failure(failure)).await?;
        Ok(true)
    }

    /// Owner null again and state released, attempts kept. What is not there any more as we left it is forgotten.
    pub(crate) async fn return_due_of(&self, queue: &Statements) -> Result<u64> {
        let mut tx = self.begin_tx().await?;
        let due = sqlx::query(
            "select key from ichido_parked where queue = ? and state = 'waiting' and due_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now') \
             order by due_at limit 500",
        );
        let due = due.bind(&*queue.queue).fetch_all(tx.connection()).await?;
        let due: Vec<String> = due.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let keys: Vec<Key> = due.iter().map(|key| key.parse()).collect::<Result<_>>()?;
        let back = sqlx::query(AssertSqlSafe(queue.return_due.clone())).bind(messages::key_list(&keys));
        let back = back.fetch_all(tx.connection()).await?;
        let back: Vec<_> = back.iter().map(|row| Ok(messages::key(queue, row)?.to_string())).collect::<Result<_>>()?;
        let gone: Vec<_> = due.into_iter().filter(|key| !back.contains(key)).collect();
        let release = sqlx::query(
            "update ichido_parked set state = 'released', due_at = null where queue = ? and key in (select value from json_each(?))",
        );
        release.bind(&*queue.queue).bind(serde_json::to_string(&back)?).execute(tx.connection()).await?;
        let returned: Vec<Key> = back.iter().map(|key| key.parse()).collect::<Result<_>>()?;
        republish(tx.connection(), queue, &returned).await?;
        let forget =
            sqlx::query("delete from ichido_parked where queue = ? and key in (select value from json_each(?))");
        forget.bind(&*queue.queue).bind(serde_json::to_string(&gone)?).execute(tx.connection()).await?;
        tx.commit().await?;
        Ok(back.len() as u64)
    }

    /// A dead row that is not dead any more, or a released one that is done or gone, has nothing to be known about.
    pub(crate) async fn tidy_queue(&self, queue: &Statements) -> Result<()> {
        let mut last = String::new();
        loop {
            let page = sqlx::query(
                "select key, state, parked_at from ichido_parked where queue = ? and state in ('dead', 'released') and key > ? \
                 order by key limit 500",
            );
            let known = page.bind(&*queue.queue).bind(&last).fetch_all(&self.readers).await?;
            let Some(end) = known.last() else { return Ok(()) };
            last = end.try_get(0)?;
            let keys: Vec<Key> = known.iter().map(|row| row.try_get::<&str, _>(0)?.parse()).collect::<Result<_>>()?;
            let fits = self.fitting(queue, &keys).await?;
            for row in &known {
                let (key, state, parked_at): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                if !fits.contains(&(key.to_owned(), state)) {
                    self.forget_if(queue, key, state, parked_at).await?;
                }
            }
        }
    }

    /// Which of these keys have a row that fits which state.
    async fn fitting(&self, queue: &Statements, keys: &[Key]) -> Result<BTreeSet<(String, &'static str)>> {
        let list = messages::key_list(keys);
        let there = sqlx::query(AssertSqlSafe(queue.dead_or_new.clone())).bind(list).fetch_all(&self.readers).await?;
        let mut fits = BTreeSet::new();
        for row in there {
            let (key, at) = (messages::key(queue, &row)?.to_string(), queue.rows.key.len());
            let states = [(row.try_get(at)?, "dead"), (row.try_get(at + 1)?, "released")];
            fits.extend(states.into_iter().filter(|(fits, _)| *fits).map(|(_, state)| (key.clone(), state)));
        }
        Ok(fits)
    }

    /// Forgets a message that nothing has been written about since.
    async fn forget_if(&self, queue: &Statements, key: &str, state: &str, parked_at: &str) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        let forget =
            sqlx::query("delete from ichido_parked where queue = ? and key = ? and state = ? and parked_at = ?");
        let forget = forget.bind(&*queue.queue).bind(key).bind(state).bind(parked_at);
        if forget.execute(tx.connection()).await?.rows_affected() > 0 {
            free_failed(tx.connection(), queue, key).await?;
        }
        tx.commit().await
    }

    /// An operator's retry: back into circulation as attempt one; its past is kept.
    pub(crate) async fn retry_message(&self, id: &MessageId) -> Result<bool> {
        let queue = self.queue(&id.queue).await?;
        let past = "update ichido_parked set state = 'released', attempts = 0, suspect = 0, due_at = null where queue = ? and key = ?";
        self.by_hand("retry", queue, &id.key, &queue.revive, past).await
    }

    /// An operator's discard: out of sight, with a note.
    pub(crate) async fn discard_message(&self, id: &MessageId) -> Result<bool> {
        let queue = self.queue(&id.queue).await?;
        let stays_new = queue.rows.kind == Kind::Table && !queue.rows.mapping.has_failed_value();
        let past = if stays_new {
            "update ichido_parked set state = 'discarded' where queue = ? and key = ?"
        } else {
            "delete from ichido_parked where queue = ? and key = ?"
        };
        self.by_hand("discard", queue, &id.key, &queue.discard, past).await
    }

    /// One message, re-checked in the transaction that changes it, with a note in the audit.
    async fn by_hand(
        &self,
        verb: &str,
        queue: &Statements,
        key: &Key,
        row: &Arc<str>,
        past: &'static str,
    ) -> Result<bool> {
        queue.refuse_key(key)?;
        let mut tx = self.begin_tx().await?;
        let text = key.to_string();
        let dead = sqlx::query("select history from ichido_parked where queue = ? and key = ? and state = 'dead'");
        let dead = dead.bind(&*queue.queue).bind(&text).fetch_optional(tx.connection()).await?;
        let hash = if verb == "discard" { kept_hash(tx.connection(), queue, key).await? } else { None };
        let mut change = sqlx::query(AssertSqlSafe(row.clone()));
        for column in key.columns() {
            change = change.bind(column);
        }
        let changed =
            if dead.is_some() { change.execute(tx.connection()).await.map(|done| done.rows_affected()) } else { Ok(0) };
        let (Some(dead), Ok(1)) = (dead, &changed) else {
            tx.rollback().await?;
            return match changed {
                Err(error) if queue.rows.kind == Kind::Managed && fault::is_unique(&error) => {
                    Err(ichido_sql::unique_taken(&queue.queue, key))
                }
                changed => Ok(changed? == 1),
            };
        };
        sqlx::query(past).bind(&*queue.queue).bind(&text).execute(tx.connection()).await?;
        free_failed(tx.connection(), queue, &text).await?;
        let published = republish(tx.connection(), queue, std::slice::from_ref(key)).await?;
        if published == 0 && verb == "retry" && queue.mutex.is_some() {
            tx.rollback().await?;
            return Err(ichido_sql::nothing_kept(&queue.queue, key));
        }
        if let Some(hash) = hash {
            shut(tx.connection(), queue, key, hash).await?;
        }
        let audit = sqlx::query("insert into ichido_audit (verb, queue, key, detail) values (?, ?, ?, ?)").bind(verb);
        let audit = audit.bind(&*queue.queue).bind(&text).bind(dead.try_get::<String, _>(0)?);
        audit.execute(tx.connection()).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// Writes what is known about a message, keeping its last failures.
pub(crate) async fn write_note(tx: &mut SqliteConnection, queue: &Statements, key: &Key, note: Note<'_>) -> Result<()> {
    let key = key.to_string();
    let history = match note.error {
        None => None,
        Some(error) => {
            let past = sqlx::query(
                "select strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), (select history from ichido_parked where queue = ?1 and key = ?2)",
            );
            let past = past.bind(&*queue.queue).bind(&key).fetch_one(&mut *tx).await?;
            let (at, past): (String, Option<String>) = (past.try_get(0)?, past.try_get(1)?);
            Some(ichido::inspect::history(past.as_deref(), note.attempts, at, error))
        }
    };
    let wait = note.wait_ms().map(|ms| format!("+{}.{:03} seconds", ms / 1000, ms % 1000));
    let write = sqlx::query(
        "insert into ichido_parked (queue, key, state, attempts, suspect, due_at, history) \
         values (?1, ?2, ?3, ?4, ?5, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?6), coalesce(?7, '[]')) \
         on conflict (queue, key) do update set state = excluded.state, attempts = excluded.attempts, suspect = excluded.suspect, \
         due_at = excluded.due_at, parked_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), history = coalesce(?7, history)",
    );
    let write = write.bind(&*queue.queue).bind(&key).bind(note.state.as_str()).bind(note.attempts).bind(note.suspect);
    write.bind(wait).bind(history).execute(tx).await?;
    Ok(())
}
