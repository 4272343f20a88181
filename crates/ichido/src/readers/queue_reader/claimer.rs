//! The task that keeps a [`QueueReader`](super::QueueReader)'s buffer filled. It is the only one that claims, so that claims
//! of one process never race each other, and its errors reach the workers through the buffer.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::Instrument;

use super::{EmptyLook, Shared};
use crate::{
    Delivery, Error, Key, Store,
    error::Result,
    process::{draining::Draining, record::caught, signs::Claiming},
    store::{self, ProcessId},
    trace,
};

/// The pause after a claim that the database refused although it answers.
const AFTER_FAULT: Duration = Duration::from_millis(100);

/// The longest pause after a release that failed: the poll interval may be an hour where wake-ups are relied upon.
const AFTER_FAILED_RELEASE: Duration = Duration::from_secs(1);

pub(super) async fn run<S: Store>(shared: Arc<Shared<S>>) {
    tokio::select! {
        () = shared.asked.wait() => {}
        () = shared.closing.cancelled() => {}
    }
    let signs = shared.life.signs.claimer(&shared.reading.queue, shared.store.timeout());
    let mut claimer = Claimer { asked: shared.clock.now(), draining: Draining::default(), signs, shared };
    while !claimer.shared.closing.is_cancelled() {
        if let Err(error) = caught(Box::pin(claimer.turn())).await {
            let queue = claimer.shared.reading.queue.clone();
            if let Error::Panic(why) = &error {
                tracing::error!(%queue, why, "the claimer panicked; the process ends");
            }
            claimer.shared.claims().buffer.error = Some(error);
            break;
        }
        if claimer.shared.claims().buffer.finished {
            break;
        }
    }
    claimer.shared.reading.changed.notify_one();
}

struct Claimer<S: Store> {
    shared: Arc<Shared<S>>,
    /// When the database was last asked what is ours.
    asked: Instant,
    draining: Draining,
    /// Tells probes whether it moves.
    signs: Arc<Claiming>,
}

impl<S: Store> Claimer<S> {
    async fn turn(&mut self) -> Result<()> {
        self.signs.begin();
        if self.shared.reading.following.is_held() {
            return self.hold().await;
        }
        let surplus = self.shared.claims().take_surplus();
        if !surplus.is_empty() {
            return self.release_surplus(surplus).await;
        }
        let wanted = self.shared.wanted(&self.shared.claims());
        if wanted == 0 {
            return self.until(self.shared.room.notified()).await;
        }
        let Some(process) = self.shared.life.may_claim() else {
            return self.until(self.shared.life.until_it_may_claim()).await;
        };
        let found = match self.claim(process, wanted).await {
            Ok(found) if found < wanted => self.idle().await,
            found => found.map(|_| ()),
        };
        match found {
            Ok(()) => Ok(()),
            Err(Error::LostClaim) => {
                self.shared.life.expire(process);
                self.until(self.shared.life.until_it_may_claim()).await
            }
            Err(error) if error.is_fault::<S>() && store::ping(&self.shared.store).await.is_ok() => {
                tracing::warn!(error = %error.in_full(), queue = %self.shared.reading.queue, "claim failed");
                self.shared.claims().in_doubt = true;
                self.pause(AFTER_FAULT).await
            }
            Err(error) => Err(error),
        }
    }

    /// The request id is stopped or paused: what is not begun is free for others, and nothing is claimed.
    async fn hold(&self) -> Result<()> {
        let Shared { reading, room, closing, clock, .. } = &*self.shared;
        let freed = self.release_unstarted().await;
        if let Err(error) = &freed {
            tracing::warn!(error = %error.in_full(), queue = %reading.queue, "cannot yet release messages that are not started");
        }
        self.signs.rest();
        tokio::select! {
            () = reading.following.resumed(), if !reading.following.stop.is_cancelled() => {}
            () = room.notified() => {} // something came back
            () = clock.sleep(reading.poll.min(AFTER_FAILED_RELEASE)), if freed.is_err() => {}
            () = closing.cancelled() => {}
        }
        Ok(())
    }

    /// Releases what is claimed and not begun, also what nobody knows of; what cannot be released stays in the buffer.
    async fn release_unstarted(&self) -> Result<()> {
        if let Some(process) = self.shared.life.may_claim()
            && std::mem::take(&mut self.shared.claims().in_doubt)
        {
            let found = self.find_own(process).await;
            self.shared.claims().in_doubt |= found.is_err();
            found?;
        }
        let unbegun = self.shared.claims().buffer.take_all();
        self.free(unbegun).await
    }

    /// Releases these, and tells other processes; what cannot be released stays in the buffer.
    async fn free(&self, unbegun: Vec<Delivery>) -> Result<()> {
        let Shared { store, reading, .. } = &*self.shared;
        if unbegun.is_empty() {
            return Ok(());
        }
        let released = self.shared.release(unbegun.iter().map(Delivery::copy).collect()).await;
        if released.is_ok() {
            store.wake_ups().tell(store, &reading.queue).await;
        } else {
            let mut claims = self.shared.claims();
            for delivery in unbegun {
                claims.buffer.put(delivery);
            }
        }
        released
    }

