//! The inbox: ids of messages that are done, for foreign senders and for queues that each get a copy. Its row is the door that a
//! message passes once: inserted first in the business transaction, and touched last. A mutex row beside it is there only
//! while a message waits for a retry, has failed, or is marked as a process's own.
//!
//! A row without `done_at` is not done: its transaction is at work, or an action has ended it behind our back. Whoever inserts
//! it, if only to delete it again, has the id alone until the transaction ends.

use ichido::{Delivery, Key, Message, broker::Found, error::Result, message::Claim, store::ProcessId};
use ichido_sql::{Guarding, SqlStore, padded, payload_hash};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::{
    MySql, fault, mutex::is_locked, quote::places, session::Statement, statements::Statements, transaction::Tx,
};

/// Nobody waits for whoever has the same id: MariaDB can say so of any statement. MySQL cannot, and looks first.
const NOWAIT: &str = "/*M!100300 set statement innodb_lock_wait_timeout = 0 for */";

/// What came of putting an id into the inbox.
enum Entry {
    Made,
    Busy,
    /// It is done, with this hash.
    Done(Vec<u8>),
}

impl Guarding for MySql {
    /// Nobody else is at the row of this delivery, and from now on nobody can be, until the transaction ends.
    async fn is_free(&self, tx: &mut MySqlConnection, queue: &Statements, delivery: &Delivery) -> Result<bool> {
        match self.lock_in(&mut *tx, delivery).await? {
            Found::Free(_) | Found::Nothing if queue.has_inbox() => self.may_set_aside(tx, queue, delivery).await,
            found => Ok(matches!(found, Found::Free(_))),
        }
    }

    async fn is_alone(&self, tx: &mut MySqlConnection, queue: &Statements, delivery: &Delivery) -> Result<bool> {
        self.may_set_aside(tx, queue, delivery).await
    }

    async fn set_aside(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        delivery: &Delivery,
        claim: &Claim,
    ) -> Result<bool> {
        let (owner, nobody) = (claim.in_row(), ProcessId::NOBODY.to_string());
        let row = format!("update {} set t.owner = ? where t.id = ? and t.owner <=> ?", queue.rows.by_key());
        let row = sqlx::query(AssertSqlSafe(row)).bind(&nobody).bind(id(delivery));
        let row = row.bind(owner.map(|owner| owner.to_string()));
        let changed = self.within(row.execute(&mut *tx)).await?.rows_affected();
        if changed == 1 || owner.is_some() {
            return Ok(changed == 1);
        }
        let row = format!("insert into {} (id, queue, owner) values (?, ?, ?)", self.shared.known.tables.mutex);
        let row = sqlx::query(AssertSqlSafe(row)).bind(id(delivery)).bind(&*queue.queue).bind(&nobody);
        match self.within(row.execute(tx)).await {
            Err(error) if fault::is_unique(&error) => Ok(false),
            made => Ok(made?.rows_affected() == 1),
        }
    }

    /// After an unknown COMMIT: is the id not in the inbox? Waits for whoever is about to put it there.
    async fn is_missing(&self, key: &Key) -> Result<bool> {
        let mut tx = self.begin_own().await?;
        let done = format!(
            "select done_at is not null from {} where id = ? lock in share mode",
            self.shared.known.tables.inbox
        );
        let done = sqlx::query(AssertSqlSafe(done)).bind(key.columns()[0].as_bytes());
        let done = self.within(done.fetch_optional(&mut *tx)).await?;
        let done = done.map(|row| row.try_get::<i64, _>(0)).transpose()?;
        Self::rollback_own(tx).await?;
        Ok(done != Some(1))
    }
}

