//! The mutex rows of messages that a broker carries, marked as a process's own. What is found says what becomes of the delivery.
//! There are no row locks here: a message is guarded by its owner only.

use std::{collections::BTreeMap, sync::Arc};

use ichido::{
    Delivery, Error, Guarded, Key, Queue,
    broker::Found,
    error::Result,
    inspect::ParkedState,
    message::{ClaimBy, GuardBy},
    store::{Mutexes, ProcessId},
};
use ichido_sql::{Past, SqlStore};
use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    Sqlite, Tx,
    inbox::{enter, mark_received},
    messages::key_list,
    quote,
    statements::Statements,
};

/// What only the rows of a broker's queue have.
pub(crate) struct Mutex {
    /// `?1` is the process, `?2` the keys.
    pub(crate) claim: Arc<str>,
    /// What there is of the keys `?1`, and what is known about it.
    pub(crate) look: Arc<str>,
}

impl Mutex {
    pub(crate) fn new(queue: &Queue, rules: &Guarded) -> Result<Self> {
        if rules.claim == ClaimBy::Lock && rules.by == GuardBy::Mutex {
            return Err(ichido_sql::unfit(queue, "claim", NO_LOCK));
        }
        let name = quote::literal(&queue.name)?;
        let claim = format!(
            "update ichido_mutex as t set owner = ?1 from json_each(?2) k where t.id = json_extract(k.value, '$[0]') \
             and t.queue = {name} and (t.owner is null or t.owner = ?1)"
        );
        let look = format!(
            "select t.id, t.owner, p.state, p.attempts, p.suspect from json_each(?1) k join ichido_mutex t \
             on t.id = json_extract(k.value, '$[0]') and t.queue = {name} \
             left join ichido_parked p on p.queue = {name} and p.key = json_extract(k.value, '$[1]')"
        );
        Ok(Mutex { claim: claim.into(), look: look.into() })
    }
}

impl Statements {
    /// What only a broker's queue has.
    pub(crate) fn mutex(&self) -> Result<&Mutex> {
        self.mutex.as_ref().ok_or_else(|| ichido_sql::no_broker(&self.queue))
    }
}

impl Mutexes for Sqlite {
    ichido_sql::mutexes!();

    async fn lock(&self, tx: &mut Tx, delivery: &Delivery) -> Result<Found> {
        self.guard_in(tx.connection(), delivery).await
    }

    async fn claim_these(&self, process: ProcessId, queue: &str, keys: &[Key]) -> Result<Vec<Found>> {
        let queue = self.queue(queue).await?;
        let mutex = queue.mutex()?;
        keys.iter().try_for_each(|key| queue.refuse_key(key))?;
        if !self.shared.alive.is_ours(process) {
            return Err(Error::LostClaim);
        }
        let mut tx = self.begin_tx().await?;
        if !self.is_known(tx.connection(), process).await? {
            tx.rollback().await?;
            return Err(Error::LostClaim);
        }
        let open =
            if queue.has_inbox() { mark_received(tx.connection(), process, queue, keys).await? } else { keys.to_vec() };
        let claim = sqlx::query(AssertSqlSafe(mutex.claim.clone())).bind(process.to_string()).bind(key_list(&open));
        claim.execute(tx.connection()).await?;
        let there = look(tx.connection(), mutex, &open, Some(process)).await?;
        tx.commit().await?;
        Ok(keys.iter().map(|key| there.get(&key.columns()[0]).copied().unwrap_or(Found::Nothing)).collect())
    }
}

impl Sqlite {
    /// Puts a message into the inbox, if its queue has one: whoever has the transaction has it alone.
    pub(crate) async fn guard_in(&self, tx: &mut SqliteConnection, delivery: &Delivery) -> Result<Found> {
        let queue = self.queue(&delivery.message.queue).await?;
        let key = &delivery.message.key;
        queue.refuse_key(key)?;
        if !queue.has_inbox() {
            return Err(Error::Setup(NO_LOCK.into()));
        }
        let known = look(&mut *tx, queue.mutex()?, std::slice::from_ref(key), None).await?;
        match known.into_values().next().unwrap_or(Found::Nothing) {
            known @ (Found::Nothing | Found::Free(_)) => enter(tx, queue, delivery, known).await,
            found => Ok(found),
        }
    }
}

/// What there is of these messages, for who owns what is free: a process that has marked it as its own, or nobody yet.
async fn look(
    tx: &mut SqliteConnection,
    mutex: &Mutex,
    keys: &[Key],
    owner: Option<ProcessId>,
) -> Result<BTreeMap<String, Found>> {
    let names: Vec<_> = keys.iter().map(|key| [key.columns()[0].clone(), key.to_string()]).collect();
    let look = sqlx::query(AssertSqlSafe(mutex.look.clone())).bind(serde_json::to_string(&names)?);
    look.fetch_all(tx).await?.iter().map(|row| Ok((row.try_get(0)?, found(row, owner)?))).collect()
}

fn found(row: &SqliteRow, free: Option<ProcessId>) -> Result<Found> {
    let owner = row.try_get::<Option<&str>, _>(1)?.map(str::parse::<ProcessId>).transpose()?;
    let state: Option<&str> = row.try_get(2)?;
    let past = match state {
        Some(state) => Some(Past::new(state, row.try_get(3)?, row.try_get(4)?)),
        None => None,
    };
    Ok(ichido_sql::found(owner == free, owner, state.map(ParkedState::read), past.as_ref()))
}

/// Why a row cannot be locked.
const NO_LOCK: &str = "SQLite has no row locks; write claim = \"lease\"";
