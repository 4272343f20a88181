//! When a process that drains has come to its end: nothing is unprocessed in any of its queues, whoever owns it. Readers ask when
//! they have nothing in hand; if it takes long, this says why. What foreign senders have sent has no rows here: of that the broker
//! knows, and its reader tells.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Clock, GuardBy, Result, Store, life::Life};

/// What a reader knows about the end of its draining.
#[derive(Default)]
pub(crate) struct Draining {
    /// Nothing could be claimed though something is unprocessed: when to say so.
    held_up: Option<Instant>,
}

impl Draining {
    /// Something was claimed.
    pub(crate) fn goes_on(&mut self) {
        self.held_up = None;
    }

    /// Is nothing unprocessed in the queues of this process? Of any pool, as its action may still send to ours.
    pub(crate) async fn is_over<S: Store>(
        &mut self,
        store: &S,
        life: &Life,
        clock: &dyn Clock,
        poll: Duration,
        lease: Duration,
    ) -> Result<bool> {
        // What one reader has found holds for all: others may have sent something since to a queue whose reader has ended.
        if life.is_drained() {
            return Ok(true);
        }
        let queues: Vec<Arc<str>> = life.registration().queues.into_keys().collect();
        // Brokers first: what comes from there leaves its traces in the database before it is gone there.
        let undrained = match filled(store, life, &queues).await? {
            None => store.undrained(&queues).await?,
            filled => filled,
        };
        match undrained {
            Some(queue) => self.tell(&queue, clock.now(), poll, lease),
            None => life.note_drained(),
        }
        Ok(life.is_drained())
    }

    /// Says why a drain does not come to its end, once it has waited for a poll interval, and then once per lease.
    fn tell(&mut self, queue: &str, now: Instant, poll: Duration, lease: Duration) {
        if now >= *self.held_up.get_or_insert(now + poll) {
            self.held_up = Some(now + lease);
            tracing::info!(
                queue,
                "not drained yet: what is left can not be claimed now; another process has it, it waits for a retry, a message \
                 before it in its group waits or has failed (see `ichido failed list --waiting`), or the broker has it"
            );
        }
    }
}

/// The first queue whose messages have no rows here, and whose broker has not said yet that it has no more.
async fn filled<S: Store>(store: &S, life: &Life, queues: &[Arc<str>]) -> Result<Option<Arc<str>>> {
    let at_brokers = store.broker_queues();
    for queue in queues.iter().filter(|queue| at_brokers.contains(queue)) {
        if store.guard(queue).await?.rules.by == GuardBy::Inbox && !life.is_emptied(queue) {
            return Ok(Some(queue.clone()));
        }
    }
    Ok(None)
}
