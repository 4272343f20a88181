//! The chores of a process: its heartbeat, the flags of operators, rescue of what dead processes had, return of what is due. They run on an OS
//! thread with a runtime and a connection of their own, so that an action that blocks its thread does not look like a death.

use std::{sync::Arc, thread, time::Instant};

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    Error, Result, Store,
    observe::{MONITOR, progress::Progress},
    process::{Clock, life::Life, pool::Settings},
    store::{self, Polled, ProcessId, Registration},
};

/// The running chores; they end when this is stopped or dropped.
pub(crate) struct Upkeep {
    end: CancellationToken,
    ended: tokio::sync::oneshot::Receiver<()>,
}

impl Upkeep {
    /// Returns when the chores have their connection: workers must not take the last one that the server admits.
    pub(crate) async fn start<S: Store>(
        store: &S,
        life: Arc<Life>,
        clock: Arc<dyn Clock>,
        settings: &Settings,
    ) -> Result<Self> {
        let end = CancellationToken::new();
        let (ending, ended) = tokio::sync::oneshot::channel();
        let (ready, connected) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (store, settings, token) = (store.clone(), settings.clone(), end.clone());
        thread::Builder::new().name("ichido-upkeep".into()).spawn(move || {
            runtime.block_on(async move {
                let apart = store.apart();
                let _ = ready.send(store::ping(&apart).await);
                let now = clock.now();
                let progress = Progress::new(settings.progress, now, &life.journal);
                let chores = Chores {
                    store: apart,
                    life,
                    clock,
                    settings,
                    last_heartbeat: now,
                    last_success: now,
                    steady_since: now,
                    last_tidy: now,
                    progress,
                };
                chores.run(token, store).await;
            });
            let _ = ending.send(());
        })?;
        let upkeep = Upkeep { end, ended };
        connected.await.unwrap_or_else(|_| Err("the upkeep thread ended".into()))?;
        Ok(upkeep)
    }

    pub(crate) async fn stop(mut self) {
        self.end.cancel();
        let _ = (&mut self.ended).await;
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

struct Chores<S: Store> {
    store: S,
    life: Arc<Life>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    last_heartbeat: Instant,
    last_success: Instant,
    steady_since: Instant,
    last_tidy: Instant,
    progress: Progress,
}

impl<S: Store> Chores<S> {
    async fn run(mut self, end: CancellationToken, original: S) {
        let tick = self.settings.poll.min(self.settings.lease / 3).min(self.settings.check);
        let mut doubted = false;
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                () = self.clock.sleep(tick) => {}
                () = self.life.expired.notified() => doubted = true,
            }
            // A server that swallows packets must not silence us for ever: give up on the connection and take a new one.
            let (span, lease) = (self.life.span(), self.settings.lease);
            let chores = tokio::time::timeout(lease, self.tick(std::mem::take(&mut doubted)).instrument(span));
            tokio::select! {
                () = end.cancelled() => return,
                done = chores => if done.is_err() { self.store = original.apart() },
            }
        }
    }

    async fn tick(&mut self, doubted: bool) {
        let due = doubted || self.clock.now() - self.last_heartbeat >= self.settings.lease / 3;
        if due {
            self.heartbeat().await;
        }
        let by = self.life.registration();
        let polled = match store::poll(&self.store, &by).await {
            Ok(polled) => {
                self.life.see(&polled.flags);
                polled
            }
            Err(error) => {
                tracing::warn!(%error, "cannot poll for due work");
                // Others may have been cut off as well: they have time to come back before anybody declares them.
                self.steady_since = self.clock.now();
                Polled::default()
            }
        };
        if polled.due {
            self.return_due(&by).await;
        }
        if polled.unsent {
            by.relays.iter().for_each(|queue| self.store.wake_ups().wake(queue));
        }
        if due && polled.minute > 0 {
            self.note_stats(polled.minute);
        }
        if self.clock.now() - self.last_tidy >= self.settings.lease {
            self.last_tidy = self.clock.now();
            if let Err(error) = store::tidy(&self.store, &by).await {
                tracing::warn!(%error, "cannot clean up parked messages");
            }
            if let Err(error) = store::prune(&self.store, self.settings.retention).await {
                tracing::warn!(%error, "cannot prune expired records");
            }
        }
        if polled.dead && self.is_steady() {
            self.rescue(&by).await;
        }
        let now = self.clock.now();
        if self.progress.is_due(now) {
            self.progress.tell(&self.store, &by, &self.life.journal, now).await;
        }
    }

