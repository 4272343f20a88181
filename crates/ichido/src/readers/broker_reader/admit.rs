//! The task that admits what the source hands out. It reads ids, turns away what is not to run, and marks rows as our own where a
//! lock is not enough: with `claim = "lease"`, for what was handed out before, and for suspects. Its errors reach the
//! workers through the buffer.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Admissions, Held, Receiving, Shared, settle::TIMEOUT};
use crate::{
    Delivery, Error, Key, Message, Store,
    broker::{Depths, DynSource, Found, Received, Settlement, Standing},
    error::Result,
    message::{Claim, GuardBy, OnBusy},
    process::{draining::Draining, record::caught},
    readers::buffer::Buffer,
    store,
    store::MOST_KEYS,
};

/// What a broker has for us is here so soon after it was asked.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// The levels below do not wait longer for a broker that does not answer.
const LONGEST_START: Duration = Duration::from_secs(2);

/// A broker that has nothing for so long has no more.
const EMPTY: Duration = Duration::from_millis(500);

/// Nor has one whose counts, which are some seconds old, say so for so long.
const COUNTED: Duration = Duration::from_secs(10);

/// The pause after a claim that the database refused although it answers.
const AFTER_FAULT: Duration = Duration::from_millis(100);

pub(super) async fn run<S: Store>(shared: Arc<Shared<S>>) {
    tokio::select! {
        () = shared.asked.wait() => {}
        () = shared.closing.cancelled() => {}
    }
    let mut admitting = Admitting {
        source: None,
        draining: Draining::default(),
        begun: None,
        opened: None,
        swept: None,
        empty_since: None,
        shared,
    };
    while !admitting.shared.closing.is_cancelled() {
        if let Err(error) = caught(Box::pin(admitting.turn())).await {
            let queue = admitting.shared.receiving.queue.clone();
            if let Error::Panic(why) = &error {
                tracing::error!(%queue, why, "the admitting task panicked; the process ends");
            }
            admitting.shared.admissions().buffer.error = Some(error);
            break;
        }
        if admitting.shared.admissions().buffer.finished {
            break;
        }
    }
    admitting.release_unstarted().await;
    admitting.shared.receiving.changed.notify_one();
}

struct Admitting<S: Store> {
    shared: Arc<Shared<S>>,
    /// None while nothing is to be received.
    source: Option<Arc<dyn DynSource>>,
    draining: Draining,
    /// When the source was first asked, and first open.
    begun: Option<Instant>,
    opened: Option<Instant>,
    /// When it was last looked for what the broker hands out again.
    swept: Option<Instant>,
    /// When the broker was first seen to have nothing, with nothing handed out since.
    empty_since: Option<Instant>,
}

impl<S: Store> Admitting<S> {
    async fn turn(&mut self) -> Result<()> {
        if self.shared.receiving.following.is_held() {
            return self.hold().await;
        }
        let receiving = &self.shared.receiving;
        let source = self.source.get_or_insert_with(|| receiving.broker.receive(receiving.prefetch)).clone();
        self.settle_in(&source);
        while let Some(received) = source.try_next() {
            let Some(held) = self.read(&source, received) else { continue };
            // What comes again is not busy because a connection that is gone had brought it before.
            if self.shared.admissions().has_lost(&held.message.key) {
                self.drop_stale().await;
            }
            self.admit(held);
        }
        self.look_for_more(&source);
        let now = self.shared.clock.now();
        let met = std::mem::take(&mut self.shared.admissions().stale);
        if met || self.swept.is_none_or(|swept| now - swept >= self.shared.receiving.poll) {
            self.swept = Some(now);
            self.drop_stale().await;
        }
        self.claim().await?;
        if self.shared.receiving.drain && self.is_drained().await? {
            self.shared.admissions().buffer.finished = true;
            return Ok(());
        }
        self.wait(&source).await;
        Ok(())
    }

