//! The mutex rows of messages that a broker carries: locked in the business transaction, or marked as a process's own. What is
//! found says what becomes of the delivery.
//!
//! A row is never locked on the way to another one: who asks for it meanwhile would find it busy. So every statement that locks
//! mutex rows goes by key, also where the table is so small that the server would rather read all of it.

use std::{collections::BTreeMap, sync::Arc};

use ichido::{
    Delivery, Key, Message, Queue,
    broker::Found,
    error::Result,
    inspect::ParkedState,
    store::{Mutexes, ProcessId},
};
use ichido_sql::{Past, SqlStore, Tables, is_about, padded};
use sqlx::{AssertSqlSafe, MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    MySql, Tx, fault, quote,
    statements::{Rows, Statements},
};

/// A row that somebody else has locked, as MariaDB and MySQL say it to who will not wait.
const LOCKED: [u16; 2] = [1205, 3572];

/// What only the rows of a broker's queue have.
pub(crate) struct Mutex {
    /// Locks a row; the parameters are the key of its parked row, which is only read, and the id.
    pub(crate) lock: Arc<str>,
    /// Locks rows that are free or the process's own; [`Statements::of_many`] completes it, as the next two.
    pub(crate) free: Arc<str>,
    pub(crate) claim: Arc<str>,
    pub(crate) look: Arc<str>,
}

impl Mutex {
    pub(crate) fn new(tables: &Tables, queue: &Queue, rows: &Rows) -> Result<Self> {
        let (by_key, parked, queue) = (rows.by_key(), &tables.parked, quote::literal(&queue.name)?);
        let known = "concat_ws(' ', p.state, p.attempts, p.suspect)";
        let free = "(t.owner is null or t.owner = ?)";
        Ok(Mutex {
            lock: format!(
                "select cast(t.id as char), t.owner, t.hash, (select {known} from {parked} p where p.queue = {queue} and p.`key` = ?) \
                 from {by_key} where t.id = ? and t.queue = {queue} for update nowait"
            )
            .into(),
            free: format!("select cast(t.id as char), t.hash from {by_key} where t.queue = {queue} and {free} and ").into(),
            claim: format!("update {by_key} set owner = ? where t.queue = {queue} and ").into(),
            look: format!("select cast(t.id as char), t.owner, t.hash from {by_key} where t.queue = {queue} and ").into(),
        })
    }
}

impl Statements {
    /// What only a broker's queue has.
    pub(crate) fn mutex(&self) -> Result<&Mutex> {
        self.mutex.as_ref().ok_or_else(|| ichido_sql::no_broker(&self.queue))
    }
}

impl Mutexes for MySql {
    ichido_sql::mutexes!();

    async fn lock(&self, tx: &mut Tx, delivery: &Delivery) -> Result<Found> {
        self.guard_in(&mut tx.lent, delivery).await
    }

    async fn claim_these(&self, process: ProcessId, queue: &str, messages: &[Message]) -> Result<Vec<Found>> {
        let queue = self.queue(queue).await?;
        queue.mutex()?;
        messages.iter().try_for_each(|message| queue.refuse_key(&message.key))?;
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let (mut tx, _) = self.begin_claim(process, queue).await?;
        let received = if queue.has_inbox() {
            self.mark_received(&mut tx, process, queue, messages).await?
        } else {
            vec![None; messages.len()]
        };
        let open = messages.iter().zip(&received).filter(|(_, found)| found.is_none());
        let open = open.map(|(message, _)| message.clone());
        let claimed = self.claim_rows_of(&mut tx, process, queue, &open.collect::<Vec<_>>()).await?;
        Self::commit_own(tx).await?;
        // Only the inbox says that something is done; a row that went meanwhile does not.
        let sure = |found| if queue.has_inbox() && found == Found::Nothing { Found::Busy } else { found };
        let mut claimed = claimed.into_iter().map(sure);
        Ok(received.into_iter().filter_map(|found| found.or_else(|| claimed.next())).collect())
    }
}

impl MySql {
    pub(crate) async fn lock_in(&self, tx: &mut MySqlConnection, delivery: &Delivery) -> Result<Found> {
        let queue = self.queue(&delivery.message.queue).await?;
        let key = &delivery.message.key;
        queue.refuse_key(key)?;
        let id = &key.columns()[0];
        let lock = sqlx::query(AssertSqlSafe(queue.mutex()?.lock.clone())).bind(key.to_string().into_bytes()).bind(id);
        match self.within(lock.fetch_optional(tx)).await {
            // To the server an id with spaces behind it is the same one.
            Ok(Some(row)) if row.try_get::<&str, _>(0)? == id => {
                let Seen { owner, hash } = seen(&row)?;
                if !is_about(hash.as_deref(), &delivery.message.payload) {
                    return Ok(Found::Another);
                }
                let known = row.try_get::<Option<String>, _>(3)?.and_then(|known| read_known(&known));
                Ok(found(owner.is_none(), owner, known))
            }
            Ok(_) => Ok(Found::Nothing),
            Err(error) if is_locked(&error) => Ok(Found::Busy),
            Err(error) => Err(error.into()),
        }
    }

