//! Cancelling. One transaction locks the row, whoever owns it, and takes it away with its group, its past and what is to be published; the
//! process that had it claimed finds a note in `ichido_cancel`. A row that is locked is being run or completed: then the note asks, and
//! whoever can lock the row first carries it out, the canceller or the process that dropped it.

use ichido::{
    Delivery, Key, Message, MessageId,
    error::Result,
    store::{By, Cancellable, Cancelled, ProcessId},
};

use crate::{
    Bind, Dialect, Kind, Query, Row, SqlQueue, SqlRows, SqlStore,
    past::Note,
    verbs::{audit, groups, inbox, parked},
};

/// The verb, as the audit has it.
const VERB: &str = "cancel";

/// What nobody has come to see is forgotten after a day.
const FORGOTTEN_MS: i64 = 24 * 3600 * 1000;

/// What came of a look at a message that is to be cancelled.
enum Look {
    /// It is cancelled, if this transaction commits.
    Taken,
    /// Somebody has locked it; the row names this owner.
    Locked(Option<ProcessId>),
    /// There is nothing to cancel.
    Over(Cancelled),
}

/// Cancels a message, or asks the process that runs it.
///
/// # Errors
/// The key cannot be one of the queue's, or the database failed.
pub async fn cancel<S: SqlRows>(store: &S, id: &MessageId) -> Result<Cancelled> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    let mut own = store.begin_own().await?;
    match take(store, &mut own, queue, &id.key, store.acts_for()).await? {
        Look::Taken => {
            S::commit_own(own).await?;
            Ok(Cancelled::Cancelled)
        }
        Look::Over(over) => {
            S::rollback_own(own).await?;
            forget_asked(store, queue, &id.key).await?;
            Ok(over)
        }
        Look::Locked(owner) => {
            // The lock that was not to be had may have broken the transaction.
            S::rollback_own(own).await?;
            ask(store, queue, &id.key, owner).await?;
            Ok(Cancelled::Asked)
        }
    }
}

/// What [`cancel`] would do now.
///
/// # Errors
/// The key cannot be one of the queue's, or the database failed.
pub async fn would<S: SqlRows>(store: &S, id: &MessageId) -> Result<Cancelled> {
    let queue = store.queue(&id.queue).await?;
    queue.refuse_key(&id.key)?;
    let mut own = store.begin_own().await?;
    let look = take(store, &mut own, queue, &id.key, store.acts_for()).await?;
    S::rollback_own(own).await?;
    Ok(match look {
        Look::Taken => Cancelled::Cancelled,
        Look::Over(over) => over,
        Look::Locked(_) => Cancelled::Asked,
    })
}

/// Cancels some messages of a queue in one transaction, those that nobody has locked.
///
/// # Errors
/// The database failed.
pub async fn cancel_some<S: SqlRows>(
    store: &S,
    queue: &str,
    which: Cancellable,
    most: usize,
) -> Result<Vec<MessageId>> {
    let queue = store.queue(queue).await?;
    let mut own = store.begin_own().await?;
    let (page, columns) = page::<S>(store, queue, which, most, true);
    let keys = keys(&store.fetch(&mut own, page).await?, columns)?;
    let mut cancelled = Vec::new();
    for key in keys {
        if let Look::Taken = take(store, &mut own, queue, &key, store.acts_for()).await? {
            cancelled.push(MessageId { queue: queue.queue.clone(), key });
        }
    }
    S::commit_own(own).await?;
    Ok(cancelled)
}

/// The messages of a queue that could be cancelled now, some of them; also those that somebody has locked.
///
/// # Errors
/// The database failed.
pub async fn cancellable<S: SqlRows>(
    store: &S,
    queue: &str,
    which: Cancellable,
    most: usize,
) -> Result<Vec<MessageId>> {
    let queue = store.queue(queue).await?;
    let (page, columns) = page::<S>(store, queue, which, most, false);
    let keys = keys(&store.look(page).await?, columns)?;
    Ok(keys.into_iter().map(|key| MessageId { queue: queue.queue.clone(), key }).collect())
}