    /// A broker that was just asked may have something that is still on its way: the levels below wait for it, but not for long.
    fn settle_in(&mut self, source: &Arc<dyn DynSource>) {
        let now = self.shared.clock.now();
        if self.shared.admissions().settled_in {
            return;
        }
        let begun = *self.begun.get_or_insert(now);
        if source.is_open() {
            self.opened.get_or_insert(now);
        }
        let over = self.opened.is_some_and(|opened| now - opened >= ON_ITS_WAY) || now - begun >= LONGEST_START;
        if over || !self.shared.admissions().is_idle() {
            self.shared.admissions().settled_in = true;
            self.shared.receiving.changed.notify_one();
        }
    }

    /// Until there may be something to do.
    async fn wait(&self, source: &Arc<dyn DynSource>) {
        let Shared { receiving, clock, closing, wake, .. } = &*self.shared;
        let poll = {
            let admissions = self.shared.admissions();
            let waits =
                !admissions.settled_in || (admissions.more && admissions.out() < usize::from(source.prefetch()));
            if waits { ON_ITS_WAY / 4 } else { receiving.poll }
        };
        // Deliveries that only wait for the right to claim.
        let claims = !self.shared.admissions().unclaimed.is_empty();
        tokio::select! {
            () = source.changed() => {}
            () = wake.notified() => {}
            () = clock.sleep(poll) => {}
            () = closing.cancelled() => {}
            () = receiving.following.held() => {}
            () = self.shared.life.until_it_may_claim(), if claims => {}
        }
    }

    /// None if nobody can tell which message it is.
    fn read(&self, source: &Arc<dyn DynSource>, received: Received) -> Option<Held> {
        let Shared { receiving, .. } = &*self.shared;
        self.note_out(source.prefetch());
        if receiving.drain {
            self.shared.life.note_emptied(&receiving.queue, None);
        }
        let key = receiving.guard.key_of(&receiving.queue, &received);
        let named = key.clone().unwrap_or_else(|_| Key::new([""]));
        let message = Message::new(receiving.queue.clone(), named, received.payload.clone());
        let message = message.with_headers(received.headers.clone());
        let held = Held { source: source.clone(), received: Arc::new(received), message };
        let Err(why) = key else { return Some(held) };
        tracing::warn!(queue = %receiving.queue, why, "dead-lettering a delivery without a readable id");
        self.shared.send(held, Settlement::DeadLetter(format!("no readable id: {why}")));
        None
    }

    fn admit(&self, held: Held) {
        let Shared { receiving, .. } = &*self.shared;
        let mut admissions = self.shared.admissions();
        if let Some(other) = admissions.in_hand(&held.message.key) {
            // Only one of two bodies can be the one that was sent: which, the row tells when this one comes back.
            let same = other.message.payload == held.message.payload;
            drop(admissions);
            if same {
                self.shared.turn_away(held, Found::Busy);
            } else {
                self.shared.send(held, Settlement::Busy);
            }
        } else if receiving.guard.locks() && !held.received.redelivered {
            self.put(&mut admissions, held, true, Standing::default());
        } else {
            admissions.unclaimed.push(held);
        }
    }

    /// One more is out.
    fn note_out(&self, prefetch: u16) {
        let mut admissions = self.shared.admissions();
        admissions.more |= admissions.out() + 1 >= usize::from(prefetch);
        admissions.moved = Some(self.shared.clock.now());
    }

    /// Does the broker have no more? If it could have handed out something for a while and has not.
    fn look_for_more(&self, source: &Arc<dyn DynSource>) {
        let mut admissions = self.shared.admissions();
        if let Some(more) = source.has_more() {
            let emptied = std::mem::replace(&mut admissions.more, more) && !more;
            drop(admissions);
            if emptied {
                self.shared.receiving.changed.notify_one();
            }
            return;
        }
        let still = admissions.moved.is_none_or(|moved| self.shared.clock.now() - moved >= ON_ITS_WAY / 2);
        if admissions.more && still && admissions.out() < usize::from(source.prefetch()) {
            admissions.more = false;
            drop(admissions);
            self.shared.receiving.changed.notify_one();
        }
    }

    /// From now on it can run.
    fn put(&self, admissions: &mut Admissions, held: Held, locked: bool, standing: Standing) {
        admissions.buffer.put(self.delivery(&held, locked, standing));
        admissions.admitted.insert(held.message.key.clone(), held);
        self.shared.receiving.changed.notify_one();
    }

