//! What is to be published after commit: read by the relay, kept for a retry, made due again when a message is retried. How many rows are
//! written at once is the stores'.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ichido::{
    Delivery, Key, Message,
    broker::{Circulating, Guard, OutboxState, Outgoing, Publication, Unsent},
    error::Result,
    inspect::MOST_COUNTED,
    message::wait_ms,
    store::ProcessId,
};

use crate::{Bind, Dialect, Query, Row, SqlQueue, SqlStore, verbs::leases};

/// The index by which mutex rows are found by their id, and the rows of the outbox by theirs.
const PRIMARY: &str = "primary";
const BY_MUTEX: &str = "ichido_outbox_mutex";

/// The ids of messages that are to be published, before anything is written.
///
/// # Errors
/// A message cannot be published, or no broker keeps the queue.
pub fn new_ids(queue: &SqlQueue, messages: &[Publication]) -> Result<Vec<String>> {
    queue.rules()?;
    crate::refuse_publications(&queue.queue, queue.payload_limit, messages)?;
    Ok(messages.iter().map(|_| crate::new_id()).collect())
}

/// Messages that are due and not known to be published, in the order in which they were sent.
///
/// # Errors
/// The database failed.
pub async fn unsent<S: SqlStore>(store: &S, queue: &str, most: usize) -> Result<Vec<Unsent>> {
    let queue = store.queue(queue).await?;
    let unsent = format!(
        "select number, edition, attempts, id, mutex is not null, exchange, routing_key, headers, payload, {} from {} \
         where queue = ?1 and published_at is null and due_at <= {} order by number limit ?2",
        S::Dialect::age_ms("created_at"),
        store.tables().outbox,
        S::Dialect::CLOCK
    );
    let unsent = store.look(Query::new(unsent).bind(&*queue.queue).bind(most)).await?;
    let origin = origin(store).await?;
    unsent.iter().map(|row| read(row, queue, &origin)).collect()
}

fn read(row: &Row, queue: &SqlQueue, origin: &Arc<str>) -> Result<Unsent> {
    let guarded: bool = row.get(4)?;
    Ok(Unsent {
        number: row.get(0)?,
        edition: row.get(1)?,
        attempts: row.get(2)?,
        waited: row.get(9)?,
        message: Outgoing {
            id: row.get(3)?,
            edition: row.get(1)?,
            origin: origin.clone(),
            queue: guarded.then(|| queue.queue.clone()),
            exchange: row.get(5)?,
            routing_key: row.get(6)?,
            headers: serde_json::from_str(&row.get::<String>(7)?).unwrap_or_default(),
            payload: row.get(8)?,
        },
    })
}

/// The name of this database, read once.
async fn origin<S: SqlStore>(store: &S) -> Result<Arc<str>> {
    let origin = &store.tables().origin;
    let read = || async {
        let rows = store.look(Query::new(format!("select id from {origin}"))).await?;
        let id = rows.first().map(|row| row.get::<String>(0)).transpose()?;
        id.map(Arc::from).ok_or_else(|| ichido::Error::Setup(format!("{origin} is empty; run `ichido migrate`")))
    };
    store.known().origin.get_or_try_init(read).await.cloned()
}

/// How a broker's queue is guarded.
///
/// # Errors
/// No broker keeps it, or the database failed.
pub async fn guard<S: SqlStore>(store: &S, queue: &str) -> Result<Guard> {
    let queue = store.queue(queue).await?;
    let (rules, payload_limit) = (queue.rules()?.clone(), queue.payload_limit);
    Ok(Guard { origin: origin(store).await?, payload_limit, rules })
}

/// Is anything of these queues due and not known to be published?
///
/// # Errors
/// The database failed.
pub async fn any_unsent<S: SqlStore>(store: &S, queues: &BTreeSet<Arc<str>>) -> Result<bool> {
    let any = format!(
        "select exists (select 1 from {} where published_at is null and due_at <= {} and queue in ?1)",
        store.tables().outbox,
        S::Dialect::CLOCK
    );
    let queues = Bind::Texts(queues.iter().map(ToString::to_string).collect());
    let any = store.look(Query::new(any).bind(queues)).await?;
    Ok(any.first().map(|row| row.get(0)).transpose()?.unwrap_or_default())
}

/// The relay lease: takes it over, or else is the first.
///
/// # Errors
/// The database failed.
pub async fn take_relay_lease<S: SqlStore>(store: &S, relay: ProcessId, queue: &str) -> Result<bool> {
    let queue = store.queue(queue).await?;
    let lasts = wait_ms(queue.rules()?.relay_after);
    leases::take(store, &store.tables().relay, relay, &queue.queue, lasts).await
}