    /// In a task of its own: on SQLite it waits for its turn to write, and what operators ask must not wait with it.
    fn note_stats(&self, minute: i64) {
        let (store, life) = (self.store.clone(), self.life.clone());
        tokio::spawn(async move {
            let Ok(mut flush) = life.flush.try_lock() else { return };
            if let Err(error) = flush.run(&store, life.id(), minute, &life.meters).await {
                tracing::debug!(%error, "cannot yet store statistics");
            }
        });
    }

    async fn return_due(&self, by: &Registration) {
        match store::return_due(&self.store, by).await {
            Ok(0) => {}
            Ok(returned) => {
                tracing::debug!(returned, "parked messages returned");
                self.wake(by);
            }
            Err(error) => tracing::warn!(%error, "cannot return parked messages"),
        }
    }

    /// May this process declare others dead? Also now, at the end of chores in which it may have been asleep.
    fn is_steady(&self) -> bool {
        !self.has_gap() && self.clock.now() - self.steady_since >= self.store.rescue_after(self.settings.lease)
    }

    /// Is the last heartbeat so long ago that this process itself may count as dead soon?
    fn has_gap(&self) -> bool {
        self.clock.now() - self.last_success > self.settings.lease / 2
    }

    async fn heartbeat(&mut self) {
        self.last_heartbeat = self.clock.now();
        match store::heartbeat(&self.store, self.life.id(), &self.life.passes.list(self.clock.now())).await {
            Ok(true) => {
                if self.has_gap() {
                    self.steady_since = self.clock.now();
                }
                self.last_success = self.clock.now();
                self.life.set_claiming(true);
                self.tell_longest().await;
            }
            Ok(false) => self.rebirth().await,
            Err(error) => {
                tracing::warn!(%error, "heartbeat failed");
                self.steady_since = self.clock.now();
                if self.has_gap() {
                    self.life.set_claiming(false);
                }
            }
        }
    }

    async fn tell_longest(&self) {
        for (queue, time) in self.life.untold() {
            match store::note_longest(&self.store, &queue, time).await {
                Ok(()) => self.life.told(&queue, time),
                Err(error) => tracing::debug!(%error, "cannot store the longest run time"),
            }
        }
    }

    /// This id counts as dead: free what it still has, and go on under a new one. Workers that are still busy find
    /// their claims gone and roll back.
    async fn rebirth(&mut self) {
        self.life.set_claiming(false);
        let old = self.life.registration();
        let new = Registration { id: ProcessId::random(), ..old.clone() };
        let reborn = async {
            store::deregister(&self.store, old.id).await?;
            store::register(&self.store, &new).await
        };
        match reborn.await {
            Ok(()) => {
                tracing::warn!(old = %old.id, new = %new.id, "this process was considered dead; continuing under a new id");
                self.life.reborn(new.id);
                let now = self.clock.now();
                (self.last_heartbeat, self.last_success, self.steady_since) = (now, now, now);
                self.life.set_claiming(true);
            }
            Err(error @ Error::Duplicate { .. }) => self.life.displace(error),
            Err(error) => tracing::warn!(%error, "this process is considered dead and cannot register again yet"),
        }
    }

    /// There is something to claim again.
    fn wake(&self, by: &Registration) {
        by.queues.keys().for_each(|queue| self.store.wake_ups().wake(queue));
    }

    async fn rescue(&self, by: &Registration) {
        match store::rescue(&self.store, by).await {
            Ok(rescued) if rescued.messages + rescued.parked > 0 => {
                let (processes, messages, parked) = (rescued.processes, rescued.messages, rescued.parked);
                tracing::warn!(processes, messages, parked, "rescued the messages of dead processes");
                if parked > 0 {
                    tracing::error!(target: MONITOR, code = "died", parked, "messages failed for good: their processes died");
                }
                self.wake(by);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "cannot check for dead processes"),
        }
    }
}
