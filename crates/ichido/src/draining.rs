//! When a process that drains has come to its end: nothing is unprocessed in any of its queues, whoever owns it. Readers ask when
//! they have nothing in hand; if it takes long, this says why.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Clock, Result, Store, life::Life};

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
        match store.undrained(&queues).await? {
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
                "not drained yet: what is left can not be claimed now; another process has it, it waits for a retry, or a message \
                 before it in its group waits or has failed (see `ichido failed list --waiting`)"
            );
        }
    }
}
