//! Messages in queues, as far as all stores treat them alike: released, parked, returned, counted. How rows are written and claimed is the stores'.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ichido::{
    Delivery, Message, MessageId, NewMessage,
    error::Result,
    store::{Failure, ProcessId, Registration},
};

use crate::{
    Bind, Dialect, Owned, Past, Query, Sending, SqlQueue, SqlRows, SqlStore, drained,
    sent::refuse_messages,
    verbs::{groups, parked},
};

/// Sends messages, in the caller's transaction.
///
/// # Errors
/// A message cannot be one of the queue's, or the database failed.
pub async fn send<S: Sending>(
    store: &S,
    tx: &mut S::Connection,
    queue: &str,
    messages: &[NewMessage],
) -> Result<Vec<MessageId>> {
    let queue = store.queue(queue).await?;
    refuse_messages(queue, messages)?;
    let sent = store.insert(tx, queue, messages).await?;
    Ok(sent.into_iter().map(|sent| MessageId { queue: queue.queue.clone(), key: sent.key }).collect())
}

/// Gives claims back; nothing is counted.
///
/// # Errors
/// The database failed.
pub async fn release<S: SqlRows>(store: &S, deliveries: &[Delivery]) -> Result<()> {
    for ((queue, owner), freed) in crate::by_owner(deliveries) {
        let queue = store.queue(queue).await?;
        let mut own = store.begin_own().await?;
        free(store, &mut own, queue, owner, &freed).await?;
        S::commit_own(own).await?;
    }
    Ok(())
}

/// Frees these messages of an owner, and the groups that they hold.
pub(crate) async fn free<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    queue: &S::Queue,
    owner: ProcessId,
    freed: &[Owned],
) -> Result<()> {
    if freed.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = freed.iter().map(|owned| owned.key.clone()).collect();
    store.execute(tx, S::of_keys(queue, &queue.release, Some(owner), &keys, "")).await?;
    let held = freed.iter().filter_map(|owned| owned.group.clone()).collect();
    groups::free(store, tx, queue, owner, held).await
}

/// Records a failure and puts the message aside; false if the claim was gone.
///
/// # Errors
/// The database failed.
pub async fn park<S: SqlRows>(store: &S, delivery: &Delivery, failure: &Failure) -> Result<bool> {
    let mut own = store.begin_own().await?;
    let parked = parked::park_in(store, &mut own, delivery, failure).await?;
    if parked {
        S::commit_own(own).await?;
    } else {
        S::rollback_own(own).await?;
    }
    Ok(parked)
}

/// Returns parked messages whose time has come, some of each queue. Looks first: nothing is written where nothing is due.
///
/// # Errors
/// The database failed.
pub async fn return_due<S: SqlRows>(store: &S, by: &Registration) -> Result<u64> {
    let (parked, now) = (&store.tables().parked, S::Dialect::NOW);
    let due = |at: usize| {
        // The first along the index: where most of what waits is due, a planner that is asked whether any is reads the table, past all that
        // has been returned.
        let first =
            format!("select due_at from {parked} where queue = ?{at} and state = 'waiting' and due_at is not null");
        format!("coalesce(({first} order by due_at limit 1) <= {now}, false)")
    };
    let due: Vec<_> = (1..=by.queues.len()).map(due).collect();
    if due.is_empty() {
        return Ok(0);
    }
    let due = Query::new(format!("select {}", due.join(", ")));
    let due = store.look(by.queues.keys().fold(due, |due, queue| due.bind(&**queue))).await?;
    let Some(due) = due.first() else { return Ok(0) };
    let mut returned = 0;
    for (at, queue) in by.queues.keys().enumerate() {
        if due.get(at)? {
            returned += parked::return_due_of(store, store.queue(queue).await?).await?;
        }
    }
    Ok(returned)
}

/// How long it is until the next parked message of each of these queues is due: one statement, which reads a row of each along the index.
///
/// # Errors
/// The database failed.
pub async fn next_due<S: SqlStore>(store: &S, queues: &[Arc<str>]) -> Result<Vec<Option<Duration>>> {
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let (parked, age) = (&store.tables().parked, S::Dialect::age_ms("due_at"));
    let first = |at: usize| {
        format!(
            "(select {age} from {parked} where queue = ?{at} and state = 'waiting' and due_at is not null order by due_at limit 1)"
        )
    };
    let first: Vec<_> = (1..=queues.len()).map(first).collect();
    let first = Query::new(format!("select {}", first.join(", ")));
    let first = store.look(queues.iter().fold(first, |first, queue| first.bind(&**queue))).await?;
    let Some(first) = first.first() else { return Ok(vec![None; queues.len()]) };
    let until = |age: i64| Duration::from_millis(age.min(0).unsigned_abs());
    (0..queues.len()).map(|at| Ok(first.get::<Option<i64>>(at)?.map(until))).collect()
}

