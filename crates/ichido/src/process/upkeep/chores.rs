//! Chores: what must be done now and then, and may take its time. What grows with a table is done for each queue by the one process that
//! has its chore lease: returning what is due, counting what waits, tidying, pruning. It is done some rows at a time, for a part of each tick, and goes on where
//! it stopped, even in another process. The rest is this process's own: what it has counted, and its progress.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use tracing::Instrument;

use super::{Common, LONGEST, Pulse, returns::Returns};
use crate::{
    Store,
    observe::progress::Progress,
    store::{self, ProcessId, Registration, WHOLE_DATABASE},
};

/// What waits in a queue is counted for monitors no more often than this, however often they ask.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Chores<S: Store> {
    common: Common<S>,
    store: S,
    returns: Returns<S>,
    told: watch::Receiver<Pulse>,
    /// The id under which the leases are held.
    process: ProcessId,
    held: BTreeMap<Arc<str>, Held>,
    /// It has just begun: what it held before a panic is still its own.
    begins: bool,
    /// How often it was tidied: which queue comes first the next time.
    rounds: usize,
    pruned: Instant,
    /// There was more to prune than there was time for.
    unpruned: bool,
    beats: u64,
    progress: Progress,
}

/// The chores of a queue that are ours.
struct Held {
    /// When the lease was last taken or kept.
    kept: Instant,
    /// How far it is tidied.
    tidied: String,
    /// When it is tidied next.
    next: Instant,
    /// When it is counted next.
    count: Instant,
}

impl<S: Store> Chores<S> {
    pub(super) fn new(common: Common<S>, store: S, told: watch::Receiver<Pulse>) -> Self {
        let (now, process) = (common.clock.now(), common.life.id());
        let progress = Progress::new(common.settings.progress, now, &common.life.journal);
        let (held, returns) = (BTreeMap::new(), Returns::new(common.clone()));
        Chores {
            common,
            store,
            returns,
            told,
            process,
            held,
            begins: true,
            rounds: 0,
            pruned: now,
            unpruned: false,
            beats: 0,
            progress,
        }
    }

    pub(super) async fn run(mut self) {
        let (end, limit) = (self.common.end.clone(), self.common.settings.lease.max(LONGEST));
        loop {
            let pulse = tokio::select! {
                () = end.cancelled() => return,
                seen = self.told.changed() => {
                    if seen.is_err() { return }
                    Some(self.told.borrow_and_update().clone())
                }
                () = self.returns.due() => None,
            };
            let span = self.common.life.span();
            let done = tokio::select! {
                () = end.cancelled() => return,
                done = tokio::time::timeout(limit, self.turn(pulse).instrument(span)) => done,
            };
            if done.is_err() {
                tracing::warn!("chores did not end within {limit:?}; going on with a new connection");
                self.store = self.common.store.apart();
            }
        }
    }

    /// What is to be done after a poll; without one, only what is due now.
    async fn turn(&mut self, pulse: Option<Pulse>) {
        let by = self.common.life.registration();
        let Some(pulse) = pulse else { return self.return_due(&by).await };
        let free = pulse.polled.free || std::mem::take(&mut self.begins);
        self.hold(&by, free).await;
        self.return_due(&by).await;
        let until = self.common.clock.now() + self.common.tick() / 2;
        self.wake_relays(&by).await;
        if pulse.beats != self.beats {
            self.beats = pulse.beats;
            self.tell_longest().await;
            self.note_stats(pulse.polled.minute).await;
        }
        self.tidy(until).await;
        self.prune(&by, until).await;
        self.count().await;
        let now = self.common.clock.now();
        if self.progress.is_due(now) {
            self.progress.tell(&self.store, &by, &self.common.life.journal, now).await;
        }
    }

    /// Keeps the leases that are ours, and takes those that are nobody's.
    async fn hold(&mut self, by: &Registration, free: bool) {
        if by.id != self.process {
            self.held.clear();
            self.process = by.id;
        }
        let is_ours = |queue: &str| queue == WHOLE_DATABASE || by.queues.contains_key(queue);
        for queue in self.held.keys().filter(|queue| !is_ours(queue)).cloned().collect::<Vec<_>>() {
            self.held.remove(&queue);
            if let Err(error) = store::release_chore_lease(&self.store, self.process, &queue).await {
                tracing::debug!(error = %error.in_full(), %queue, "chore lease not released; it will expire");
            }
        }
        self.keep().await;
        if free {
            let all = by.queues.keys().cloned().chain([WHOLE_DATABASE.into()]);
            for queue in all.filter(|queue| !self.held.contains_key(queue)).collect::<Vec<_>>() {
                self.take(queue).await;
            }
        }
    }