    /// A higher level has work: what this one has read ahead is free for others.
    async fn release_surplus(&self, surplus: Vec<Delivery>) -> Result<()> {
        if let Err(error) = self.free(surplus).await {
            tracing::warn!(error = %error.in_full(), queue = %self.shared.reading.queue, "cannot yet release messages that were read ahead");
            return self.pause(self.shared.reading.poll.min(AFTER_FAILED_RELEASE)).await;
        }
        Ok(())
    }

    async fn claim(&mut self, process: ProcessId, wanted: usize) -> Result<usize> {
        let Shared { store, reading, clock, .. } = &*self.shared;
        let in_doubt = std::mem::take(&mut self.shared.claims().in_doubt);
        if in_doubt || clock.now() - self.asked > reading.lease {
            self.asked = clock.now();
            self.find_own(process).await?;
        }
        let (number, began) = (self.shared.claims().next_claim(), clock.now());
        let span = trace::span!("claim", queue = &*reading.queue, messages = tracing::field::Empty);
        let found = store::claim(store, process, &reading.queue, wanted).instrument(span.clone()).await;
        trace::fail(&span, found.is_err().then_some("database"));
        let found = found?;
        if !found.is_empty() {
            span.record("messages", found.len());
        }
        if let Some(meter) = self.shared.life.meters.find(&reading.queue) {
            meter.claimed();
        }
        let count = found.len();
        let mut claims = self.shared.claims();
        claims.note_claim(count >= wanted, clock.now());
        claims.emptied = (count < wanted).then(|| EmptyLook { began, ended: clock.now(), number });
        if count > 0 {
            self.draining.goes_on();
            for delivery in found {
                claims.buffer.put(dated(delivery, began));
            }
        }
        if std::mem::take(&mut claims.awaited) || count > 0 {
            reading.changed.notify_one();
        }
        Ok(count)
    }

    /// Finds claims whose reply was lost. What was in flight before the question was asked is known, even if it has
    /// been settled since.
    async fn find_own(&self, process: ProcessId) -> Result<()> {
        let known: HashSet<Key> = {
            let claims = self.shared.claims();
            let waiting =
                claims.buffer.ready.iter().chain(&claims.buffer.suspects).map(|delivery| &delivery.message.key);
            waiting.chain(claims.in_flight.keys()).cloned().collect()
        };
        let asked = self.shared.clock.now();
        let own = store::claimed(&self.shared.store, process, &self.shared.reading.queue).await?;
        let mut claims = self.shared.claims();
        for delivery in own.into_iter().filter(|found| !known.contains(&found.message.key)) {
            claims.buffer.put(dated(delivery, asked));
        }
        self.shared.reading.changed.notify_one();
        Ok(())
    }

    /// The queue has no more: wait until the lookout sees something in it, or for the poll interval when draining, and end then if all is
    /// done.
    async fn idle(&mut self) -> Result<()> {
        if self.shared.reading.drain && self.shared.claims().claimed() == 0 {
            let Shared { store, life, reading, clock, .. } = &*self.shared;
            if self.draining.is_over(store, life, &**clock, reading.poll, reading.lease).await? {
                self.shared.claims().buffer.finished = true;
                return Ok(());
            }
            return self.until(either(clock.sleep(reading.poll), self.shared.wake.notified())).await;
        }
        let Shared { reading, clock, wake, .. } = &*self.shared;
        // While messages are in flight a drain waits for the last of them, not for the poll interval. Who only waits is woken by the lookout;
        // should that ever be silent, the lease is an end.
        let _looked_for = (!reading.drain).then(|| reading.lookout.wait(&reading.queue, wake));
        let polled = clock.sleep(if reading.drain { reading.poll } else { reading.lease.max(reading.poll) });
        tokio::pin!(polled);
        self.signs.rest();
        loop {
            tokio::select! {
                () = &mut polled => return Ok(()),
                () = self.shared.wake.notified() => return Ok(()),
                () = self.shared.closing.cancelled() => return Ok(()),
                () = reading.following.held() => return Ok(()),
                () = self.shared.room.notified(), if reading.drain => {
                    if self.shared.claims().claimed() == 0 { return Ok(()) }
                }
            }
        }
    }

    async fn pause(&self, time: Duration) -> Result<()> {
        self.until(self.shared.clock.sleep(time)).await
    }

    async fn until(&self, event: impl Future<Output = ()>) -> Result<()> {
        self.signs.rest();
        tokio::select! {
            () = event => {}
            () = self.shared.closing.cancelled() => {}
            () = self.shared.reading.following.held() => {}
        }
        Ok(())
    }
}

async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        () = one => {}
        () = other => {}
    }
}

/// The same delivery, with the time of its sending by our clock; the database was asked then.
fn dated(delivery: Delivery, asked: Instant) -> Delivery {
    let sent = delivery.waited.and_then(|waited| asked.checked_sub(waited));
    Delivery { sent, ..delivery }
}