    fn delivery(&self, held: &Held, locked: bool, standing: Standing) -> Delivery {
        let Standing { failures, suspect, parked } = standing;
        let claim = Claim { owner: self.shared.life.id(), parked, suspect, group: None, locked };
        let limit = self.shared.receiving.guard.payload_limit;
        let mut delivery = Delivery::claimed(held.message.clone(), claim, failures).within(limit);
        delivery.waited = held.received.sent_at.map(|sent| sent.elapsed().unwrap_or_default());
        delivery.sent = delivery.waited.and_then(|waited| self.shared.clock.now().checked_sub(waited));
        delivery
    }

    /// What the broker hands out again, or was marked under an id that counts as dead, does not run from here.
    async fn drop_stale(&self) {
        let me = self.shared.life.id();
        let mut stale = Vec::new();
        {
            let mut admissions = self.shared.admissions();
            let Admissions { buffer: Buffer { ready, suspects, .. }, admitted, unclaimed, .. } = &mut *admissions;
            unclaimed.retain(Held::is_current);
            for waiting in [ready, suspects] {
                let (keep, gone): (VecDeque<_>, VecDeque<_>) =
                    std::mem::take(waiting).into_iter().partition(|delivery| {
                        let leased = delivery.claim.as_ref().filter(|claim| !claim.locked);
                        let there = admitted.get(&delivery.message.key).is_some_and(Held::is_current);
                        there && leased.is_none_or(|claim| claim.owner == me)
                    });
                *waiting = keep;
                stale.extend(gone);
            }
            for delivery in &stale {
                let held = admitted.remove(&delivery.message.key);
                unclaimed.extend(held.filter(Held::is_current));
            }
        }
        if !stale.is_empty() {
            // Whoever met one of them has gone to sleep, and there may be others behind it.
            self.shared.receiving.changed.notify_one();
        }
        if let Err(error) = self.shared.free(stale).await {
            tracing::warn!(
                error = %error.in_full(), queue = %self.shared.receiving.queue,
                "cannot yet release the deliveries of a lost connection"
            );
        }
    }