    async fn take(&mut self, queue: Arc<str>) {
        let lease = self.common.settings.lease;
        let now = self.common.clock.now();
        match store::take_chore_lease(&self.store, self.process, &queue, lease).await {
            Ok(Some(tidied)) => {
                tracing::debug!(%queue, "this process does the chores");
                let next = if tidied.is_empty() { now + lease } else { now };
                self.held.insert(queue, Held { kept: now, tidied, next, count: now });
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(error = %error.in_full(), %queue, "cannot take the chore lease"),
        }
    }

    async fn keep(&mut self) {
        let (lease, clock) = (self.common.settings.lease, self.common.clock.clone());
        let mut lost = Vec::new();
        for (queue, held) in &mut self.held {
            let now = clock.now();
            if now - held.kept < lease / 3 {
                continue;
            }
            match store::keep_chore_lease(&self.store, self.process, queue, lease, &held.tidied).await {
                Ok(true) => held.kept = now,
                Ok(false) => lost.push(queue.clone()),
                Err(error) => tracing::warn!(error = %error.in_full(), %queue, "cannot keep the chore lease"),
            }
        }
        self.held.retain(|queue, _| !lost.contains(queue));
    }

    /// In every turn, and first: who waits for a retry does not wait for other chores.
    async fn return_due(&mut self, by: &Registration) {
        let until = self.common.clock.now() + self.common.tick() / 4;
        let held = self.held.keys().filter(|queue| by.queues.contains_key(*queue)).cloned().collect();
        self.returns.run(&self.store, by, held, until).await;
    }

    async fn wake_relays(&self, by: &Registration) {
        if by.relays.is_empty() {
            return;
        }
        match store::any_unsent(&self.store, &by.relays).await {
            Ok(true) => by.relays.iter().for_each(|queue| self.store.wake_ups().wake(queue)),
            Ok(false) => {}
            Err(error) => tracing::warn!(error = %error.in_full(), "cannot look for messages to publish"),
        }
    }

    async fn tell_longest(&self) {
        let life = &self.common.life;
        for (queue, time) in life.untold() {
            match store::note_longest(&self.store, &queue, time).await {
                Ok(()) => life.told(&queue, time),
                Err(error) => tracing::debug!(error = %error.in_full(), "cannot store the longest run time"),
            }
        }
    }

    async fn note_stats(&self, minute: i64) {
        let life = &self.common.life;
        let Ok(mut flush) = life.flush.try_lock() else { return };
        if minute > 0
            && let Err(error) = flush.run(&self.store, life.id(), minute, &life.meters).await
        {
            tracing::debug!(error = %error.in_full(), "cannot yet store statistics");
        }
    }

    /// Some rows of each queue in turn, until the time is up.
    async fn tidy(&mut self, until: Instant) {
        let now = self.common.clock.now();
        let due = self.held.iter().filter(|(queue, held)| &***queue != WHOLE_DATABASE && held.next <= now);
        let mut due: Vec<_> = due.map(|(queue, _)| queue.clone()).collect();
        self.rounds = self.rounds.wrapping_add(1);
        let first = self.rounds.checked_rem(due.len()).unwrap_or_default();
        due.rotate_left(first);
        while !due.is_empty() {
            let mut more = Vec::new();
            for queue in due {
                if self.tidy_some(&queue).await {
                    more.push(queue);
                }
                if self.common.clock.now() >= until {
                    return;
                }
            }
            due = more;
        }
    }

    /// Is there more of it?
    async fn tidy_some(&mut self, queue: &Arc<str>) -> bool {
        let Some(held) = self.held.get_mut(queue) else { return false };
        match store::tidy(&self.store, queue, &held.tidied).await {
            Ok(Some(after)) => {
                held.tidied = after;
                return true;
            }
            Ok(None) => held.tidied.clear(),
            Err(error) => tracing::warn!(error = %error.in_full(), %queue, "cannot clean up parked messages"),
        }
        held.next = self.common.clock.now() + self.common.settings.lease;
        false
    }

    /// What waits in the queues whose chores are ours; of others their own process knows it.
    async fn count(&mut self) {
        let Common { life, clock, .. } = &self.common;
        life.backlogs.keep(|queue| self.held.contains_key(queue));
        for (queue, held) in self.held.iter_mut().filter(|(queue, _)| &***queue != WHOLE_DATABASE) {
            if held.count > clock.now() {
                continue;
            }
            held.count = clock.now() + COUNTED_EVERY;
            match store::count(&self.store, queue).await {
                Ok(backlog) => life.backlogs.note(queue, backlog, Instant::now()),
                Err(error) => tracing::debug!(error = %error.in_full(), %queue, "cannot count what waits"),
            }
        }
    }

    /// Once per lease; while there is more, in each tick, and for its part of it: what expires must go as fast as it came.
    async fn prune(&mut self, by: &Registration, until: Instant) {
        let Common { clock, settings, steady, .. } = &self.common;
        let rest = if std::mem::take(&mut self.unpruned) { Duration::ZERO } else { settings.lease };
        if !self.held.contains_key(WHOLE_DATABASE) || clock.now() - self.pruned < rest {
            return;
        }
        loop {
            match store::prune(&self.store, settings.retention).await {
                Ok(true) if clock.now() >= until => self.unpruned = true,
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::warn!(error = %error.in_full(), "cannot prune expired records"),
            }
            break;
        }
        self.pruned = clock.now();
        if !steady.is_steady(clock.now()) {
            return;
        }
        match store::prune_dead(&self.store, by).await {
            Ok(0) => {}
            Ok(processes) => tracing::debug!(processes, "dead processes that had nothing are forgotten"),
            Err(error) => tracing::warn!(error = %error.in_full(), "cannot check for dead processes"),
        }
    }
}
