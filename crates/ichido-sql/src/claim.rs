//! How a claim is put together, whatever the dialect: messages without a group from the lower bound on, and from the
//! beginning if that was too little; the first messages of groups; and neither kind waits for the other.

use ichido::{Delivery, error::Result, store::ProcessId};

use crate::{Claiming, Grouping, Start};

/// Claims up to so many messages of a queue for a process.
///
/// # Errors
/// What the store said.
pub async fn claim<S: Claiming + Grouping>(
    store: &S,
    process: ProcessId,
    queue: &S::Queue,
    count: usize,
) -> Result<Vec<Delivery>> {
    let Some(groups) = &queue.grouped else { return Ok(ungrouped(store, process, queue, count).await?.0) };
    if groups.all {
        return store.claim_heads(process, queue, count).await;
    }
    let share = groups.heads.share_of_ungrouped(count);
    let (mut found, there) = ungrouped(store, process, queue, share).await?;
    let filled = found.len() >= share;
    groups.heads.note(there);
    if there && found.len() < count {
        found.extend(store.claim_heads(process, queue, count - found.len()).await?);
    }
    if filled && share < count && found.len() < count {
        found.extend(ungrouped(store, process, queue, count - found.len()).await?.0);
    }
    Ok(found)
}

async fn ungrouped<S: Claiming>(
    store: &S,
    process: ProcessId,
    queue: &S::Queue,
    count: usize,
) -> Result<(Vec<Delivery>, bool)> {
    let start = queue.bound.start();
    let (mut found, there) = store.claim_rows(process, queue, count, &start).await?;
    if found.len() < count && start != Start::First && queue.bound.look_at_whole() {
        found.extend(store.claim_rows(process, queue, count - found.len(), &Start::First).await?.0);
    }
    Ok((found, there))
}
