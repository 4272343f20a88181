//! Notices that a broker has lost messages, by counting: when more of them should be with the broker than are there, in two looks
//! one after the other, that many are published again. The relay asks it now and then. It may be wrong, which costs a duplicate.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Key, Store,
    broker::DynBroker,
    error::Result,
    process::Clock,
    store::{self, ProcessId},
};

/// More messages are not looked at together.
const MOST: usize = 5000;

/// Where nobody can tell what is out and not acknowledged, a message is taken for lost only after so long.
const UNSEEN: Duration = Duration::from_mins(10);

/// How full a broker's queue is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depths {
    /// Messages ready to be delivered.
    pub ready: u64,
    /// Messages delivered and not settled; none if unknown.
    pub unacknowledged: Option<u64>,
    /// Messages in the busy queue.
    pub busy: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long ago this may have been so at most: of what was published since, it knows nothing.
    pub stale: Duration,
}

/// What should be with a broker, according to the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Circulating {
    /// The keys of messages that were published so long ago, are neither parked nor marked as a process's own, and so should be
    /// with the broker; the oldest first.
    pub old: Vec<Key>,
    /// How many have failed for good, and have a dead letter each. Not counted if nothing circulates.
    pub failed: u64,
}

/// What is known about the messages of one queue.
pub(crate) struct Reconciler {
    looked: Instant,
    /// So many were missing at the last look.
    missing: usize,
    /// How old the counts may be; two looks at the same counts are one.
    stale: Duration,
}

impl Reconciler {
    pub(crate) fn new(now: Instant) -> Self {
        Reconciler { looked: now, missing: 0, stale: Duration::ZERO }
    }

    /// Looks, if it is time to and we have the lease; how many messages are published again.
    pub(crate) async fn look<S: Store>(
        &mut self,
        store: &S,
        (queue, broker): (&Arc<str>, &dyn DynBroker),
        relay: ProcessId,
        clock: &dyn Clock,
    ) -> Result<Option<u64>> {
        let interval = store::guard(store, queue).await?.rules.relay_after.saturating_mul(2).max(self.stale);
        if clock.now() - self.looked < interval {
            return Ok(None);
        }
        self.looked = clock.now();
        // Where nothing circulates nothing is missing, and nobody needs the lease, which is written.
        if !store::any_circulating(store, queue).await? {
            self.missing = 0;
            return Ok(None);
        }
        // Whoever has the relay lease looks. What we saw when we had it stays: with several relays, it is nobody's twice in a row.
        if !store::take_relay_lease(store, relay, queue).await? {
            return Ok(None);
        }
        let circulating = store::circulating(store, queue, interval, MOST).await?;
        if circulating.old.is_empty() {
            self.missing = 0;
            return Ok(Some(0));
        }
        let depths = match broker.depths().await {
            Ok(depths) => depths,
            Err(why) => {
                tracing::debug!(%queue, why, "cannot tell whether messages are missing");
                return Ok(Some(0));
            }
        };
        let circulating = if depths.stale > interval {
            store::circulating(store, queue, depths.stale, MOST).await?
        } else {
            circulating
        };
        self.stale = depths.stale;
        let (lost, candidates) = missing(store, queue, depths, circulating).await?;
        let again = std::mem::replace(&mut self.missing, lost).min(lost);
        if again == 0 {
            return Ok(Some(0));
        }
        let published = store::publish_again(store, queue, &candidates, again).await?;
        if published > 0 {
            self.missing = 0;
            tracing::warn!(%queue, published, "the broker lost messages; publishing them again");
        }
        Ok(Some(published))
    }
}

/// How many are missing, and which those may be, the oldest first. What was published lately is among what is there, and not among
/// what should be: so fewer may be missing than are, until the queue is shorter.
async fn missing<S: Store>(
    store: &S,
    queue: &str,
    depths: Depths,
    circulating: Circulating,
) -> Result<(usize, Vec<Key>)> {
    let Depths { ready, unacknowledged, busy, dead, .. } = depths;
    let Some(out) = unacknowledged else {
        let unseen =
            if ready + busy > 0 { Vec::new() } else { store::circulating(store, queue, UNSEEN, MOST).await?.old };
        return Ok((unseen.len(), unseen));
    };
    let Circulating { old, failed } = circulating;
    // The dead letter of what has failed is no copy of what circulates.
    let there = usize::try_from(ready + out + busy + dead.saturating_sub(failed)).unwrap_or(usize::MAX);
    Ok((old.len().saturating_sub(there), old))
}
