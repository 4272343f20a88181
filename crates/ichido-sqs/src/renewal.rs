//! The heartbeat of deliveries: what is in hand stays out of sight of others while its action runs, and not longer than SQS can hide a message. What
//! could not be renewed in time is not in hand any more: others may run it.

use std::{sync::Arc, time::Instant};

use crate::{
    publisher::BATCH,
    settling::{change_visibility, seconds},
    subscription::Shared,
};

/// Until it is dropped.
pub(crate) async fn run(shared: Arc<Shared>) {
    let visibility = shared.settings.visibility;
    loop {
        tokio::time::sleep(visibility / 6).await;
        let due = shared.in_hand().due(Instant::now(), visibility);
        for batch in due.chunks(BATCH) {
            renew(&shared, batch).await;
        }
        let expired = shared.in_hand().expired(Instant::now());
        for tag in expired {
            tracing::debug!(queue = shared.topology.queue, "a delivery was not renewed in time, or for twelve hours");
            lose(&shared, tag);
        }
    }
}

async fn renew(shared: &Arc<Shared>, batch: &[(u64, String, std::time::Duration)]) {
    // Before the call: SQS counts from some moment during it.
    let now = Instant::now();
    let receipts = batch.iter().map(|(_, receipt, hidden)| (receipt.as_str(), seconds(*hidden)));
    let failed = match change_visibility(&shared.server, &shared.topology.queue, receipts).await {
        Ok(failed) => failed,
        Err(error) => {
            tracing::warn!(%error, queue = shared.topology.queue, "visibility not renewed yet");
            return;
        }
    };
    for (at, (tag, _, hidden)) in batch.iter().enumerate() {
        match failed.iter().find(|failed| failed.id() == at.to_string()) {
            None => shared.in_hand().renewed(*tag, now, *hidden),
            Some(failed) if failed.sender_fault() => lose(shared, *tag),
            Some(_) => {}
        }
    }
}

/// Others have it, or will: those behind it in its group go back.
fn lose(shared: &Arc<Shared>, tag: u64) {
    let behind = shared.in_hand().comes_again(tag);
    shared.give_back(behind);
    shared.freed.notify_one();
    shared.changed.notify_waiters();
}