/// The statement that finds them, and how many columns a key has in its rows; none: it is written in one.
fn page<S: SqlRows>(
    store: &S,
    queue: &SqlQueue,
    which: Cancellable,
    most: usize,
    lock: bool,
) -> (Query, Option<usize>) {
    let state = match which {
        Cancellable::Ready | Cancellable::Claimed => {
            let rows = if which == Cancellable::Ready { &queue.ready_in_order } else { &queue.held };
            let end = if lock { S::Dialect::LOCK_ROWS } else { "" };
            return (Query::written(format!("{rows} limit {most}{end}")), Some(queue.key_columns));
        }
        Cancellable::Waiting => "waiting",
        Cancellable::Failed => "dead",
    };
    let page = format!(
        "select {} from {} where queue = ?1 and state = '{state}' limit {most}",
        S::Dialect::KEY,
        store.tables().parked
    );
    (Query::new(page).bind(&*queue.queue), None)
}

fn keys(rows: &[Row], columns: Option<usize>) -> Result<Vec<Key>> {
    let read = |row: &Row| match columns {
        Some(columns) => row.key(columns),
        None => row.get::<String>(0)?.parse(),
    };
    rows.iter().map(read).collect()
}

/// Is the message of a delivery cancelled? What was asked is carried out now.
///
/// # Errors
/// The database failed.
pub async fn finish<S: SqlRows>(store: &S, delivery: &Delivery) -> Result<bool> {
    let Some(claim) = &delivery.claim else { return Ok(false) };
    let (queue, key) = (store.queue(&delivery.message.queue).await?, &delivery.message.key);
    let (table, column) = (&store.tables().cancel, S::Dialect::KEY);
    let mine = format!("queue = ?1 and {column} = ?2 and process in (?3, ?4)");
    let mine = |what: &str| {
        let mine = Query::new(what.replace("{mine}", &mine)).bind(&*queue.queue).exact(key.to_string());
        mine.bind(claim.owner).bind(ProcessId::NOBODY)
    };
    let mut own = store.begin_own().await?;
    let notes = format!("select asked, by_user, by_host, reason from {table} where {{mine}} {}", S::Dialect::LOCK);
    let notes = store.fetch(&mut own, mine(&notes)).await?;
    let mut cancelled = false;
    for note in &notes {
        if !note.get::<bool>(0)? {
            cancelled = true;
            continue;
        }
        match take(store, &mut own, queue, key, &audit::read_by(note, 1)?).await? {
            Look::Taken => cancelled = true,
            Look::Over(_) => {}
            // Somebody else has it by now, and is asked as well.
            Look::Locked(_) => {
                S::rollback_own(own).await?;
                return Ok(false);
            }
        }
    }
    let forget = format!("delete from {table} where {{mine}}");
    store.execute(&mut own, mine(&forget)).await?;
    // Who had only locked it got no note; and such an id is never used again.
    if !cancelled && queue.kind != Kind::Table {
        cancelled = audit::has(store, &mut own, &[VERB], (&queue.queue, &key.to_string())).await?;
    }
    S::commit_own(own).await?;
    Ok(cancelled)
}

/// Locks the row of a message and takes it out of circulation, by this one.
async fn take<S: SqlRows>(store: &S, tx: &mut S::Connection, queue: &S::Queue, key: &Key, by: &By) -> Result<Look> {
    let locked = Query::written(format!("{}{}", queue.state, S::Dialect::LOCK_ROWS)).key(key);
    let Some(row) = store.fetch(tx, locked).await?.into_iter().next() else {
        let there = store.fetch(tx, Query::written(&*queue.state).key(key)).await?;
        return match there.first() {
            Some(row) => Ok(Look::Locked(row.get::<Option<String>>(0)?.and_then(|owner| owner.parse().ok()))),
            None if queue.has_inbox() => take_from_inbox(store, tx, queue, key, by).await,
            None => over_without_row(store, tx, queue, key).await,
        };
    };
    let (owner, group): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
    let claimed = owner.is_some();
    let owner = owner.and_then(|owner| owner.parse::<ProcessId>().ok());
    let (new, failed, done): (bool, bool, bool) = (row.get(2)?, row.get(3)?, row.get(4)?);
    let past = past(store, tx, queue, key).await?;
    let state = past.as_ref().map(|(state, _)| &**state);
    let was = match (state, owner) {
        (Some("discarded"), None | Some(ProcessId::NOBODY)) if failed => return Ok(Look::Over(Cancelled::Already)),
        (Some("dead"), _) if failed => "failed",
        (None, _) if failed && queue.has_failed_value => return Ok(Look::Over(Cancelled::Already)),
        _ if done => return Ok(Look::Over(Cancelled::Done)),
        _ if !new => return Ok(Look::Over(Cancelled::Unknown)),
        (_, Some(ProcessId::NOBODY)) => "waiting",
        _ if claimed => "claimed",
        _ => "ready",
    };
    if queue.has_inbox() {
        if let Some(over) = over_in_inbox(store, tx, queue, key).await? {
            return Ok(Look::Over(over));
        }
        // Who marks a copy of it just now must not find the row gone and make another.
        if !store.is_alone(tx, queue, &of(queue, key)).await? {
            return Ok(Look::Locked(owner));
        }
    }
    let hash = inbox::kept_hash(store, tx, queue, key).await?;
    let row_stays_failed = was == "failed" && queue.kind == Kind::Table && queue.has_failed_value;
    if !row_stays_failed && store.execute(tx, Query::written(&*queue.cancel).key(key)).await? != 1 {
        return Ok(Look::Over(Cancelled::Unknown));
    }
    if queue.kind == Kind::Table && !row_stays_failed {
        let attempts = past.map_or(0, |(_, attempts)| attempts);
        parked::write_note(store, tx, queue, key, Note::cancelled(attempts)).await?;
    } else {
        parked::forget_past(store, tx, queue, key).await?;
    }
    if let Some(owner) = owner.filter(|owner| *owner != ProcessId::NOBODY) {
        groups::free(store, tx, queue, owner, group.into_iter().collect()).await?;
        note(store, tx, queue, key, owner, None).await?;
    }
    store.execute(tx, asked_of_all(store, "delete", (&queue.queue, &key.to_string()))).await?;
    groups::free_failed(store, tx, queue, &key.to_string()).await?;
    if let Some(hash) = hash {
        inbox::mark_done(store, tx, queue, key, hash).await?;
    }
    audit::write_by(store, tx, VERB, (&queue.queue, &key.to_string()), was, by).await?;
    Ok(Look::Taken)
}

