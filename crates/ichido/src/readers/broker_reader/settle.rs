//! What becomes of a delivery at the broker, by what became of its message in the database. Everything here happens after
//! the database knows: if it is lost, the broker hands the message out again, and the row tells what to do then.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::task::JoinSet;
use tracing::Instrument;

use super::{Held, Receiving, Shared};
use crate::{
    Delivery, Store,
    action::slot::run_to_completion,
    broker::{ANOTHER_BODY, Found, RowName, Settlement},
    error::Result,
    message::{GuardBy, Mark, OnBusy},
    process::tasks::boxed,
    store,
};

/// How long a settlement that cannot be made waits until it is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a reader that closes waits for the broker to hear of what is settled.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

impl<S: Store> Shared<S> {
    /// Takes a delivery back from a worker.
    pub(super) async fn settle_marked(self: &Arc<Self>, mut delivery: Delivery) -> Result<()> {
        let mark = delivery.mark.take();
        drop(delivery.alone.take());
        let freed = match mark {
            // Only if the row is still ours: what is being committed just now is waited for, and then gone.
            None | Some(Mark::Unknown | Mark::Cancelled) => self.free(vec![delivery.copy()]).await,
            _ => Ok(()),
        };
        let mut admissions = self.admissions();
        admissions.in_flight = admissions.in_flight.saturating_sub(1);
        if mark == Some(Mark::Faulted) {
            admissions.buffer.put(delivery);
            drop(admissions);
            self.wake.notify_one();
            self.receiving.changed.notify_one();
            return Ok(());
        }
        let held = admissions.admitted.remove(&delivery.message.key);
        let last = admissions.is_idle();
        drop(admissions);
        if let Some(held) = held {
            self.settle_held(held, mark, delivery);
        }
        // The admitting task has something to do if this was the last one, or is to be claimed. Not for every message.
        if last || matches!(mark, Some(Mark::Guarded(_))) {
            self.wake.notify_one();
        }
        freed
    }

    fn settle_held(self: &Arc<Self>, held: Held, mark: Option<Mark>, delivery: Delivery) {
        match (mark, delivery.failure) {
            (Some(Mark::Parked), Some(failure)) if failure.retry_after.is_none() => {
                self.dead_letter(held, failure.error);
            }
            // What is parked for a while is published again when its time has come.
            (Some(Mark::Parked), failure) => {
                self.send(held, Settlement::Later(failure.and_then(|failure| failure.retry_after)));
            }
            (Some(Mark::Done), _) => self.send(held, Settlement::Ack),
            // With an inbox it comes once more: whoever marked its row while it was being cancelled has left that behind.
            (Some(Mark::Cancelled), _) if self.receiving.guard.rules.by == GuardBy::Mutex => {
                self.send(held, Settlement::Ack);
            }
            (Some(Mark::Guarded(found)), _) => self.turn_away(held, found),
            _ => self.send(held, Settlement::Release),
        }
    }

    /// Its row is not to be had.
    pub(super) fn turn_away(self: &Arc<Self>, held: Held, found: Found) {
        let Receiving { guard, queue, .. } = &self.receiving;
        let (inbox, own) = (guard.rules.by == GuardBy::Inbox, guard.is_own(queue, &held.received));
        let settlement = match found {
            // A process died with it: it is marked as our own before it runs.
            Found::Free(_) => {
                self.admissions().unclaimed.push(held);
                return;
            }
            Found::Busy => {
                self.meter().found_busy();
                match guard.rules.on_busy {
                    OnBusy::Delay => Settlement::Busy,
                    OnBusy::DeadLetter => Settlement::DeadLetter("busy".into()),
                }
            }
            // It is done, if it was one of ours; an inbox knows by itself.
            Found::Nothing if inbox || own => self.duplicate(),
            Found::Nothing => Settlement::DeadLetter("no mutex row".into()),
            Found::Another => {
                tracing::warn!(%queue, id = %held.message.key, "not run: its body is not the one that was sent with this id");
                Settlement::DeadLetter(ANOTHER_BODY.into())
            }
            Found::Waiting => {
                self.meter().duplicate();
                Settlement::Later(None)
            }
            // In an inbox it may be another message with the same id: only who runs it can tell.
            Found::Failed if inbox && !own => Settlement::DeadLetter("failed".into()),
            Found::Failed => return self.dead_letter(held, "failed".to_owned()),
        };
        tracing::debug!(%queue, id = %held.message.key, ?found, ?settlement, "not run");
        self.send(held, settlement);
    }

