//! When a process that drains has come to its end: nothing is unprocessed in any of its queues, whoever owns it. Readers ask when
//! they have nothing in hand; what is due by then is returned here, and run: a host that only drains, now and then, may have nobody
//! else who does it. If it takes long, this says why. What foreign senders have sent has no rows here: of that the broker
//! knows, and its reader tells.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Store,
    error::Result,
    message::GuardBy,
    process::{Clock, life::Life},
    store,
};

/// What a reader knows about the end of its draining.
#[derive(Default)]
pub(crate) struct Draining {
    /// Since when nothing could be claimed though something is unprocessed.
    held_up: Option<Instant>,
    /// When that was last said.
    told: Option<Instant>,
}

impl Draining {
    /// Something was claimed, or is in hand.
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
        let registration = life.registration();
        match store::return_due(store, &registration).await {
            Ok(0) => {}
            Ok(_) => registration.queues.keys().for_each(|queue| store.wake_ups().wake(queue)),
            // It counts as unprocessed, and is looked for again.
            Err(error) if error.is_fault::<S>() => {
                tracing::warn!(error = %error.in_full(), "cannot return parked messages");
            }
            Err(error) => return Err(error),
        }
        let queues: Vec<Arc<str>> = registration.queues.into_keys().collect();
        match undrained(store, life, &queues, clock).await? {
            Some(queue) => self.tell(&queue, clock.now(), poll, lease),
            None => life.note_drained(),
        }
        Ok(life.is_drained())
    }

    /// Says why a drain does not come to its end.
    fn tell(&mut self, queue: &str, now: Instant, poll: Duration, lease: Duration) {
        if self.is_time_to_tell(now, poll, lease) {
            tracing::info!(
                queue,
                "not drained yet: the messages left cannot be claimed now; another process has them, they wait for a \
                 retry, an earlier message of their group waits or has failed (see `ichido failed list --waiting`), \
                 or the broker has them"
            );
        }
    }

    /// Once it has been held up for a poll interval, and at most once per lease.
    fn is_time_to_tell(&mut self, now: Instant, poll: Duration, lease: Duration) -> bool {
        let held_up = now - *self.held_up.get_or_insert(now) >= poll;
        let tells = held_up && self.told.is_none_or(|told| now - told >= lease);
        if tells {
            self.told = Some(now);
        }
        tells
    }
}

/// The first queue with something unprocessed. A message may be on its way from the database to a broker, or from there to the
/// database, where it leaves its traces before it is gone at the broker: so the database is looked at before and after.
async fn undrained<S: Store>(
    store: &S,
    life: &Life,
    queues: &[Arc<str>],
    clock: &dyn Clock,
) -> Result<Option<Arc<str>>> {
    let inboxes = inboxes(store, queues).await?;
    let mut left = store::undrained(store, queues).await?;
    if left.is_none() && !inboxes.is_empty() {
        if let Some(filled) = inboxes.iter().find(|queue| !life.is_emptied(queue)) {
            return Ok(Some(filled.clone()));
        }
        left = store::undrained(store, queues).await?;
    }
    if left.is_some() {
        life.note_undrained(clock.now());
    }
    Ok(left)
}

/// The queues whose messages have no rows here before they run: only their brokers know whether there are any.
async fn inboxes<S: Store>(store: &S, queues: &[Arc<str>]) -> Result<Vec<Arc<str>>> {
    let (at_brokers, mut inboxes) = (store.broker_queues(), Vec::new());
    for queue in queues.iter().filter(|queue| at_brokers.contains(queue)) {
        if store::guard(store, queue).await?.rules.by == GuardBy::Inbox {
            inboxes.push(queue.clone());
        }
    }
    Ok(inboxes)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Draining;

    #[test]
    fn held_up_is_told_after_a_poll_and_once_per_lease() {
        let (start, mut draining) = (Instant::now(), Draining::default());
        let tells = |draining: &mut Draining, second| {
            draining.is_time_to_tell(
                start + Duration::from_secs(second),
                Duration::from_secs(1),
                Duration::from_secs(30),
            )
        };
        assert!(!tells(&mut draining, 0), "it may only be the moment");
        assert!(tells(&mut draining, 1));
        assert!(!tells(&mut draining, 5));
        draining.goes_on();
        assert!(!tells(&mut draining, 40), "work went on until now");
        assert!(tells(&mut draining, 41));
        draining.goes_on();
        assert!(!tells(&mut draining, 50));
        assert!(!tells(&mut draining, 60), "held up again, but it was just said");
        assert!(tells(&mut draining, 71));
    }
}