/// Releases the relay lease, if this relay has it.
///
/// # Errors
/// The database failed.
pub async fn release_relay_lease<S: SqlStore>(store: &S, relay: ProcessId, queue: &str) -> Result<()> {
    let leave = Query::new(format!("delete from {} where queue = ?1 and owner = ?2", store.tables().relay));
    store.write(leave.bind(queue).bind(relay)).await?;
    Ok(())
}

/// This one is not with the broker, for this reason; it is due again after a while.
///
/// # Errors
/// The database failed.
pub async fn note_unpublished<S: SqlStore>(store: &S, unsent: &Unsent, error: &str, wait: Duration) -> Result<()> {
    let note = format!(
        "update {} set attempts = attempts + 1, error = ?3, due_at = {} where number = ?1 and edition = ?2 and published_at is null",
        store.tables().outbox,
        S::Dialect::after('+', "?4")
    );
    store.write(Query::new(note).bind(unsent.number).bind(unsent.edition).bind(error).bind(wait_ms(wait))).await?;
    Ok(())
}

/// Keeps what a message at a broker says, if its row is here, nobody is at it, and nothing of it is kept.
///
/// # Errors
/// The database failed.
pub async fn keep<S: SqlStore>(store: &S, message: &Message) -> Result<bool> {
    let queue = store.queue(&message.queue).await?;
    queue.refuse_key(&message.key)?;
    let mut own = store.begin_own().await?;
    let there = is_there(store, &mut own, queue, &message.key, "").await?;
    let kept = there && keep_in(store, &mut own, queue, message).await?;
    S::commit_own(own).await?;
    Ok(kept)
}

/// Is the row of a message there, with nobody at it? It is locked then until the transaction ends.
pub(crate) async fn is_there<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
    condition: &str,
) -> Result<bool> {
    let there = format!(
        "select id from {}{} where id = ?2 and queue = ?1 {condition} {}",
        store.tables().mutex,
        S::Dialect::by_index(PRIMARY),
        S::Dialect::LOCK_FREE
    );
    let there = store.fetch(tx, Query::new(there).bind(&*queue.queue).key(key)).await?;
    // To some servers an id with spaces behind it is the same one.
    Ok(there.first().map(|row| row.get::<String>(0)).transpose()?.is_some_and(|id| id == key.columns()[0]))
}

/// What another program has published, with a mutex of its own making, is kept when it fails: a retry needs it.
pub(crate) async fn keep_payload<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    delivery: &Delivery,
) -> Result<()> {
    if queue.rules.is_some() && delivery.refused.is_none() {
        keep_in(store, tx, queue, &delivery.message).await?;
    }
    Ok(())
}

/// To this queue only, by the exchange that leads to every queue by its name.
async fn keep_in<S: SqlStore>(store: &S, tx: &mut S::Connection, queue: &SqlQueue, message: &Message) -> Result<bool> {
    let (outbox, mutex, now) = (&store.tables().outbox, &store.tables().mutex, S::Dialect::CLOCK);
    let keep = format!(
        "insert into {outbox} (id, mutex, queue, exchange, routing_key, headers, payload, created_at, published_at) \
         select m.id, m.id, m.queue, '', ?3, ?4, ?5, {now}, {now} from {mutex} m \
         where m.id = ?2 and m.queue = ?1 and not exists (select 1 from {outbox} o where o.mutex = m.id)"
    );
    let keep = Query::new(keep).bind(&*queue.queue).key(&message.key).bind(&*queue.rules()?.queue);
    let keep = keep.bind(message.written_headers()?).bind(message.payload.to_vec());
    Ok(store.execute(tx, keep).await? == 1)
}

/// Is anything of a queue with the broker? Only a message with a mutex row stays in the outbox once it is published.
///
/// # Errors
/// The database failed.
pub async fn any_circulating<S: SqlStore>(store: &S, queue: &str) -> Result<bool> {
    let any = format!(
        "select (select 1 from {} where queue = ?1 and published_at is not null order by published_at limit 1) is not null",
        store.tables().outbox
    );
    let any = store.look(Query::new(any).bind(queue)).await?;
    Ok(any.first().map(|row| row.get(0)).transpose()?.unwrap_or_default())
}

