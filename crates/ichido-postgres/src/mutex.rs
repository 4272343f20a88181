//! The mutex rows of messages that a broker carries: locked in the business transaction, or marked as a process's own. What is
//! found says what becomes of the delivery.

use std::sync::Arc;

use ichido::{
    Delivery, Error, Key, Message,
    action::Terms,
    broker::Found,
    error::Result,
    inspect::ParkedState,
    store::{Mutexes, ProcessId, Transactions},
};
use ichido_sql::{Past, SqlStore, Tables, is_about, payload_hash};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use crate::{
    Postgres, Tx, fault, quote,
    statements::{Rows, Statements, me},
};

/// A row that somebody else has locked.
const LOCKED: &str = "55P03";

/// What only the rows of a broker's queue have.
pub(crate) struct Mutex {
    /// `$1` is the id, `$2` the key of its parked row.
    pub(crate) lock: Arc<str>,
    /// What the lock is called where it is prepared.
    name: String,
    /// `$1` is the process, `$2` the ids, `$3` the keys of their parked rows, `$4` the hashes of their bodies.
    pub(crate) claim: Arc<str>,
}

/// What is read of a row: its owner, what its body was, and what is known about its message.
const FOUND: &str = "t.owner::text as owner, t.hash, p.state, p.attempts, p.suspect";

impl Mutex {
    pub(crate) fn new(tables: &Tables, queue: &str, rows: &Rows) -> Result<Self> {
        let (table, parked, queue) = (&rows.mapping.table, &tables.parked, quote::literal(queue)?);
        let lock = format!(
            "select {FOUND} from {table} t left join {parked} p on p.queue = {queue} and p.key = $2 \
             where t.id = $1 and t.queue = {queue} for update of t nowait"
        );
        let claim = format!(
            "with {me}, \
             wanted as (select * from unnest($2::text[], $3::text[], $4::bytea[]) with ordinality as w(id, key, hash, at)), \
             free as materialized (select t.id from {table} t, wanted where t.id = wanted.id and t.queue = {queue} \
             and (t.owner is null or t.owner = {owner}) and (t.hash is null or t.hash = wanted.hash) \
             and exists (select 1 from me) for update of t skip locked), \
             claimed as (update {table} t set owner = {owner} from free where t.id = free.id returning t.id) \
             select exists (select 1 from me), c.id is not null, t.id is not null, {FOUND} \
             from wanted w left join claimed c on c.id = w.id left join {table} t on t.id = w.id and t.queue = {queue} \
             left join {parked} p on p.queue = {queue} and p.key = w.key order by w.at",
            me = me(tables),
            owner = rows.me(),
        );
        // Nobody else's, whoever has had the connection before.
        let name = format!("ichido_lock_{}", ProcessId::random().to_string().replace('-', "_"));
        Ok(Mutex { lock: lock.into(), name, claim: claim.into() })
    }
}

impl Statements {
    /// What only a broker's queue has.
    pub(crate) fn mutex(&self) -> Result<&Mutex> {
        self.mutex.as_ref().ok_or_else(|| ichido_sql::no_broker(&self.queue))
    }
}

impl Mutexes for Postgres {
    ichido_sql::mutexes!();

    async fn lock(&self, tx: &mut Tx, delivery: &Delivery) -> Result<Found> {
        self.timed(Box::pin(self.guard_in(tx.connection(), delivery))).await
    }

    /// Begins a transaction and locks what guards a message in it.
    async fn begin_locked(&self, terms: Terms, delivery: &Delivery) -> Result<(Tx, Found)> {
        let (mut tx, found) = match self.begin_with_lock(terms, delivery).await? {
            Some((tx, found)) => (tx, Some(found)),
            None => (self.begin_on(terms).await?, None),
        };
        let found = match found {
            Some(known) => self.timed(Box::pin(self.enter_if_free(tx.connection(), delivery, known))).await,
            None => self.timed(Box::pin(self.guard_in(tx.connection(), delivery))).await,
        };
        match found {
            Ok(found) => Ok((tx, found)),
            Err(error) => {
                let _ = Box::pin(self.rollback(tx)).await;
                Err(error)
            }
        }
    }

    async fn claim_these(&self, process: ProcessId, queue: &str, messages: &[Message]) -> Result<Vec<Found>> {
        let queue = self.queue(queue).await?;
        messages.iter().try_for_each(|message| queue.refuse_key(&message.key))?;
        if !queue.has_inbox() {
            return self.claim_rows_of(process, queue, messages).await;
        }
        let ids: Vec<_> = messages.iter().map(|message| message.key.columns()[0].clone()).collect();
        let received = self.mark_received(process, queue, &ids).await?;
        let open = messages.iter().zip(&received).filter(|(_, found)| found.is_none());
        let open = open.map(|(message, _)| message.clone());
        let mut claimed = self.claim_rows_of(process, queue, &open.collect::<Vec<_>>()).await?.into_iter();
        Ok(received.into_iter().filter_map(|found| found.or_else(|| claimed.next())).collect())
    }
}

