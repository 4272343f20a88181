//! Returns parked messages when they are due. Whoever has a queue's chore lease asks in each tick when the next one is, and wakes for it;
//! a wake-up may mean that one was parked that is due sooner, and is asked about soon, but not more often than a bucket allows. What this
//! process itself has parked for a moment it returns too, lease or not: two may do so at once. `chores` calls it.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::Common;
use crate::{
    Store,
    error::Result,
    process::rate::Rate,
    store::{self, MOST_KEYS, Registration},
};

/// How often wake-ups may make us ask: the first few at once, and then 20 times a second.
const ASKED: Rate = Rate::new(Duration::from_millis(50), 10);

/// Where very much is due, it is returned for a part of the time, and then nothing is for so many times as long, as long as there is enough to claim: who
/// returns takes the database from those who run what is returned, and is faster than they are.
const REST: u32 = 9;

/// So many claimable messages are enough: nobody runs out of them before the next look.
const ENOUGH: u64 = 4000;

/// How often somebody who rests looks whether there is still enough to claim.
const LOOK: Duration = Duration::from_millis(50);

/// A look that takes longer than this is not worth it.
const DEAR: Duration = Duration::from_millis(5);

/// What is due and could not be returned, because somebody has its row, is tried again after this.
const AGAIN: Duration = Duration::from_millis(5);

pub(super) struct Returns<S: Store> {
    common: Common<S>,
    /// Something was sent to, or returned to, a queue whose chores are ours.
    hint: Arc<Notify>,
    heeded: BTreeSet<Arc<str>>,
    /// When the next message is due, as far as is known.
    next: Option<Instant>,
    rate: Rate,
    /// There is more to return, and until then it can wait.
    rest: Option<Instant>,
}

impl<S: Store> Returns<S> {
    pub(super) fn new(common: Common<S>) -> Self {
        Returns { common, hint: Arc::default(), heeded: BTreeSet::new(), next: None, rate: ASKED, rest: None }
    }

    /// Until something may be due. Safe to drop: a hint that is lost then is made up for by the tick.
    pub(super) async fn due(&self) {
        let Common { clock, life, .. } = &self.common;
        loop {
            let at = self.next.into_iter().chain(life.dues.next()).min();
            let time = async {
                match at {
                    Some(at) => clock.sleep(at.saturating_duration_since(clock.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = time => return,
                () = life.dues.sooner.notified() => {}
                () = self.hint.notified() => {
                    let wait = self.rate.wait(clock.now());
                    if !wait.is_zero() {
                        clock.sleep(wait).await;
                    }
                    return;
                }
            }
        }
    }

    /// Returns what is due in these queues, and in all of ours if we have parked it; until nothing is, or the time is up.
    pub(super) async fn run(&mut self, store: &S, by: &Registration, held: Vec<Arc<str>>, until: Instant) {
        self.heed(store, &held);
        let own = self.common.life.dues.take(self.common.clock.now());
        let queues = if own { by.queues.keys().cloned().collect() } else { held };
        self.rate.take(self.common.clock.now());
        self.next = None;
        if queues.is_empty() {
            return;
        }
        if let Err(error) = self.return_all(store, by, &queues, until).await {
            tracing::warn!(error = %error.in_full(), "cannot return parked messages");
        }
    }

    /// Wake-ups for these queues are heeded; those of the others mean nothing any more.
    fn heed(&mut self, store: &S, held: &[Arc<str>]) {
        let held: BTreeSet<_> = held.iter().cloned().collect();
        if self.heeded != held {
            self.hint = Arc::default();
            for queue in &held {
                store.wake_ups().join_alone(queue, &self.hint);
            }
            self.heeded = held;
        }
    }

    async fn return_all(&mut self, store: &S, by: &Registration, queues: &[Arc<str>], until: Instant) -> Result<()> {
        let began = self.common.clock.now();
        loop {
            let waits = store::next_due(store, queues).await?;
            let now = self.common.clock.now();
            let later = waits.iter().flatten().filter(|wait| !wait.is_zero()).min();
            // The database has told whole milliseconds.
            self.next = later.map(|wait| now + *wait + Duration::from_millis(1));
            let due = queues.iter().zip(&waits).filter(|(_, wait)| wait.is_some_and(|wait| wait.is_zero()));
            let due: Vec<_> = due.map(|(queue, _)| queue).collect();
            if due.is_empty() || self.rests(store, &due).await? {
                return Ok(());
            }
            let mut more = false;
            for queue in due {
                more |= return_some(store, by, queue).await? > 0;
            }
            let now = self.common.clock.now();
            if !more {
                self.wake_after(now, AGAIN.max(self.rate.wait(now)));
                return Ok(());
            }
            if now >= until {
                self.rest = Some(now + (now - began) * REST);
                self.wake_after(now, AGAIN);
                return Ok(());
            }
        }
    }

    /// Can those who are to be returned wait, because there is enough to claim in their queues? Then somebody looks again soon.
    async fn rests(&mut self, store: &S, due: &[&Arc<str>]) -> Result<bool> {
        let now = self.common.clock.now();
        let Some(rest) = self.rest.filter(|rest| *rest > now) else { return Ok(false) };
        let mut look = LOOK;
        for queue in due {
            let began = self.common.clock.now();
            if store::backlog(store, queue, ENOUGH).await?.is_some_and(|ready| ready < ENOUGH) {
                self.rest = None;
                return Ok(false);
            }
            if self.common.clock.now() - began > DEAR {
                look = rest - now;
            }
        }
        self.wake_after(now, look.min(rest - now));
        Ok(true)
    }

    fn wake_after(&mut self, now: Instant, wait: Duration) {
        let at = now + wait.max(AGAIN);
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Returns up to [`MOST_KEYS`] messages of a queue, and tells those who wait for them; how many.
async fn return_some<S: Store>(store: &S, by: &Registration, queue: &Arc<str>) -> Result<u64> {
    let mut only = by.clone();
    only.queues.retain(|other, _| other == queue);
    let returned = store::return_due(store, &only).await?;
    if returned > 0 {
        tracing::debug!(returned, most = MOST_KEYS, %queue, "parked messages returned");
        store.wake_ups().tell(store, queue).await;
    }
    Ok(returned)
}
