//! The inbox: ids of messages that are done, for foreign senders and for queues that each get a copy. Its row is the door that a
//! message passes once: inserted first in the business transaction, and touched last. A mutex row beside it is there only
//! while a message waits for a retry, has failed, or is marked as a process's own.
//!
//! A row without `done_at` is not done: its transaction is at work, or an action has ended it behind our back.

use ichido::{Delivery, Key, broker::Found, error::Result, message::Claim, store::ProcessId};
use ichido_sql::{Guarding, SqlStore, payload_hash};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::{
    Postgres, Tx,
    statements::{Statements, me},
};

/// Any number that nobody else uses.
const SEED: i64 = 6_963_686_964;

/// Only one transaction at a time has an id; nobody waits for it. It ends with the transaction.
const TRY: &str = "pg_try_advisory_xact_lock(hashtextextended($1, 6963686964))";

/// The same, waiting.
const WAIT: &str = "pg_advisory_xact_lock(hashtextextended($1, 6963686964))";

impl Guarding for Postgres {
    /// Nobody else is at the row of this delivery, and from now on nobody can be, until the transaction ends.
    async fn is_free(&self, tx: &mut PgConnection, queue: &Statements, delivery: &Delivery) -> Result<bool> {
        match self.lock_in(&mut *tx, delivery).await? {
            Found::Free(_) | Found::Nothing if queue.has_inbox() => {
                self.may_set_aside(tx, &delivery.message.key.columns()[0]).await
            }
            found => Ok(matches!(found, Found::Free(_))),
        }
    }

    async fn is_alone(&self, tx: &mut PgConnection, _: &Statements, delivery: &Delivery) -> Result<bool> {
        self.may_set_aside(tx, &delivery.message.key.columns()[0]).await
    }

    async fn set_aside(
        &self,
        tx: &mut PgConnection,
        queue: &Statements,
        delivery: &Delivery,
        claim: &Claim,
    ) -> Result<bool> {
        let (id, owner) = (&delivery.message.key.columns()[0], claim.in_row());
        let (mutex, nobody) = (&self.shared.known.tables.mutex, ProcessId::NOBODY);
        let row = if owner.is_some() {
            format!(
                "update {mutex} set owner = '{nobody}'::uuid where id = $1 and queue = $2 and owner = $3::text::uuid"
            )
        } else {
            format!(
                "insert into {mutex} as m (id, queue, owner) values ($1, $2, '{nobody}'::uuid) \
                 on conflict (id) do update set owner = excluded.owner where m.owner is not distinct from $3::text::uuid"
            )
        };
        let row =
            sqlx::query(AssertSqlSafe(row)).bind(id).bind(&*queue.queue).bind(owner.map(|owner| owner.to_string()));
        Ok(row.execute(tx).await?.rows_affected() == 1)
    }

    /// After an unknown COMMIT: is the id not in the inbox? Waits for whoever is about to put it there.
    async fn is_missing(&self, key: &Key) -> Result<bool> {
        let id = &key.columns()[0];
        let mut tx = self.begin_own().await?;
        let wait = sqlx::query(AssertSqlSafe(format!("select {WAIT}"))).bind(id);
        self.shared.deadline.within(wait.execute(&mut *tx)).await?;
        let missing = format!(
            "select not exists (select 1 from {} where id = $1 and done_at is not null)",
            self.shared.known.tables.inbox
        );
        let missing = sqlx::query(AssertSqlSafe(missing)).bind(id);
        let missing = self.shared.deadline.within(missing.fetch_one(&mut *tx)).await?.try_get(0)?;
        tx.rollback().await?;
        Ok(missing)
    }
}

impl Postgres {
    /// Puts the id into the inbox, in the business transaction, if nobody else is about to. `known` is what its mutex row says.
    pub(crate) async fn enter(
        &self,
        tx: &mut PgConnection,
        queue: &Statements,
        delivery: &Delivery,
        known: Found,
    ) -> Result<Found> {
        let (id, inbox) = (&delivery.message.key.columns()[0], &self.shared.known.tables.inbox);
        let hash = payload_hash(&delivery.message.payload);
        let enter = format!(
            "with alone as materialized (select {TRY} as ok), \
             entered as (insert into {inbox} as i (id, queue, hash) select $1, $2, $3 from alone where ok \
             on conflict (id) do update set hash = excluded.hash where i.done_at is null returning 1) \
             select (select ok from alone), exists (select 1 from entered)"
        );
        let enter = sqlx::query(AssertSqlSafe(enter)).bind(id).bind(&*queue.queue).bind(&hash);
        let row = enter.persistent(!self.own.is_pooled()).fetch_one(&mut *tx).await?;
        if !row.try_get::<bool, _>(0)? {
            return Ok(Found::Busy);
        }
        if row.try_get::<bool, _>(1)? {
            return Ok(if matches!(known, Found::Free(_)) {
                known
            } else {
                Found::Free(ichido_sql::Past::standing(None))
            });
        }
        let there = format!("select hash from {inbox} where id = $1");
        let there = sqlx::query(AssertSqlSafe(there)).bind(id);
        let there = there.persistent(!self.own.is_pooled()).fetch_optional(tx).await?;
        let same = there
            .map(|row| row.try_get::<Vec<u8>, _>(0))
            .transpose()?
            .is_none_or(|known| ichido_sql::is_hash_of(&known, &hash));
        Ok(if same { Found::Nothing } else { Found::Another })
    }

