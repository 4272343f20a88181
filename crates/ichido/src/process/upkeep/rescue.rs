//! Rescue: what dead processes had goes back into circulation, as soon as the heartbeat's poll says that somebody is dead, whatever the
//! chores are at. Its connection is opened when it is needed, and closed when nobody is dead any more.

use tokio::sync::watch;
use tracing::Instrument;

use super::{Common, LONGEST, Pulse};
use crate::{
    Store,
    observe::MONITOR,
    store::{self, Registration},
};

pub(super) struct Rescue<S: Store> {
    common: Common<S>,
    told: watch::Receiver<Pulse>,
    store: Option<S>,
}

impl<S: Store> Rescue<S> {
    pub(super) fn new(common: Common<S>, told: watch::Receiver<Pulse>) -> Self {
        Rescue { common, told, store: None }
    }

    pub(super) async fn run(mut self) {
        let end = self.common.end.clone();
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                seen = self.told.changed() => if seen.is_err() { return },
            }
            if !self.told.borrow_and_update().polled.dead {
                self.store = None;
                continue;
            }
            let span = self.common.life.span();
            tokio::select! {
                () = end.cancelled() => return,
                () = self.rescue().instrument(span) => {}
            }
        }
    }

    async fn rescue(&mut self) {
        let Common { store, life, clock, steady, settings, .. } = &self.common;
        if !steady.is_steady(clock.now()) {
            return;
        }
        let (by, limit) = (life.registration(), settings.lease.max(LONGEST));
        let apart = self.store.get_or_insert_with(|| store.apart());
        if tokio::time::timeout(limit, rescue(apart, &by)).await.is_err() {
            tracing::warn!("rescue did not end within {limit:?}; trying again on a new connection");
            self.store = None;
        }
    }
}

async fn rescue<S: Store>(store: &S, by: &Registration) {
    match store::rescue(store, by).await {
        Ok(rescued) if rescued.messages + rescued.parked > 0 => {
            let (processes, messages, parked) = (rescued.processes, rescued.messages, rescued.parked);
            tracing::warn!(processes, messages, parked, "rescued the messages of dead processes");
            if parked > 0 {
                tracing::error!(target: MONITOR, code = "died", parked, "messages failed for good: their processes died");
            }
            for queue in by.queues.keys() {
                store.wake_ups().tell(store, queue).await;
            }
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(error = %error.in_full(), "cannot check for dead processes"),
    }
}