/// What should be with the broker since so long. The outbox is walked in the order of publication, and its mutex rows are looked up.
///
/// # Errors
/// The database failed.
pub async fn circulating<S: SqlStore>(store: &S, queue: &str, age: Duration, most: usize) -> Result<Circulating> {
    let (queue, tables) = (store.queue(queue).await?, store.tables());
    let old = format!(
        "select m.id from {} o join {} m on m.id = o.mutex \
         where o.queue = ?1 and o.published_at < {} and m.queue = ?1 and m.owner is null order by o.published_at limit ?3",
        tables.outbox,
        tables.mutex,
        S::Dialect::after('-', "?2")
    );
    let old = store.look(Query::new(old).bind(&*queue.queue).bind(wait_ms(age)).bind(most)).await?;
    if old.is_empty() {
        return Ok(Circulating::default());
    }
    let old = old.iter().map(|row| row.key(1)).collect::<Result<_>>()?;
    let failed = format!("select count(*) from {} where queue = ?1 and state = 'dead'", tables.parked);
    let failed = store.look(Query::new(failed).bind(&*queue.queue)).await?;
    Ok(Circulating { old, failed: failed.first().map(|row| row.get(0)).transpose()?.unwrap_or_default() })
}

/// Publishes those of these again that nobody is at. Row by row in their order: what somebody is at is passed over, and nothing else is
/// locked on the way.
///
/// # Errors
/// A key cannot be one of the queue's, or the database failed.
pub async fn publish_again<S: SqlStore>(store: &S, queue: &str, keys: &[Key], most: usize) -> Result<u64> {
    let queue = store.queue(queue).await?;
    keys.iter().try_for_each(|key| queue.refuse_key(key))?;
    let mut own = store.begin_own().await?;
    let mut free = Vec::new();
    for key in keys {
        if free.len() < most && is_there(store, &mut own, queue, key, "and owner is null").await? {
            free.push(key.clone());
        }
    }
    republish(store, &mut own, queue, &free).await?;
    S::commit_own(own).await?;
    Ok(free.len() as u64)
}

/// This message is not published until its time has come; false if nothing of it is kept. A relay that is about to publish it does so
/// under the old edition, and what then arrives is a duplicate.
pub(crate) async fn hold_back<S: SqlStore>(store: &S, tx: &mut S::Connection, key: &Key) -> Result<bool> {
    let hold = format!(
        "update {}{} set published_at = coalesce(published_at, {}), due_at = null, edition = edition + 1, attempts = 0, error = null \
         where mutex = ?1",
        store.tables().outbox,
        S::Dialect::by_index(BY_MUTEX),
        S::Dialect::CLOCK
    );
    Ok(store.execute(tx, Query::new(hold).key(key)).await? == 1)
}

/// These messages are published again: their time has come, or somebody wants it so. Nothing where no broker keeps the queue. What
/// was published is new from now on to those who ask for its age; what was not is as old as before. (`MySQL` assigns in this order.)
pub(crate) async fn republish<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    keys: &[Key],
) -> Result<u64> {
    if queue.rules.is_none() || keys.is_empty() {
        return Ok(0);
    }
    let due = format!(
        "update {}{} set created_at = case when published_at is null then created_at else {now} end, \
         published_at = null, due_at = {now}, edition = edition + 1, attempts = 0, error = null where mutex in ?1",
        store.tables().outbox,
        S::Dialect::by_index(BY_MUTEX),
        now = S::Dialect::CLOCK
    );
    let ids = keys.iter().map(|key| key.columns()[0].clone()).collect();
    store.execute(tx, Query::new(due).bind(Bind::Texts(ids))).await
}

/// What of a queue waits to be published; none where no broker keeps it.
pub(crate) async fn state<S: SqlStore>(store: &S, queue: &SqlQueue) -> Result<Option<OutboxState>> {
    if queue.rules.is_none() {
        return Ok(None);
    }
    let (outbox, now) = (&store.tables().outbox, S::Dialect::CLOCK);
    let counts = format!(
        "select count(*), {}, \
         (select error from {outbox} where queue = ?1 and published_at is null and error is not null order by number limit 1) \
         from (select created_at from {outbox} where queue = ?1 and published_at is null and (due_at <= {now} or error is not null) \
         limit {MOST_COUNTED}) u",
        S::Dialect::age_ms("min(created_at)")
    );
    let counts = store.look(Query::new(counts).bind(&*queue.queue)).await?;
    let Some(row) = counts.first() else { return Ok(None) };
    let oldest = row.get::<Option<i64>>(1)?.map(|ms| ms / 1000);
    Ok(Some(OutboxState::new(row.get(0)?, oldest, row.get(2)?)))
}