    /// Locks what guards a message: its sender's row, or its place in the inbox.
    pub(crate) async fn guard_in(&self, tx: &mut MySqlConnection, delivery: &Delivery) -> Result<Found> {
        let queue = self.queue(&delivery.message.queue).await?;
        match self.lock_in(&mut *tx, delivery).await? {
            known @ (Found::Nothing | Found::Free(_)) if queue.has_inbox() => {
                self.enter(tx, queue, delivery, known).await
            }
            found => Ok(found),
        }
    }

    /// Marks rows that are there.
    async fn claim_rows_of(
        &self,
        tx: &mut MySqlConnection,
        process: ProcessId,
        queue: &Statements,
        messages: &[Message],
    ) -> Result<Vec<Found>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let mutex = queue.mutex()?;
        let ours = self.mark_free(&mut *tx, process, queue, messages).await?;
        let look = sqlx::query(AssertSqlSafe(queue.of_many(&mutex.look, messages.len(), "")));
        let look = padded(messages).fold(look, |look, message| look.bind(id(message)));
        let there = self.within(look.fetch_all(&mut *tx)).await?;
        let there: BTreeMap<String, Seen> =
            there.iter().map(|row| Ok((row.try_get(0)?, seen(row)?))).collect::<Result<_>>()?;
        let keys: Vec<Key> = messages.iter().map(|message| message.key.clone()).collect();
        let known = self.known(tx, queue, &keys).await?;
        let what = |message: &Message| match there.get(id(message)) {
            None => Found::Nothing,
            Some(Seen { hash, .. }) if !is_about(hash.as_deref(), &message.payload) => Found::Another,
            Some(Seen { owner, .. }) => {
                let free = ours.iter().any(|ours| ours == id(message));
                found(free, *owner, known.get(&message.key.to_string()).copied())
            }
        };
        Ok(messages.iter().map(what).collect())
    }

    /// Marks those rows that are free or the process's own, and about these bodies; their ids.
    async fn mark_free(
        &self,
        tx: &mut MySqlConnection,
        process: ProcessId,
        queue: &Statements,
        messages: &[Message],
    ) -> Result<Vec<String>> {
        let mutex = queue.mutex()?;
        let free = queue.of_many(&mutex.free, messages.len(), " for update skip locked");
        let free = sqlx::query(AssertSqlSafe(free)).bind(process.to_string());
        let free = padded(messages).fold(free, |free, message| free.bind(id(message)));
        let mut ours: Vec<String> = Vec::new();
        for row in self.within(free.fetch_all(&mut *tx)).await? {
            let (free, hash): (String, Option<Vec<u8>>) = (row.try_get(0)?, row.try_get(1)?);
            let mut asked = messages.iter().filter(|message| id(message) == free);
            if asked.any(|message| is_about(hash.as_deref(), &message.payload)) {
                ours.push(free);
            }
        }
        if !ours.is_empty() {
            let claim = queue.of_many(&mutex.claim, ours.len(), "");
            let claim = sqlx::query(AssertSqlSafe(claim)).bind(process.to_string());
            let claim = padded(&ours).fold(claim, sqlx::query::Query::bind);
            self.within(claim.execute(&mut *tx)).await?;
        }
        Ok(ours)
    }

    /// What is known about these messages, by key.
    async fn known(
        &self,
        tx: &mut MySqlConnection,
        queue: &Statements,
        keys: &[Key],
    ) -> Result<BTreeMap<String, Known>> {
        let places = quote::places(keys);
        let known = format!(
            "select convert(`key` using utf8mb4), concat_ws(' ', state, attempts, suspect) from {} where queue = ? and `key` in ({places})",
            self.shared.known.tables.parked
        );
        let known = sqlx::query(AssertSqlSafe(known)).bind(&*queue.queue);
        let known = padded(keys).fold(known, |known, key| known.bind(key.to_string().into_bytes()));
        let mut all = BTreeMap::new();
        for row in self.within(known.fetch_all(tx)).await? {
            if let Some(known) = read_known(row.try_get(1)?) {
                all.insert(row.try_get(0)?, known);
            }
        }
        Ok(all)
    }
}

/// Does who will not wait hear that somebody else has the row?
pub(crate) fn is_locked(error: &sqlx::Error) -> bool {
    fault::number(error).is_some_and(|number| LOCKED.contains(&number))
}

/// What the parked row of a message says.
type Known = (ParkedState, Past);

/// Reads a state, the attempts and whether it is suspect.
fn read_known(text: &str) -> Option<Known> {
    let mut words = text.split(' ');
    let (state, attempts, suspect) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    Some((ParkedState::read(state), Past::new(state, attempts, suspect != "0")))
}

/// What a row says.
struct Seen {
    owner: Option<ProcessId>,
    hash: Option<Vec<u8>>,
}

fn seen(row: &MySqlRow) -> Result<Seen> {
    let owner = row.try_get::<Option<String>, _>(1)?.map(|owner| owner.parse()).transpose()?;
    Ok(Seen { owner, hash: row.try_get(2)? })
}

fn id(message: &Message) -> &str {
    &message.key.columns()[0]
}

fn found(free: bool, owner: Option<ProcessId>, known: Option<Known>) -> Found {
    ichido_sql::found(free, owner, known.map(|(state, _)| state), known.as_ref().map(|(_, past)| past))
}
