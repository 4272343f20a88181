//! What dead processes leave behind: what may have begun becomes a suspect, the rest is released, and their records go when nothing is left of them. A dead
//! process whose queues nobody serves is left alone, without a write, until somebody does.

use std::collections::BTreeMap;

use ichido::{
    MessageId,
    error::Result,
    message::OnBusy,
    store::{ProcessId, Registration, Rescued},
};

use crate::{
    Dialect, LastHeartbeat, Liveness, Query, SqlRows,
    past::Note,
    verbs::{
        leases, outbox, parked,
        processes::{forget, forget_queue, owned, served},
        queues,
        suspects::{LastWords, Suspicion},
    },
};

/// A queue as a process has registered it: its name, and the place of its rows.
type Served = (String, String);

/// Frees what dead processes had claimed in the queues that this process serves, as suspects what may have begun.
///
/// # Errors
/// The database failed.
pub async fn rescue<S: SqlRows>(store: &S, by: &Registration) -> Result<Rescued> {
    let mut rescued = Rescued::default();
    for (process, served) in dead(store, by).await? {
        let ours = |queue: &S::Queue| by.queues.contains_key(&queue.queue);
        let known = known(store, &served).await?;
        if (served.is_empty() || known.into_iter().any(ours)) && !store.is_alive(process, false)? {
            rescue_process(store, process, by, &mut rescued).await?;
        }
    }
    Ok(rescued)
}

/// Deletes the records of dead processes that own nothing, though nobody serves their queues; how many. What owns something stays, and so
/// does what has served a queue that we do not know.
///
/// # Errors
/// The database failed.
pub async fn prune_dead<S: SqlRows>(store: &S, by: &Registration) -> Result<u64> {
    let mut pruned = Rescued::default();
    for (process, served) in dead(store, by).await? {
        let known = known(store, &served).await?;
        if known.len() < served.len() || store.is_alive(process, false)? {
            continue;
        }
        let mut owns = false;
        for queue in known {
            let any = Query::written(&*queue.owns_any).bind(process.to_string());
            owns = owns || !store.look(any).await?.is_empty();
        }
        if !owns {
            rescue_process(store, process, by, &mut pruned).await?;
        }
    }
    Ok(pruned.processes)
}

/// The processes that are dead by their rows, with the queues that they have served.
async fn dead<S: SqlRows>(store: &S, by: &Registration) -> Result<BTreeMap<ProcessId, Vec<Served>>> {
    let dead = format!(
        "select {}, q.queue, q.place from {} p left join {} q on q.process = p.id where not ({}) and p.id <> ?1",
        S::Dialect::id("p.id"),
        store.tables().process,
        store.tables().process_queue,
        S::Dialect::ALIVE
    );
    let mut found: BTreeMap<_, Vec<Served>> = BTreeMap::new();
    for row in store.look(Query::new(dead).bind(by.id)).await? {
        let queue: Option<String> = row.get(1)?;
        let queues = found.entry(row.get(0)?).or_default();
        if let Some(queue) = queue {
            queues.push((queue, row.get(2)?));
        }
    }
    Ok(found)
}

/// Those of these queues that we know as the same rows.
async fn known<'a, S: SqlRows>(store: &'a S, served: &[Served]) -> Result<Vec<&'a S::Queue>> {
    let is_served =
        |queue: &&S::Queue| served.iter().any(|(name, place)| *queue.queue == **name && queue.place == *place);
    Ok(store.queues().await?.iter().filter(is_served).collect())
}

/// Frees a dead process's rows, unless somebody else is at it.
async fn rescue_process<S: SqlRows>(
    store: &S,
    dead: ProcessId,
    by: &Registration,
    rescued: &mut Rescued,
) -> Result<()> {
    let mut own = store.begin_own().await?;
    let Some(words) = lock_dead(store, &mut own, dead).await? else {
        store.end_life(dead);
        return S::rollback_own(own).await;
    };
    for (queue, slots) in served(store, &mut own, dead).await? {
        match by.queues.get(&queue.queue) {
            Some(attempts) => {
                let suspicion = Suspicion::new(&words, slots);
                rescue_queue(store, &mut own, dead, queue, suspicion, *attempts, rescued).await?;
            }
            // How often its messages may run only those know who serve it.
            None => forget_queue(store, &mut own, queue, dead).await?,
        }
    }
    leases::release_chore_leases(store, &mut own, dead).await?;
    let gone = forget(store, &mut own, dead).await?;
    S::commit_own(own).await?;
    if gone {
        rescued.processes += 1;
        store.end_life(dead);
    }
    Ok(())
}

/// What the dead process has said, if it is still dead and nobody else is at it. From now on it cannot claim any more, not even with
/// a claim that waits for this lock: the row it then finds says that it is dead.
async fn lock_dead<S: Liveness>(store: &S, tx: &mut S::Connection, dead: ProcessId) -> Result<Option<LastWords>> {
    let lock = format!(
        "select p.running, {} from {} p where p.id = ?1 and not ({}) {}",
        S::Dialect::RUNS,
        store.tables().process,
        S::Dialect::ALIVE,
        S::Dialect::LOCK_FREE
    );
    let locked = store.fetch(tx, Query::new(lock).bind(dead)).await?;
    let Some(locked) = locked.first() else { return Ok(None) };
    store.stop_claims(tx, dead).await?;
    let heartbeat = store.last_heartbeat(dead, LastHeartbeat::read(locked, 1)?);
    Ok(Some(LastWords::new(locked.get(0)?, heartbeat.runs.as_deref())))
}

/// Rows that are still locked by a stopped process's transaction are left for another time.
async fn rescue_queue<S: SqlRows>(
    store: &S,
    tx: &mut S::Connection,
    dead: ProcessId,
    queue: &S::Queue,
    mut suspicion: Suspicion<'_>,
    most: u32,
    rescued: &mut Rescued,
) -> Result<()> {
    loop {
        let owned = owned(store, tx, queue, dead).await?;
        if owned.is_empty() {
            return forget_queue(store, tx, queue, dead).await;
        }
        let suspects = suspicion.of(store, tx, queue, &owned).await?;
        let mut freed = Vec::new();
        for owned in owned {
            if !suspects.contains(&owned.key) {
                freed.push(owned);
                continue;
            }
            let id = MessageId { queue: queue.queue.clone(), key: owned.key.clone() };
            let killed = suspicion.is_marked(&id);
            let attempts = parked::past_attempts(store, tx, queue, &owned.key).await?;
            if killed && attempts + 1 >= most {
                parked::park_killer(store, tx, queue, dead, &owned, attempts + 1).await?;
                rescued.parked += 1;
            } else {
                parked::write_note(store, tx, queue, &owned.key, Note::suspect(attempts, killed)).await?;
                freed.push(owned);
            }
        }
        queues::free(store, tx, queue, dead, &freed).await?;
        if queue.rules.as_ref().is_some_and(|rules| rules.on_busy == OnBusy::DeadLetter) {
            // Its copies may all be among the dead letters, as busy.
            let keys: Vec<_> = freed.iter().map(|owned| owned.key.clone()).collect();
            outbox::republish(store, tx, queue, &keys).await?;
        }
        rescued.messages += freed.len() as u64;
    }
}