    /// Marks rows as our own.
    async fn claim(&self) -> Result<()> {
        let wanted: Vec<Held> = self.shared.admissions().unclaimed.iter().take(MOST_KEYS).cloned().collect();
        let Some(process) = self.shared.life.may_claim().filter(|_| !wanted.is_empty()) else { return Ok(()) };
        let messages: Vec<_> = wanted.iter().map(|held| held.message.clone()).collect();
        let found = match store::claim_these(&self.shared.store, process, &self.shared.receiving.queue, &messages).await
        {
            Ok(found) => {
                self.shared.meter().claimed();
                found
            }
            Err(Error::LostClaim) => {
                self.shared.life.expire(process);
                return Ok(());
            }
            Err(error) if error.is_fault::<S>() && store::ping(&self.shared.store).await.is_ok() => {
                tracing::warn!(error = %error.in_full(), queue = %self.shared.receiving.queue, "claim failed");
                self.shared.clock.sleep(AFTER_FAULT).await;
                self.shared.wake.notify_one();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.shared.admissions().unclaimed.drain(..wanted.len());
        let mut spare = Vec::new();
        for (held, found) in wanted.into_iter().zip(found) {
            match found {
                Found::Free(standing) if standing.suspect && self.is_crowded() => spare.push((held, standing)),
                Found::Free(standing) => self.put(&mut self.shared.admissions(), held, false, standing),
                // In the inbox; whether with the same payload, the lock tells.
                Found::Nothing if self.shared.receiving.guard.rules.by == GuardBy::Inbox => {
                    self.put(&mut self.shared.admissions(), held, true, Standing::default());
                }
                other => self.shared.turn_away(held, other),
            }
        }
        self.spare(spare).await;
        if !self.shared.admissions().unclaimed.is_empty() {
            self.shared.wake.notify_one();
        }
        Ok(())
    }

    /// Suspects run one at a time: half of what may be out is left to others.
    fn is_crowded(&self) -> bool {
        let Receiving { guard, prefetch, .. } = &self.shared.receiving;
        let waiting = self.shared.admissions().buffer.suspects.len();
        guard.rules.on_busy == OnBusy::Delay && waiting * 2 >= usize::from(*prefetch)
    }

    /// These suspects come back after the delay of what is busy, here or at another process. Their rows are nobody's meanwhile; those that
    /// cannot be freed wait here.
    async fn spare(&self, spare: Vec<(Held, Standing)>) {
        let ours = spare.iter().map(|(held, standing)| self.delivery(held, false, *standing)).collect();
        let freed = self.shared.free(ours).await;
        for (held, standing) in spare {
            match &freed {
                Ok(()) => self.shared.send(held, Settlement::Busy),
                Err(_) => self.put(&mut self.shared.admissions(), held, false, standing),
            }
        }
    }

    async fn is_drained(&mut self) -> Result<bool> {
        if self.shared.admissions().is_idle() {
            self.look_whether_emptied().await;
        }
        if !self.shared.admissions().is_idle() {
            self.draining.goes_on();
            return Ok(false);
        }
        let Shared { store, life, clock, receiving, .. } = &*self.shared;
        self.draining.is_over(store, life, &**clock, receiving.poll, receiving.lease).await
    }

    /// Messages of foreign senders have no rows here: has the broker more of them? It has not if it said so twice, and nothing came or
    /// went between: what it hands out just now may be on its way.
    async fn look_whether_emptied(&mut self) {
        let Shared { receiving, life, clock, .. } = &*self.shared;
        if receiving.guard.rules.by != GuardBy::Inbox || life.is_drained() {
            return;
        }
        let now = clock.now();
        let (since, lasts) = match self.depths().await {
            Some(depths) if depths.ready + depths.busy + depths.unacknowledged.unwrap_or(0) == 0 => {
                // Whoever counts what is out does so only now and then.
                let counted = depths.unacknowledged.map(|_| COUNTED.max(depths.stale));
                (Some(self.empty_since.unwrap_or(now)), counted.unwrap_or(EMPTY))
            }
            _ => (None, EMPTY),
        };
        let still = |since: &Instant| {
            let admissions = self.shared.admissions();
            admissions.out() == 0 && admissions.moved.is_none_or(|moved| moved < *since)
        };
        self.empty_since = since.filter(still);
        life.note_emptied(&receiving.queue, self.empty_since.filter(|since| now - *since >= lasts));
    }

    /// How full the queue is, if the broker tells soon. Nobody who ends or pauses waits for that.
    async fn depths(&self) -> Option<Depths> {
        let Shared { receiving, closing, .. } = &*self.shared;
        if !self.source.as_ref().is_some_and(|source| source.is_open()) {
            return None;
        }
        tokio::select! {
            depths = tokio::time::timeout(TIMEOUT, receiving.broker.depths()) => depths.ok()?.ok(),
            () = closing.cancelled() => None,
            () = receiving.following.held() => None,
        }
    }

    /// The request id is stopped or paused: what is not begun is free for others, and nothing is received.
    async fn hold(&mut self) -> Result<()> {
        self.release_unstarted().await;
        self.empty_since = None;
        self.shared.life.note_emptied(&self.shared.receiving.queue, None);
        let Shared { receiving, wake, closing, .. } = &*self.shared;
        tokio::select! {
            () = receiving.following.resumed(), if !receiving.following.stop.is_cancelled() => {}
            () = wake.notified() => {} // something came back
            () = closing.cancelled() => {}
        }
        Ok(())
    }

    /// Releases what is not begun, to the database and then to the broker; what is begun can still be settled.
    async fn release_unstarted(&mut self) {
        if let Some(source) = self.source.take() {
            let _ = tokio::time::timeout(TIMEOUT, source.close()).await;
        }
        let (unbegun, mut back) = {
            let mut admissions = self.shared.admissions();
            let unbegun = admissions.buffer.take_all();
            let held: Vec<_> =
                unbegun.iter().filter_map(|delivery| admissions.admitted.remove(&delivery.message.key)).collect();
            (unbegun, held)
        };
        back.append(&mut self.shared.admissions().unclaimed);
        if let Err(error) = self.shared.free(unbegun).await {
            tracing::warn!(error = %error.in_full(), queue = %self.shared.receiving.queue, "cannot yet release messages that are not started");
        }
        for held in back {
            self.shared.send(held, Settlement::Release);
        }
    }
}