/// Forgets what is known about messages that are gone or were set to new by hand, some of a queue after this key.
///
/// # Errors
/// The database failed.
pub async fn tidy<S: SqlRows>(store: &S, queue: &str, after: &str) -> Result<Option<String>> {
    parked::tidy_some(store, store.queue(queue).await?, after).await
}

/// The first of these queues in which something is to be done. One statement: it sees all of them at the same moment.
///
/// # Errors
/// The database failed.
pub async fn undrained<S: SqlStore>(store: &S, queues: &[Arc<str>]) -> Result<Option<Arc<str>>> {
    let mut looks = Vec::with_capacity(queues.len());
    for queue in queues {
        looks.push(&*store.queue(queue).await?.drained);
    }
    if looks.is_empty() {
        return Ok(None);
    }
    let all = store.look(Query::written(format!("select {}", looks.join(", ")))).await?;
    let Some(all) = all.first() else { return Ok(None) };
    for (at, queue) in queues.iter().enumerate() {
        if !all.get::<bool>(at)? {
            return Ok(Some(queue.clone()));
        }
    }
    Ok(None)
}

/// In which of these queues there may be something to claim: one statement for all of them. Where a look at a whole queue is dear, its
/// claim begins where the last one ended, and finds out by itself.
///
/// # Errors
/// The database failed.
pub async fn claimable<S: SqlStore>(store: &S, queues: &[Arc<str>]) -> Result<Vec<bool>> {
    let (mut asked, mut looks, mut there) = (Vec::new(), Vec::new(), vec![true; queues.len()]);
    for (at, name) in queues.iter().enumerate() {
        let queue = store.queue(name).await?;
        if queue.bound.is_cheap() {
            asked.push(at);
            looks.push(&*queue.claimable);
        }
    }
    if looks.is_empty() {
        return Ok(there);
    }
    let found = store.look(Query::written(format!("select {}", looks.join(", ")))).await?;
    if let Some(found) = found.first() {
        for (column, at) in asked.into_iter().enumerate() {
            there[at] = found.get(column)?;
        }
    }
    Ok(there)
}

/// How many messages of a queue can be claimed now; no more than so many are counted.
///
/// # Errors
/// The database failed.
pub async fn backlog<S: SqlStore>(store: &S, queue: &str, most: u64) -> Result<u64> {
    let queue = store.queue(queue).await?;
    let counted = store.look(Query::written(drained::backlog(&queue.mapping, &queue.conditions, most))).await?;
    let Some(counted) = counted.first() else { return Ok(0) };
    let (alone, grouped): (u64, u64) = (counted.get(0)?, counted.get(1)?);
    Ok((alone + grouped).min(most))
}

/// What is known about these messages, by key; on a connection that is there, or on one of its own.
///
/// # Errors
/// The database failed.
pub async fn past<S: SqlStore>(
    store: &S,
    connection: Option<&mut S::Connection>,
    queue: &SqlQueue,
    messages: &[Message],
) -> Result<BTreeMap<String, Past>> {
    if messages.is_empty() {
        return Ok(BTreeMap::new());
    }
    let keys = messages.iter().map(|message| message.key.to_string()).collect();
    let (parked, column) = (&store.tables().parked, S::Dialect::KEY);
    let known = format!("select {column}, attempts, suspect, state from {parked} where queue = ?1 and {column} in ?2");
    let known = Query::new(known).bind(&*queue.queue).bind(Bind::Exacts(keys));
    let known = match connection {
        Some(connection) => store.fetch(connection, known).await?,
        None => store.look(known).await?,
    };
    known.iter().map(|row| Ok((row.get(0)?, Past::new(&row.get::<String>(3)?, row.get(1)?, row.get(2)?)))).collect()
}

/// After an unknown COMMIT: is the message still unprocessed and ours? Waits for the row: a COMMIT that is being applied holds it.
///
/// # Errors
/// The database failed.
pub async fn is_claimed<S: SqlRows>(store: &S, delivery: &Delivery) -> Result<bool> {
    let Some(claim) = &delivery.claim else { return Ok(false) };
    let queue = store.queue(&delivery.message.queue).await?;
    if queue.has_inbox() {
        return store.is_missing(&delivery.message.key).await;
    }
    let mut own = store.begin_own().await?;
    let probe = SqlQueue::of_owner(&queue.is_claimed, Some(claim.owner), &delivery.message.key);
    let there = !store.fetch(&mut own, probe).await?.is_empty();
    S::rollback_own(own).await?;
    Ok(there)
}