impl Postgres {
    pub(crate) async fn lock_in(&self, tx: &mut PgConnection, delivery: &Delivery) -> Result<Found> {
        let queue = self.queue(&delivery.message.queue).await?;
        let key = &delivery.message.key;
        queue.refuse_key(key)?;
        let lock = sqlx::query(AssertSqlSafe(queue.mutex()?.lock.clone())).bind(id(key)).bind(key.to_string());
        match lock.persistent(!self.own.is_pooled()).fetch_optional(tx).await {
            Ok(None) => Ok(Found::Nothing),
            Ok(Some(row)) => found(&row, None, &delivery.message),
            Err(error) if fault::code(&error).as_deref() == Some(LOCKED) => Ok(Found::Busy),
            Err(error) => Err(error.into()),
        }
    }

    /// Locks what guards a message: its sender's row, or its place in the inbox.
    pub(crate) async fn guard_in(&self, tx: &mut PgConnection, delivery: &Delivery) -> Result<Found> {
        let known = self.lock_in(&mut *tx, delivery).await?;
        self.enter_if_free(tx, delivery, known).await
    }

    /// What comes after the lock.
    async fn enter_if_free(&self, tx: &mut PgConnection, delivery: &Delivery, known: Found) -> Result<Found> {
        let queue = self.queue(&delivery.message.queue).await?;
        match known {
            Found::Nothing | Found::Free(_) if queue.has_inbox() => self.enter(tx, queue, delivery, known).await,
            found => Ok(found),
        }
    }

    /// Both in one round trip, with a statement that the session has prepared. None if anything speaks against it; then step by
    /// step, where an error says whose it is.
    async fn begin_with_lock(&self, terms: Terms, delivery: &Delivery) -> Result<Option<(Tx, Found)>> {
        let (queue, key) = (self.queue(&delivery.message.queue).await?, &delivery.message.key);
        let (mutex, Some(id)) = (queue.mutex()?, id(key)) else { return Ok(None) };
        if self.own.is_pooled() || queue.refuse_key(key).is_err() {
            return Ok(None);
        }
        let (id, key) = (quote::literal(id)?, quote::literal(&key.to_string())?);
        let mut tx = self.open_session().await?;
        let begin = self.begin_words(terms, &tx.session.token) + &tx.session.prepare(&mutex.name, &mutex.lock);
        let locked = tx.session.begin(format!("{begin}; execute {}({id}, {key})", mutex.name));
        let found = match self.shared.deadline.within(locked).await {
            Ok(rows) => rows.first().map_or(Ok(Found::Nothing), |row| found(row, None, &delivery.message))?,
            Err(error) if fault::code(&error).as_deref() == Some(LOCKED) => Found::Busy,
            Err(error) => {
                tracing::debug!(%error, "cannot begin and lock in one round trip; doing both separately");
                return Ok(None);
            }
        };
        tx.session.note_prepared(&mutex.name);
        Ok(Some((tx, found)))
    }

    /// Marks rows that are there.
    async fn claim_rows_of(&self, process: ProcessId, queue: &Statements, messages: &[Message]) -> Result<Vec<Found>> {
        let ids: Vec<_> = messages.iter().map(|message| id(&message.key)).collect();
        let texts: Vec<_> = messages.iter().map(|message| message.key.to_string()).collect();
        let hashes: Vec<_> = messages.iter().map(|message| payload_hash(&message.payload)).collect();
        let claim = sqlx::query(AssertSqlSafe(queue.mutex()?.claim.clone())).bind(process.to_string());
        let rows = self.own.fetch_all(claim.bind(ids).bind(texts).bind(hashes)).await?;
        let mut all = Vec::with_capacity(rows.len());
        for (row, message) in rows.iter().zip(messages) {
            let (alive, claimed, there): (bool, bool, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if !alive {
                return Err(Error::LostClaim);
            }
            all.push(if there { found(row, Some(claimed), message)? } else { Found::Nothing });
        }
        Ok(all)
    }
}

/// The id in a key; none if no row can have it, because the server knows no NUL.
fn id(key: &Key) -> Option<&str> {
    key.columns().first().map(String::as_str).filter(|id| !id.contains('\0'))
}

/// What a row says about a message that was handed out; `claimed` if it was to be marked as our own.
fn found(row: &PgRow, claimed: Option<bool>, message: &Message) -> Result<Found> {
    // Not borrowed: the answer to several statements at once is text.
    if !is_about(row.try_get::<Option<Vec<u8>>, _>("hash")?.as_deref(), &message.payload) {
        return Ok(Found::Another);
    }
    let owner = row.try_get::<Option<&str>, _>("owner")?.map(str::parse::<ProcessId>).transpose()?;
    let state: Option<&str> = row.try_get("state")?;
    let past = match state {
        Some(state) => {
            Some(Past::new(state, row.try_get::<i32, _>("attempts")?.unsigned_abs(), row.try_get("suspect")?))
        }
        None => None,
    };
    let free = claimed.unwrap_or(owner.is_none());
    Ok(ichido_sql::found(free, owner, state.map(ParkedState::read), past.as_ref()))
}