    /// It has failed for good, and its row says so.
    fn dead_letter(self: &Arc<Self>, held: Held, reason: String) {
        let (origin, queue) = (self.receiving.guard.origin.clone(), self.receiving.queue.clone());
        let row = RowName { origin, queue, id: held.message.key.columns()[0].clone() };
        self.send(held, Settlement::Failed { reason, row });
    }

    /// It is done: this copy is of no use.
    fn duplicate(&self) -> Settlement {
        self.meter().duplicate();
        Settlement::Ack
    }

    /// Settles at the broker, in a task of its own: a broker that takes no messages must not hold up a worker. How many there
    /// are is bounded by the prefetch.
    pub(super) fn send(self: &Arc<Self>, held: Held, settlement: Settlement) {
        self.admissions().settling += 1;
        let mut settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        while settling.try_join_next().is_some() {}
        settling.spawn(boxed(self.clone().until_settled(held, settlement)).in_current_span());
    }

    async fn until_settled(self: Arc<Self>, held: Held, settlement: Settlement) {
        if let Settlement::Failed { .. } = settlement {
            self.keep(&held).await;
        }
        self.settle_at_broker(&held, settlement).await;
        self.is_settled();
    }

    /// A retry needs what it says, and if a foreign sender has sent it, it may be nowhere in the database: whose process has died
    /// with it could not keep it.
    async fn keep(&self, held: &Held) {
        let Receiving { guard, queue, .. } = &self.receiving;
        if guard.is_own(queue, &held.received) || held.message.payload.len() > guard.payload_limit {
            return;
        }
        let (store, message) = (self.store.clone(), held.message.clone());
        if let Err(error) = run_to_completion(async move { store::keep(&store, &message).await }).await {
            tracing::warn!(
                error = %error.in_full(), %queue, id = %held.message.key,
                "cannot store the failed message; its content is only in its dead letter"
            );
        }
    }

    /// One fewer is out.
    pub(super) fn is_settled(&self) {
        let mut admissions = self.admissions();
        admissions.settling = admissions.settling.saturating_sub(1);
        admissions.moved = Some(self.clock.now());
        if admissions.more {
            drop(admissions);
            self.wake.notify_one();
        }
    }

    async fn settle_at_broker(&self, held: &Held, settlement: Settlement) {
        while let Err(why) = held.source.settle(held.received.tag, settlement.clone()).await {
            let (queue, id) = (&self.receiving.queue, &held.message.key);
            tracing::warn!(%queue, %id, %why, ?settlement, "delivery not settled yet");
            if !held.is_current() {
                return;
            }
            tokio::select! {
                () = self.clock.sleep(AGAIN) => {}
                // The broker hands it out again when the connection ends.
                () = self.closing.cancelled() => return,
            }
            if matches!(settlement, Settlement::Busy) && self.looks_again(held) {
                return;
            }
        }
    }

    /// What was busy may be done before the broker takes its copy. Not while we are at it ourselves.
    fn looks_again(&self, held: &Held) -> bool {
        let mut admissions = self.admissions();
        if admissions.has(&held.message.key) {
            return false;
        }
        admissions.unclaimed.push(held.clone());
        drop(admissions);
        self.wake.notify_one();
        true
    }

    /// Until what is on its way to the broker has arrived.
    pub(super) async fn settled(&self) {
        let mut all =
            std::mem::replace(&mut *self.settling.lock().unwrap_or_else(PoisonError::into_inner), JoinSet::new());
        let _ = tokio::time::timeout(TIMEOUT, async { while all.join_next().await.is_some() {} }).await;
    }

    /// Frees the rows of these, as far as they are marked as ours.
    pub(super) async fn free(&self, deliveries: Vec<Delivery>) -> Result<()> {
        let leased = |delivery: &Delivery| delivery.claim.as_ref().is_some_and(|claim| !claim.locked);
        let leased: Vec<_> = deliveries.into_iter().filter(leased).collect();
        if leased.is_empty() {
            return Ok(());
        }
        let store = self.store.clone();
        run_to_completion(async move { store::release(&store, &leased).await }).await
    }
}