/// State and attempts of a parked row, which nobody else changes now.
async fn past<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
) -> Result<Option<(String, u32)>> {
    let past = parked::locked_past(store, tx, queue, key, ("state, attempts", "")).await?;
    past.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

/// A message of an inbox without a mutex row: it is done, or runs, or has only been asked about.
async fn take_from_inbox<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    key: &Key,
    by: &By,
) -> Result<Look> {
    if let Some(over) = over_in_inbox(store, tx, queue, key).await? {
        return Ok(Look::Over(over));
    }
    if !store.is_free(tx, queue, &of(queue, key)).await? {
        return Ok(Look::Locked(None));
    }
    let id = (&*queue.queue, &*key.to_string());
    if store.fetch(tx, asked_of_all(store, "select 1", id)).await?.is_empty() {
        return Ok(Look::Over(Cancelled::Unknown));
    }
    // Somebody may have made a mutex row since; it is locked by now, and nobody's.
    let mark = format!("delete from {} where id = ?1 and queue = ?2 and owner is null", store.tables().mutex);
    store.execute(tx, Query::new(mark).bind(&*key.columns()[0]).bind(id.0)).await?;
    // It ran when it was asked about, and was rolled back. Whatever a copy of it says, it does not pass the inbox.
    inbox::mark_done(store, tx, queue, key, Vec::new()).await?;
    audit::write_by(store, tx, VERB, id, "claimed", by).await?;
    Ok(Look::Taken)
}

/// What everybody who serves the queue was asked about a message. Nobody is only told there: such a note is for an owner.
fn asked_of_all<S: SqlStore>(store: &S, what: &str, (queue, key): (&str, &str)) -> Query {
    let (table, column) = (&store.tables().cancel, S::Dialect::KEY);
    let asked = format!("{what} from {table} where process = ?1 and queue = ?2 and {column} = ?3");
    Query::new(asked).bind(ProcessId::NOBODY).bind(queue).exact(key)
}

/// Is it done already, or was it cancelled or discarded before? In the inbox both look the same.
async fn over_in_inbox<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
) -> Result<Option<Cancelled>> {
    let done = format!("select 1 from {} where id = ?1 and done_at is not null", store.tables().inbox);
    if store.fetch(tx, Query::new(done).exact(&key.columns()[0])).await?.is_empty() {
        return Ok(None);
    }
    let before = audit::has(store, tx, &[VERB, "discard"], (&queue.queue, &key.to_string())).await?;
    Ok(Some(if before { Cancelled::Already } else { Cancelled::Done }))
}

/// A delivery of a message of which only the id is known.
fn of(queue: &SqlQueue, key: &Key) -> Delivery {
    Delivery::unclaimed(Message::new(queue.queue.clone(), key.clone(), *b""))
}

