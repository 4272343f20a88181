//! The heartbeat: the sign that this process is alive, and the poll that comes with it, for the flags of operators and for what others
//! may have left behind. Both are small statements on a connection that nothing else uses, under a limit: nothing that
//! grows with a table runs here or before it.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::Instrument;

use super::{Common, Pulse};
use crate::{
    Error, Store,
    error::Result,
    store::{self, ProcessId, Registration},
};

pub(super) struct Heartbeat<S: Store> {
    common: Common<S>,
    store: S,
    tell: watch::Sender<Pulse>,
    /// When it was last written, or tried.
    last: Instant,
    /// The last one failed: the next comes with the next tick.
    failed: bool,
    beats: u64,
}

impl<S: Store> Heartbeat<S> {
    pub(super) fn new(common: Common<S>, store: S, tell: watch::Sender<Pulse>) -> Self {
        let last = common.clock.now();
        Heartbeat { common, store, tell, last, failed: false, beats: 0 }
    }

    pub(super) async fn run(mut self) {
        let (tick, end, life) = (self.common.tick(), self.common.end.clone(), self.common.life.clone());
        loop {
            life.signs.heartbeat_moves();
            let mut doubted = false;
            tokio::select! {
                () = end.cancelled() => return,
                () = self.common.clock.sleep(tick) => {}
                () = life.expired.notified() => doubted = true,
            }
            tokio::select! {
                () = end.cancelled() => return,
                () = self.tick(doubted).instrument(life.span()) => {}
            }
        }
    }

    async fn tick(&mut self, doubted: bool) {
        let due = self.common.clock.now() - self.last >= self.common.settings.lease / 3;
        if doubted || self.failed || due {
            self.beat().await;
        }
        if !self.failed {
            self.poll().await;
        }
    }

    async fn beat(&mut self) {
        let Common { life, clock, steady, settings, .. } = self.common.clone();
        self.last = clock.now();
        let (store, id, running) = (self.store.clone(), life.id(), life.passes.list(self.last));
        match self.within(settings.lease / 2, store::heartbeat(&store, id, &running)).await {
            Ok(true) => {
                self.failed = false;
                self.beats += 1;
                steady.beat(clock.now());
                life.signs.beat();
                life.set_claiming(true);
            }
            Ok(false) => self.rebirth().await,
            Err(error) => {
                tracing::warn!(error = %error.in_full(), "heartbeat failed");
                self.failed = true;
                steady.doubt(clock.now());
                if steady.has_gap(clock.now()) {
                    life.set_claiming(false);
                }
            }
        }
    }

    async fn poll(&mut self) {
        let (store, by) = (self.store.clone(), self.common.life.registration());
        match self.within(self.common.settings.lease / 2, store::poll(&store, &by)).await {
            Ok(polled) => {
                self.store.wake_ups().fleet(polled.processes);
                self.common.life.see(&polled.flags);
                self.common.life.passes.see_cancelled(polled.cancelled.clone());
                self.tell.send_replace(Pulse { polled, beats: self.beats });
            }
            Err(error) => {
                tracing::warn!(error = %error.in_full(), "cannot poll for flags and dead processes");
                self.common.steady.doubt(self.common.clock.now());
            }
        }
    }

    /// What the database does not answer in time has failed. Its connection may be silent for ever: the next one is new.
    async fn within<T>(&mut self, limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = tokio::time::timeout(limit, work).await;
        done.unwrap_or_else(|_| {
            self.store = self.common.store.apart();
            Err(format!("the database did not answer within {limit:?}").into())
        })
    }

    /// This id counts as dead: free what it still has, and go on under a new one. Workers that are still busy find
    /// their claims gone and roll back.
    async fn rebirth(&mut self) {
        let Common { life, clock, steady, settings, .. } = self.common.clone();
        life.set_claiming(false);
        self.failed = true;
        let old = life.registration();
        let new = Registration { id: ProcessId::random(), ..old.clone() };
        let store = self.store.clone();
        let reborn = async {
            store::deregister(&store, old.id).await?;
            store::register(&store, &new).await
        };
        match self.within(settings.lease, reborn).await {
            Ok(()) => {
                tracing::warn!(old = %old.id, new = %new.id, "this process was considered dead; continuing under a new id");
                life.reborn(new.id);
                self.failed = false;
                self.last = clock.now();
                steady.restart(self.last);
                life.signs.beat();
                life.set_claiming(true);
                // What the old id had is free.
                for queue in new.queues.keys() {
                    self.store.wake_ups().tell(&self.store, queue).await;
                }
            }
            Err(error @ Error::Duplicate { .. }) => life.fail(error),
            Err(error) => {
                tracing::warn!(error = %error.in_full(), "this process is considered dead and cannot register again yet");
            }
        }
    }
}
