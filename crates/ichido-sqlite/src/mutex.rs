//! The mutex rows of messages that a broker carries, marked as a process's own. What is found says what becomes of the delivery.
//! There are no row locks here: a message is guarded by its owner only.

use std::sync::Arc;

use ichido::{
    Delivery, Error, Guarded, Message, Queue,
    broker::Found,
    error::Result,
    inspect::ParkedState,
    message::{ClaimBy, GuardBy},
    store::{Mutexes, ProcessId},
};
use ichido_sql::{Past, SqlStore, is_about, payload_hash};
use sqlx::{AssertSqlSafe, Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    Sqlite, Tx,
    inbox::{enter, mark_received},
    quote,
    statements::Statements,
};

/// What only the rows of a broker's queue have.
pub(crate) struct Mutex {
    /// `?1` is the process, `?2` the messages: id, key, and the hash of the body.
    pub(crate) claim: Arc<str>,
    /// What there is of the messages `?1`, by their places there, and what is known about it.
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
             and t.queue = {name} and (t.owner is null or t.owner = ?1) \
             and (t.hash is null or hex(t.hash) = json_extract(k.value, '$[2]'))"
        );
        let look = format!(
            "select k.key, t.owner, p.state, p.attempts, p.suspect, t.hash from json_each(?1) k join ichido_mutex t \
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

    async fn claim_these(&self, process: ProcessId, queue: &str, messages: &[Message]) -> Result<Vec<Found>> {
        let queue = self.queue(queue).await?;
        let mutex = queue.mutex()?;
        messages.iter().try_for_each(|message| queue.refuse_key(&message.key))?;
        if !self.shared.alive.is_ours(process) {
            return Err(Error::LostClaim);
        }
        let mut tx = self.begin_tx().await?;
        if !self.is_known(tx.connection(), process).await? {
            tx.rollback().await?;
            return Err(Error::LostClaim);
        }
        let received = if queue.has_inbox() {
            mark_received(tx.connection(), process, queue, messages).await?
        } else {
            vec![true; messages.len()]
        };
        let open = messages.iter().zip(&received).filter(|(_, open)| **open).map(|(message, _)| message);
        let open: Vec<&Message> = open.collect();
        let claim = sqlx::query(AssertSqlSafe(mutex.claim.clone())).bind(process.to_string()).bind(list(&open)?);
        claim.execute(tx.connection()).await?;
        let mut there = look(tx.connection(), mutex, &open, Some(process)).await?.into_iter();
        tx.commit().await?;
        let found = |open: &bool| open.then(|| there.next()).flatten().unwrap_or(Found::Nothing);
        Ok(received.iter().map(found).collect())
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
        let known = look(&mut *tx, queue.mutex()?, &[&delivery.message], None).await?;
        match known[0] {
            known @ (Found::Nothing | Found::Free(_)) => enter(tx, queue, delivery, known).await,
            found => Ok(found),
        }
    }
}

/// What there is of these messages, for who owns what is free: a process that has marked it as its own, or nobody yet.
async fn look(
    tx: &mut SqliteConnection,
    mutex: &Mutex,
    messages: &[&Message],
    owner: Option<ProcessId>,
) -> Result<Vec<Found>> {
    let look = sqlx::query(AssertSqlSafe(mutex.look.clone())).bind(list(messages)?);
    let mut all = vec![Found::Nothing; messages.len()];
    for row in look.fetch_all(tx).await? {
        let at = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
        if let Some(message) = messages.get(at) {
            all[at] = found(&row, owner, message)?;
        }
    }
    Ok(all)
}

/// Messages as a statement gets them.
fn list(messages: &[&Message]) -> Result<String> {
    let hash =
        |payload: &[u8]| payload_hash(payload).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02X}"));
    let parts =
        |message: &&Message| [message.key.columns()[0].clone(), message.key.to_string(), hash(&message.payload)];
    Ok(serde_json::to_string(&messages.iter().map(parts).collect::<Vec<_>>())?)
}

fn found(row: &SqliteRow, free: Option<ProcessId>, message: &Message) -> Result<Found> {
    if !is_about(row.try_get(5)?, &message.payload) {
        return Ok(Found::Another);
    }
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