/// There is no row: it was cancelled or discarded, or is done, or never was.
async fn over_without_row<S: SqlStore>(store: &S, tx: &mut S::Connection, queue: &SqlQueue, key: &Key) -> Result<Look> {
    let known = queue.kind != Kind::Table
        && audit::has(store, tx, &[VERB, "discard"], (&queue.queue, &key.to_string())).await?;
    Ok(Look::Over(if known { Cancelled::Already } else { Cancelled::Unknown }))
}

/// Asks the process that runs a message to drop it. Whose row is only locked, nobody knows: then everybody is asked who serves the queue.
async fn ask<S: SqlStore>(store: &S, queue: &SqlQueue, key: &Key, owner: Option<ProcessId>) -> Result<()> {
    let process = match owner.filter(|owner| *owner != ProcessId::NOBODY) {
        Some(owner) => owner,
        None if queue.kind == Kind::Mutex => ProcessId::NOBODY,
        // Somebody is about to claim it, or has it open by hand.
        None => return Ok(()),
    };
    let mut own = store.begin_own().await?;
    note(store, &mut own, queue, key, process, Some(store.acts_for())).await?;
    S::commit_own(own).await
}

/// Tells a process that a message is cancelled; or asks it, for this one.
async fn note<S: SqlStore>(
    store: &S,
    tx: &mut S::Connection,
    queue: &SqlQueue,
    key: &Key,
    process: ProcessId,
    asked: Option<&By>,
) -> Result<()> {
    let (table, column) = (&store.tables().cancel, S::Dialect::KEY);
    let key = key.to_string();
    let by = asked.cloned().unwrap_or_default();
    let columns = format!("process, queue, {column}, asked, by_user, by_host, reason");
    let note = S::Dialect::insert_new(table, &columns, "?1, ?2, ?3, ?4, ?5, ?6, ?7");
    let note = Query::new(note).bind(process).bind(&*queue.queue).exact(&*key).bind(asked.is_some());
    store.execute(tx, note.bind(by.user).bind(by.host).bind(by.reason)).await?;
    if asked.is_none() {
        let told = format!("update {table} set asked = ?4 where process = ?1 and queue = ?2 and {column} = ?3");
        store.execute(tx, Query::new(told).bind(process).bind(&*queue.queue).exact(key).bind(false)).await?;
    }
    Ok(())
}

/// Nothing is left to be asked about a message. Looks first: mostly nothing was.
async fn forget_asked<S: SqlStore>(store: &S, queue: &SqlQueue, key: &Key) -> Result<()> {
    let asked = format!("from {} where queue = ?1 and {} = ?2 and asked", store.tables().cancel, S::Dialect::KEY);
    let bound = |text: String| Query::new(text).bind(&*queue.queue).exact(key.to_string());
    if !store.look(bound(format!("select 1 {asked}"))).await?.is_empty() {
        store.write(bound(format!("delete {asked}"))).await?;
    }
    Ok(())
}

/// The messages that a process is told about or asked to drop, in the queues that it serves.
pub(crate) async fn told<S: SqlStore>(store: &S, process: ProcessId, queues: Vec<String>) -> Result<Vec<MessageId>> {
    let told = format!(
        "select queue, {} from {} where process = ?1 or (process = ?2 and queue in ?3)",
        S::Dialect::KEY,
        store.tables().cancel
    );
    let told = Query::new(told).bind(process).bind(ProcessId::NOBODY).bind(Bind::Texts(queues));
    let read = |row: &Row| Ok(MessageId { queue: row.get::<String>(0)?.into(), key: row.get::<String>(1)?.parse()? });
    store.look(told).await?.iter().map(read).collect()
}

/// A process is gone: nobody reads any more what it was to be told.
pub(crate) async fn forget_process<S: SqlStore>(store: &S, tx: &mut S::Connection, process: ProcessId) -> Result<()> {
    let forget = format!("delete from {} where process = ?1", store.tables().cancel);
    store.execute(tx, Query::new(forget).bind(process)).await?;
    Ok(())
}

/// Forgets what nobody came to see for a day. Looks first.
pub(crate) async fn prune<S: SqlStore>(store: &S) -> Result<()> {
    let old = format!("from {} where asked_at < {}", store.tables().cancel, S::Dialect::after('-', "?1"));
    if !store.look(Query::new(format!("select 1 {old} limit 1")).bind(FORGOTTEN_MS)).await?.is_empty() {
        store.write(Query::new(format!("delete {old}")).bind(FORGOTTEN_MS)).await?;
    }
    Ok(())
}