impl MySql {
    /// Puts the id into the inbox, in the business transaction, if nobody else is about to. `known` is what its mutex row says.
    pub(crate) async fn enter(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        delivery: &Delivery,
        known: Found,
    ) -> Result<Found> {
        let hash = payload_hash(&delivery.message.payload);
        Ok(match self.try_enter(tx, queue, id(delivery), &hash).await? {
            Entry::Made if matches!(known, Found::Free(_)) => known,
            Entry::Made => Found::Free(ichido_sql::Past::standing(None)),
            Entry::Busy => Found::Busy,
            Entry::Done(there) if ichido_sql::is_hash_of(&there, &hash) => Found::Nothing,
            Entry::Done(_) => Found::Another,
        })
    }

    async fn try_enter(&self, tx: &mut MySqlConnection, queue: &Statements, id: &str, hash: &[u8]) -> Result<Entry> {
        let inbox = &self.shared.known.tables.inbox;
        if !self.is_mariadb(&mut *tx).await? {
            let look = format!("select 1 from {inbox} where id = ? for update nowait");
            match self.within(sqlx::query(AssertSqlSafe(look)).bind(id.as_bytes()).execute(&mut *tx)).await {
                Err(error) if is_locked(&error) => return Ok(Entry::Busy),
                looked => looked?,
            };
        }
        let enter = format!("{NOWAIT} insert into {inbox} (id, queue, hash) values (?, ?, ?)");
        let enter = sqlx::query(AssertSqlSafe(enter)).bind(id.as_bytes()).bind(&*queue.queue).bind(hash);
        match self.within(enter.execute(&mut *tx)).await {
            Ok(_) => Ok(Entry::Made),
            Err(error) if is_locked(&error) => Ok(Entry::Busy),
            Err(error) if fault::is_unique(&error) => self.look_in(tx, id, hash).await,
            Err(error) => Err(error.into()),
        }
    }

    /// The id is there, and shared with us since the insert found it. What is not done is taken over.
    async fn look_in(&self, tx: &mut MySqlConnection, id: &str, hash: &[u8]) -> Result<Entry> {
        let inbox = &self.shared.known.tables.inbox;
        let look = format!("select hash, done_at is not null from {inbox} where id = ? lock in share mode");
        let look = sqlx::query(AssertSqlSafe(look)).bind(id.as_bytes());
        let there = self.within(look.fetch_optional(&mut *tx)).await?;
        let Some(there) = there else { return Ok(Entry::Busy) };
        if there.try_get::<i64, _>(1)? == 1 {
            return Ok(Entry::Done(there.try_get(0)?));
        }
        let take = format!("{NOWAIT} update {inbox} set hash = ? where id = ? and done_at is null");
        match self.within(sqlx::query(AssertSqlSafe(take)).bind(hash).bind(id.as_bytes()).execute(tx)).await {
            Ok(taken) => Ok(if taken.rows_affected() == 1 { Entry::Made } else { Entry::Busy }),
            Err(error) if is_locked(&error) => Ok(Entry::Busy),
            Err(error) => Err(error.into()),
        }
    }

    async fn is_mariadb(&self, tx: &mut MySqlConnection) -> Result<bool> {
        let read = || async {
            let version = self.within(sqlx::query("select version()").fetch_one(tx)).await?;
            Ok::<_, ichido::Error>(version.try_get::<String, _>(0)?.contains("MariaDB"))
        };
        self.shared.mariadb.get_or_try_init(read).await.copied()
    }

    /// Takes ids out again that this transaction has put there. Until it ends nobody else can put them there.
    async fn leave_inbox(&self, tx: &mut MySqlConnection, ids: &[&str]) -> Result<()> {
        if !ids.is_empty() {
            let leave = format!("delete from {} where id in ({})", self.shared.known.tables.inbox, places(ids));
            self.within(bind_ids(sqlx::query(AssertSqlSafe(leave)), ids).execute(tx)).await?;
        }
        Ok(())
    }

    /// May this be put aside? Not if somebody else is at it, or has done it.
    pub(crate) async fn may_set_aside(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        delivery: &Delivery,
    ) -> Result<bool> {
        let alone = matches!(self.try_enter(tx, queue, id(delivery), &[]).await?, Entry::Made);
        if alone {
            self.leave_inbox(tx, &[id(delivery)]).await?;
        }
        Ok(alone)
    }