    /// May this be put aside? Not if somebody else is at it, or has done it. Two statements: the second sees what whoever had it
    /// before has committed.
    pub(crate) async fn may_set_aside(&self, tx: &mut PgConnection, id: &str) -> Result<bool> {
        let alone = sqlx::query(AssertSqlSafe(format!("select {TRY}"))).bind(id).fetch_one(&mut *tx).await?;
        if !alone.try_get(0)? {
            return Ok(false);
        }
        let inbox = &self.shared.known.tables.inbox;
        let leave = format!("delete from {inbox} where id = $1 and done_at is null");
        sqlx::query(AssertSqlSafe(leave)).bind(id).execute(&mut *tx).await?;
        let free = format!("select not exists (select 1 from {inbox} where id = $1)");
        Ok(sqlx::query(AssertSqlSafe(free)).bind(id).fetch_one(tx).await?.try_get(0)?)
    }

    /// The last statements about messages whose ids were entered by this transaction: how many of them pass. What was only marked as a
    /// process's own enters now.
    pub(crate) async fn pass_inbox(
        &self,
        tx: &mut Tx,
        queue: &Statements,
        owner: Option<ProcessId>,
        some: &[&Delivery],
    ) -> sqlx::Result<u64> {
        let named = !self.own.is_pooled();
        let (inbox, mutex) = (&self.shared.known.tables.inbox, &self.shared.known.tables.mutex);
        let ids: Vec<&str> = some.iter().map(|delivery| &*delivery.message.key.columns()[0]).collect();
        let Some(owner) = owner else {
            let pass = format!(
                "with gone as (delete from {mutex} where id = any($1) and owner is null and current_setting('ichido.tx', true) = $2) \
                 update {inbox} set done_at = clock_timestamp() where id = any($1) and done_at is null and current_setting('ichido.tx', true) = $2"
            );
            let pass = sqlx::query(AssertSqlSafe(pass)).bind(ids).bind(&*tx.session.token);
            return Ok(pass.persistent(named).execute(tx.connection()).await?.rows_affected());
        };
        let hashes: Vec<Vec<u8>> = some.iter().map(|delivery| payload_hash(&delivery.message.payload)).collect();
        let pass = format!(
            "with gone as (delete from {mutex} where id = any($1) and owner = $2::text::uuid and current_setting('ichido.tx', true) = $3 returning id) \
             insert into {inbox} as i (id, queue, hash, done_at) select k.id, $4, k.hash, clock_timestamp() from unnest($1::text[], $5::bytea[]) as k(id, hash), gone \
             where gone.id = k.id on conflict (id) do update set hash = excluded.hash, done_at = excluded.done_at where i.done_at is null"
        );
        let pass = sqlx::query(AssertSqlSafe(pass)).bind(ids).bind(owner.to_string()).bind(&*tx.session.token);
        let pass = pass.bind(&*queue.queue).bind(hashes);
        Ok(pass.persistent(named).execute(tx.connection()).await?.rows_affected())
    }

    /// Makes rows for messages that a broker hands out again, so that they can be marked as a process's own: those that are not
    /// done, and that nobody is at. What is found of the others.
    pub(crate) async fn mark_received(
        &self,
        process: ProcessId,
        queue: &Statements,
        ids: &[String],
    ) -> Result<Vec<Option<Found>>> {
        let mut tx = self.begin_own().await?;
        let found = self.timed(self.mark_in(&mut tx, process, queue, ids)).await?;
        tx.commit().await?;
        Ok(found)
    }

    async fn mark_in(
        &self,
        tx: &mut PgConnection,
        process: ProcessId,
        queue: &Statements,
        ids: &[String],
    ) -> Result<Vec<Option<Found>>> {
        let alone = format!(
            "select pg_try_advisory_xact_lock(hashtextextended(k.id, {SEED})) from unnest($1::text[]) with ordinality as k(id, at) order by at"
        );
        let alone = sqlx::query(AssertSqlSafe(alone)).bind(ids).fetch_all(&mut *tx).await?;
        let alone: Vec<bool> = alone.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        // Another statement: it sees what whoever had them before has committed.
        let mark = format!(
            "with {me}, seen as materialized (select k.id, k.alone, k.at, exists (select 1 from {inbox} i where i.id = k.id and i.done_at is not null) as done \
             from unnest($2::text[], $3::boolean[]) with ordinality as k(id, alone, at)), \
             made as (insert into {mutex} (id, queue) select id, $4 from seen where alone and not done and exists (select 1 from me) \
             on conflict (id) do nothing) select done from seen order by at",
            me = me(&self.shared.known.tables),
            inbox = self.shared.known.tables.inbox,
            mutex = self.shared.known.tables.mutex,
        );
        let mark = sqlx::query(AssertSqlSafe(mark)).bind(process.to_string()).bind(ids).bind(&alone);
        let rows = mark.bind(&*queue.queue).fetch_all(&mut *tx).await?;
        let found = rows.iter().zip(alone).map(|(row, alone)| {
            let done: bool = row.try_get(0)?;
            Ok(if done { Some(Found::Nothing) } else { (!alone).then_some(Found::Busy) })
        });
        let found: Vec<_> = found.collect::<Result<_>>()?;
        let done = ids.iter().zip(&found).filter(|(_, found)| **found == Some(Found::Nothing)).map(|(id, _)| &**id);
        self.forget_marks(tx, process, &done.collect::<Vec<_>>()).await?;
        Ok(found)
    }

    /// What is done needs no mutex row any more, if somebody else has done it than who had marked it.
    async fn forget_marks(&self, tx: &mut PgConnection, process: ProcessId, done: &[&str]) -> Result<()> {
        if !done.is_empty() {
            let forget = format!(
                "delete from {mutex} where id in (select id from {mutex} where id = any($1) \
                 and (owner is null or owner = $2::text::uuid) for update skip locked)",
                mutex = self.shared.known.tables.mutex
            );
            sqlx::query(AssertSqlSafe(forget)).bind(done).bind(process.to_string()).execute(tx).await?;
        }
        Ok(())
    }
}
