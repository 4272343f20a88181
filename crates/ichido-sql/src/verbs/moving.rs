//! An operator moves one message in time: it becomes due later or earlier, or ready at once. Each is one transaction, under the locks of the
//! parked row and of the queue's row; a row that somebody has locked is not waited for, because its action may run for long.

use ichido::{
    Due, Key, MessageId,
    error::Result,
    inspect::{Changed, ParkedState},
};

use crate::{
    Dialect, Kind, Query, SqlQueue, SqlRows, SqlStore,
    verbs::{audit, messages, outbox, parked},
};

/// The message becomes due at another time.
///
/// # Errors
/// The key cannot be one of the queue's, nothing of the message is kept, or the database failed.
pub async fn reschedule<S: SqlRows>(store: &S, id: &MessageId, due: Due) -> Result<Changed> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    let mut own = store.begin_own().await?;
    let past = locked(store, &mut own, queue, &id.key).await?;
    let moved = match postpone(store, &mut own, queue, &id.key, past.as_ref(), due).await {
        Ok(true) => true,
        Ok(false) => is_waiting(past.as_ref()) && move_due(store, &mut own, queue, &id.key, due).await?,
        Err(error) => {
            S::rollback_own(own).await?;
            return Err(error);
        }
    };
    if !moved {
        return left::<S>(store, own, id).await;
    }
    let due = due_text(store, &mut own, queue, &id.key).await?;
    audit::write(store, &mut own, "reschedule", (&id.queue, &id.key.to_string()), &due).await?;
    S::commit_own(own).await?;
    Ok(Changed::Yes)
}

/// The message is ready at once, if it waits.
///
/// # Errors
/// The key cannot be one of the queue's, or the database failed.
pub async fn run_now<S: SqlRows>(store: &S, id: &MessageId) -> Result<Changed> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    let mut own = store.begin_own().await?;
    let past = locked(store, &mut own, queue, &id.key).await?;
    let key = std::slice::from_ref(&id.key);
    if !is_waiting(past.as_ref()) || parked::return_these(store, &mut own, queue, key).await?.is_empty() {
        return left::<S>(store, own, id).await;
    }
    audit::write(store, &mut own, "run-now", (&id.queue, &id.key.to_string()), "").await?;
    S::commit_own(own).await?;
    Ok(Changed::Yes)
}

/// It is left as it is; says how that is.
async fn left<S: SqlRows>(store: &S, own: S::Own, id: &MessageId) -> Result<Changed> {
    S::rollback_own(own).await?;
    Ok(Changed::no(messages::message(store, id).await?))
}

/// What the parked row says, which nobody else changes now.
struct Past {
    state: ParkedState,
    attempts: i64,
    suspect: bool,
    snoozed: i64,
    history: String,
}

impl Past {
    /// What goes on to be known of a message that can be claimed. One that had failed for good was set to new by hand: attempt one.
    fn of_ready(past: Option<&Past>) -> (i64, bool, i64, &str) {
        match past {
            Some(Past { state: ParkedState::Dead | ParkedState::Discarded, history, .. }) => (0, false, 0, history),
            Some(past) => (past.attempts, past.suspect, past.snoozed, &past.history),
            None => (0, false, 0, "[]"),
        }
    }
}

fn is_waiting(past: Option<&Past>) -> bool {
    past.is_some_and(|past| past.state == ParkedState::Waiting)
}

async fn locked<S: SqlStore>(store: &S, tx: &mut S::Connection, queue: &SqlQueue, key: &Key) -> Result<Option<Past>> {
    let columns = "state, attempts, suspect, snoozed, history";
    let Some(row) = parked::locked_past(store, tx, queue, key, (columns, "")).await? else { return Ok(None) };
    let state = ParkedState::read(&row.get::<String>(0)?);
    let (attempts, suspect) = (row.get(1)?, row.get(2)?);
    Ok(Some(Past { state, attempts, suspect, snoozed: row.get(3)?, history: row.get(4)? }))
}

/// Parks a message that can be claimed; false if it cannot, or somebody has its row locked.
async fn postpone<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    key: &Key,
    past: Option<&Past>,
    due: Due,
) -> Result<bool> {
    let keys = std::slice::from_ref(key);
    if store.fetch(tx, S::of_keys(queue, &queue.ready, None, keys, S::Dialect::LOCK_ROWS)).await?.is_empty() {
        return Ok(false);
    }
    // The copy at the broker is acknowledged when it comes: what is not kept here would be lost.
    if queue.kind == Kind::Mutex && !outbox::hold_back(store, tx, key).await? {
        return Err(crate::only_at_broker(&queue.queue, key));
    }
    if store.execute(tx, S::of_keys(queue, &queue.postpone, None, keys, "")).await? != 1 {
        return Ok(false);
    }
    let (attempts, suspect, snoozed, history) = Past::of_ready(past);
    let (after, at) = due.millis();
    let park = format!(
        "insert into {} (queue, {key}, state, attempts, suspect, due_at, parked_at, history, snoozed) \
         values (?1, ?2, 'waiting', ?3, ?4, {}, {}, ?5, ?6) {}",
        store.tables().parked,
        S::Dialect::due("?7", "?8"),
        S::Dialect::NOW,
        S::Dialect::or_replace(
            &format!("queue, {}", S::Dialect::KEY),
            &["state", "attempts", "suspect", "due_at", "parked_at", "history", "snoozed"]
        ),
        key = S::Dialect::KEY,
    );
    let park = Query::new(park).bind(&*queue.queue).exact(key.to_string()).bind(attempts).bind(suspect);
    store.execute(tx, park.bind(history).bind(snoozed).bind(at).bind(after)).await?;
    Ok(true)
}

/// Another due time for a message that waits; false if its row is not there as it was left, or somebody has it locked.
async fn move_due<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    key: &Key,
    due: Due,
) -> Result<bool> {
    let keys = std::slice::from_ref(key);
    if store.fetch(tx, S::of_keys(queue, &queue.waiting, None, keys, S::Dialect::LOCK_ROWS)).await?.is_empty() {
        return Ok(false);
    }
    let (after, at) = due.millis();
    let due = format!(
        "update {} set due_at = {} where queue = ?1 and {} = ?2 and state = 'waiting'",
        store.tables().parked,
        S::Dialect::due("?3", "?4"),
        S::Dialect::KEY
    );
    let due = Query::new(due).bind(&*queue.queue).exact(key.to_string()).bind(at).bind(after);
    Ok(store.execute(tx, due).await? == 1)
}

/// The due time, for the note about what was done.
async fn due_text<S: SqlStore>(store: &S, tx: &mut S::Connection, queue: &SqlQueue, key: &Key) -> Result<String> {
    let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
    let due = format!("select {} from {parked} where queue = ?1 and {column} = ?2", S::Dialect::utc("due_at"));
    let due = store.fetch(tx, Query::new(due).bind(&*queue.queue).exact(key.to_string())).await?;
    let due: Option<String> = due.first().map(|row| row.get(0)).transpose()?.flatten();
    Ok(format!("{{\"due_at\":\"{}\"}}", due.unwrap_or_default()))
}