    /// The last statements about messages whose ids were put there by this transaction: do all of them pass? What was only marked
    /// as a process's own enters now.
    pub(crate) async fn pass_inbox(
        &self,
        tx: &mut Tx,
        queue: &Statements,
        owner: Option<ProcessId>,
        some: &[&Delivery],
    ) -> Result<bool> {
        let ids: Vec<&str> = some.iter().map(|delivery| id(delivery)).collect();
        let (places, all) = (places(&ids), some.len() as u64);
        let forget = format!("delete t from {} where t.owner <=> ? and t.id in ({places})", queue.rows.by_key());
        let forget = sqlx::query(AssertSqlSafe(forget)).bind(owner.map(|owner| owner.to_string()));
        let forget = padded(&ids).fold(forget, |forget, id| forget.bind(*id));
        let forgotten = self.within(forget.execute(&mut **tx.lent)).await?.rows_affected();
        if owner.is_some() {
            if forgotten != all {
                return Ok(false);
            }
            for delivery in some {
                let hash = payload_hash(&delivery.message.payload);
                if !matches!(self.try_enter(&mut tx.lent, queue, id(delivery), &hash).await?, Entry::Made) {
                    return Ok(false);
                }
            }
        }
        let pass = format!(
            "update {} set done_at = utc_timestamp(6) where done_at is null and id in ({places})",
            self.shared.known.tables.inbox
        );
        let pass = bind_ids(sqlx::query(AssertSqlSafe(pass)), &ids);
        let pass = self.within(pass.execute(&mut **tx.lent)).await?;
        Ok(pass.rows_affected() == all)
    }

    /// Makes rows for messages that a broker hands out again, so that they can be marked as a process's own: those that are not
    /// done, and that nobody is at. What is found of the others.
    pub(crate) async fn mark_received(
        &self,
        tx: &mut MySqlConnection,
        process: ProcessId,
        queue: &Statements,
        messages: &[Message],
    ) -> Result<Vec<Option<Found>>> {
        let (mut found, mut alone) = (Vec::with_capacity(messages.len()), Vec::new());
        for id in messages.iter().map(|message| &*message.key.columns()[0]) {
            found.push(match self.try_enter(tx, queue, id, &[]).await? {
                Entry::Made => {
                    alone.push(id);
                    None
                }
                Entry::Busy => Some(Found::Busy),
                Entry::Done(_) => {
                    self.forget_mark(tx, process, queue, id).await?;
                    Some(Found::Nothing)
                }
            });
        }
        for id in &alone {
            // No insert that ignores what is there: it would wait for who has the row locked.
            let make = format!(
                "insert into {mutex} (id, queue) select ?, ? from (select 1) one where not exists (select 1 from {mutex} where id = ?)",
                mutex = self.shared.known.tables.mutex
            );
            let make = sqlx::query(AssertSqlSafe(make)).bind(*id).bind(&*queue.queue).bind(*id);
            self.within(make.execute(&mut *tx)).await?;
        }
        self.leave_inbox(tx, &alone).await?;
        Ok(found)
    }

    /// What is done needs no mutex row any more, if somebody else has done it than who had marked it.
    async fn forget_mark(
        &self,
        tx: &mut MySqlConnection,
        process: ProcessId,
        queue: &Statements,
        id: &str,
    ) -> Result<()> {
        let forget = format!(
            "{NOWAIT} delete t from {} where t.id = ? and (t.owner is null or t.owner = ?)",
            queue.rows.by_key()
        );
        let forget = sqlx::query(AssertSqlSafe(forget)).bind(id).bind(process.to_string());
        match self.within(forget.execute(tx)).await {
            Err(error) if !is_locked(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn id(delivery: &Delivery) -> &str {
    &delivery.message.key.columns()[0]
}

/// As bytes: so they are compared.
fn bind_ids<'q>(query: Statement<'q>, ids: &[&'q str]) -> Statement<'q> {
    padded(ids).fold(query, |query, id| query.bind(id.as_bytes()))
}
