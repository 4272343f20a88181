//! The inbox: ids of messages that are done, for foreign senders and for queues that each get a copy. Its row is the door that a
//! message passes once: inserted first in the business transaction, and touched last. A mutex row beside it is there only
//! while a message waits for a retry, has failed, or is marked as a process's own.
//!
//! There is one transaction at a time, so nobody else is ever about to insert the same id. A row without `done_at` is the own one.

use ichido::{Delivery, Key, Message, broker::Found, error::Result, message::Claim, store::ProcessId};
use ichido_sql::{Guarding, payload_hash};
use sqlx::{Row, SqliteConnection};

use crate::{Sqlite, statements::Statements};

impl Guarding for Sqlite {
    /// Whoever has the transaction has every row alone.
    async fn is_free(&self, _: &mut SqliteConnection, _: &Statements, _: &Delivery) -> Result<bool> {
        Ok(true)
    }

    async fn is_alone(&self, _: &mut SqliteConnection, _: &Statements, _: &Delivery) -> Result<bool> {
        Ok(true)
    }

    async fn set_aside(
        &self,
        tx: &mut SqliteConnection,
        queue: &Statements,
        delivery: &Delivery,
        claim: &Claim,
    ) -> Result<bool> {
        if is_done(tx, id(delivery)).await? {
            return Ok(false);
        }
        let nobody = ProcessId::NOBODY.to_string();
        let aside = if let Some(owner) = claim.in_row() {
            let take = sqlx::query("update ichido_mutex set owner = ? where id = ? and owner = ?");
            take.bind(nobody).bind(id(delivery)).bind(owner.to_string())
        } else {
            let make = sqlx::query(
                "insert into ichido_mutex as m (owner, id, queue) values (?, ?, ?) \
                 on conflict (id) do update set owner = excluded.owner where m.owner is null",
            );
            make.bind(nobody).bind(id(delivery)).bind(&*queue.queue)
        };
        let aside = aside.execute(&mut *tx).await?.rows_affected() == 1;
        sqlx::query("delete from ichido_inbox where id = ? and done_at is null").bind(id(delivery)).execute(tx).await?;
        Ok(aside)
    }

    /// After an unknown COMMIT: is the id not in the inbox?
    async fn is_missing(&self, key: &Key) -> Result<bool> {
        let mut tx = self.begin_tx().await?;
        let done = is_done(tx.connection(), &key.columns()[0]).await?;
        tx.rollback().await?;
        Ok(!done)
    }
}

/// Puts the id into the inbox, in the business transaction. `known` is what its mutex row says.
pub(crate) async fn enter(
    tx: &mut SqliteConnection,
    queue: &Statements,
    delivery: &Delivery,
    known: Found,
) -> Result<Found> {
    let hash = payload_hash(&delivery.message.payload);
    let enter = sqlx::query(
        "insert into ichido_inbox as i (id, queue, hash) values (?, ?, ?) \
         on conflict (id) do update set hash = excluded.hash where i.done_at is null",
    );
    let enter = enter.bind(id(delivery)).bind(&*queue.queue).bind(&*hash);
    if enter.execute(&mut *tx).await?.rows_affected() == 1 {
        let new = Found::Free(ichido_sql::Past::standing(None));
        return Ok(if matches!(known, Found::Free(_)) { known } else { new });
    }
    let there = sqlx::query("select hash from ichido_inbox where id = ?").bind(id(delivery)).fetch_one(tx).await?;
    let same = ichido_sql::is_hash_of(&there.try_get::<Vec<u8>, _>(0)?, &hash);
    Ok(if same { Found::Nothing } else { Found::Another })
}

/// The last statements about messages whose ids were put there by this transaction: do all of them pass? What was only marked as
/// a process's own enters now.
pub(crate) async fn pass_inbox(
    tx: &mut SqliteConnection,
    queue: &Statements,
    owner: Option<&str>,
    some: &[&Delivery],
) -> sqlx::Result<bool> {
    for delivery in some {
        let forget = sqlx::query("delete from ichido_mutex where id = ? and owner is ?").bind(id(delivery)).bind(owner);
        let forgotten = forget.execute(&mut *tx).await?.rows_affected();
        let passed = if owner.is_none() {
            let pass = sqlx::query(
                "update ichido_inbox set done_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') where id = ? and done_at is null",
            );
            pass.bind(id(delivery)).execute(&mut *tx).await?.rows_affected() == 1
        } else {
            let enter = sqlx::query(
                "insert into ichido_inbox (id, queue, hash, done_at) values (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) \
                 on conflict (id) do nothing",
            );
            let enter = enter.bind(id(delivery)).bind(&*queue.queue).bind(payload_hash(&delivery.message.payload));
            forgotten == 1 && enter.execute(&mut *tx).await?.rows_affected() == 1
        };
        if !passed {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn is_done(tx: &mut SqliteConnection, id: &str) -> Result<bool> {
    let done = sqlx::query("select 1 from ichido_inbox where id = ? and done_at is not null").bind(id);
    Ok(done.fetch_optional(tx).await?.is_some())
}

/// Makes rows for messages that a broker hands out again, so that they can be marked as a process's own, if they are not done.
/// Which are not. What is done needs no mutex row any more, if somebody else has done it than who had marked it.
pub(crate) async fn mark_received(
    tx: &mut SqliteConnection,
    process: ProcessId,
    queue: &Statements,
    messages: &[Message],
) -> Result<Vec<bool>> {
    let mut open = Vec::with_capacity(messages.len());
    for message in messages {
        let id = &message.key.columns()[0];
        let done = is_done(tx, id).await?;
        if done {
            let forget = sqlx::query("delete from ichido_mutex where id = ? and (owner is null or owner = ?)");
            forget.bind(id).bind(process.to_string()).execute(&mut *tx).await?;
        } else {
            let make = sqlx::query("insert into ichido_mutex (id, queue) values (?, ?) on conflict (id) do nothing");
            make.bind(id).bind(&*queue.queue).execute(&mut *tx).await?;
        }
        open.push(!done);
    }
    Ok(open)
}

fn id(delivery: &Delivery) -> &str {
    &delivery.message.key.columns()[0]
}
