//! Reads a store's queue for all workers of a pool. One task claims ahead in bounded batches while the workers run, so that
//! handing out is a look into a buffer; what is in flight is never handed out again, and what comes back is settled here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    Delivery, Key, Reader, Store,
    action::slot::run_to_completion,
    error::Result,
    message::Mark,
    process::{Clock, flags::Following, life::Life, tasks::spawn_in_span},
    readers::{
        Turn,
        buffer::{Asked, Buffer, Filling},
    },
    store::{self, MOST_KEYS, ProcessId},
};

mod ahead;
mod claimer;
mod level;
mod lookout;

pub(crate) use self::{ahead::Ahead, lookout::Lookout};

/// The reader of a queue in the store.
pub struct QueueReader<S: Store> {
    shared: Arc<Shared<S>>,
    claimer: Filling,
}

/// What a reader needs to know besides its store.
pub(crate) struct Reading {
    pub(crate) queue: Arc<str>,
    pub(crate) following: Following,
    /// How much may be claimed, at first.
    pub(crate) share: Share,
    /// How many messages a worker takes together.
    pub(crate) together: usize,
    pub(crate) poll: Duration,
    pub(crate) lease: Duration,
    pub(crate) drain: bool,
    /// Workers wait here for deliveries; the levels of a lane set have one for all.
    pub(crate) changed: Arc<Notify>,
    /// Who looks into the queue while it has nothing to claim.
    pub(crate) lookout: Arc<Lookout>,
}

struct Shared<S: Store> {
    store: S,
    life: Arc<Life>,
    clock: Arc<dyn Clock>,
    reading: Reading,
    claims: Mutex<Claims>,
    /// The claimer waits here for room in the buffer.
    room: Notify,
    /// Who knows that there is something to claim wakes the claimer here.
    wake: Arc<Notify>,
    closing: CancellationToken,
    /// Nothing is claimed before the first worker asks: what starts before them may take its time.
    asked: Asked,
}

/// What is claimed, and what is known of claims.
struct Claims {
    /// What is not begun.
    buffer: Buffer,
    /// With the owner under which each was claimed: after a rebirth a message can be in flight twice, once in vain.
    in_flight: HashMap<Key, Option<ProcessId>>,
    /// A claim's reply or a COMMIT's outcome was lost: the database must be asked what is ours.
    in_doubt: bool,
    share: Share,
    /// How many messages are claimed beyond those that workers run; a part of the share.
    ahead: Ahead,
    /// How many claims have begun.
    begun: u64,
    /// The last claim, if it took all there was.
    emptied: Option<EmptyLook>,
    /// Somebody waits to hear what the next claim finds, even if it is nothing.
    awaited: bool,
}

/// A claim, as a look at the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmptyLook {
    /// When it began, and when its result was there.
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Which claim of its reader it was.
    pub(crate) number: u64,
}

/// How much a reader may claim; the levels of a lane set share what their workers can have in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// So many messages in all, in flight and at hand.
    pub(crate) claimed: usize,
    /// So many at hand; what is beyond is released.
    pub(crate) ready: usize,
}

impl Share {
    pub(crate) const NOTHING: Share = Share { claimed: 0, ready: 0 };

    pub(crate) fn of(claimed: usize) -> Self {
        Share { claimed, ready: usize::MAX }
    }
}

impl Claims {
    fn new(share: Share, ahead: Ahead) -> Self {
        Claims {
            ahead,
            buffer: Buffer::default(),
            in_flight: HashMap::new(),
            in_doubt: false,
            share,
            begun: 0,
            emptied: None,
            awaited: false,
        }
    }

    fn claimed(&self) -> usize {
        self.buffer.len() + self.in_flight.len()
    }

    /// How many of them count against the share. Suspects may wait for long, one after the other: they take the place of what is read
    /// ahead, never that of a worker, so that others run beside them.
    fn counted(&self) -> usize {
        self.buffer.ready.len() + self.in_flight.len() + self.buffer.suspects.len().min(self.ahead.get())
    }

    /// A claim was made, which got all that it wanted or not: the next one may want more or less.
    fn note_claim(&mut self, full: bool, at: Instant) {
        let before = self.ahead.get();
        self.ahead.note(full, at);
        self.share.claimed = self.share.claimed.saturating_sub(before).saturating_add(self.ahead.get());
    }
}

impl<S: Store> QueueReader<S> {
    pub(crate) fn open(store: S, life: Arc<Life>, clock: Arc<dyn Clock>, reading: Reading, ahead: Ahead) -> Self {
        let share = reading.share;
        let shared = Arc::new(Shared {
            store,
            life,
            clock,
            reading,
            claims: Mutex::new(Claims::new(share, ahead)),
            room: Notify::new(),
            wake: Arc::new(Notify::new()),
            closing: CancellationToken::new(),
            asked: Asked::default(),
        });
        shared.life.tell(shared.reading.changed.clone());
        shared.reading.following.tell(&shared.reading.changed);
        shared.store.wake_ups().join(&shared.reading.queue, &shared.wake);
        let claims = shared.life.signs.watch("the claimer", claimer::run(shared.clone()));
        let claimer = spawn_in_span(claims);
        QueueReader { shared, claimer: Filling::new(claimer) }
    }
}

impl<S: Store> Shared<S> {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many more messages may be claimed now; nothing while enough are at hand, so that claims come in batches.
    fn wanted(&self, claims: &Claims) -> usize {
        if claims.buffer.ready.len() * 4 > claims.ahead.get() {
            return 0;
        }
        match claims.share.claimed.saturating_sub(claims.counted()) {
            // While a worker settles what it had together, it is not refilled one by one.
            room if room < self.reading.together => 0,
            room => room.min(MOST_KEYS),
        }
    }

    /// Takes a delivery that may run now. What was claimed under an id that counts as dead is dropped: it is not ours.
    fn take(&self, claims: &mut Claims) -> Option<Delivery> {
        let me = self.life.id();
        let ours = |delivery: &Delivery| delivery.claim.as_ref().is_none_or(|claim| claim.owner == me);
        let before = claims.claimed();
        claims.buffer.ready.retain(ours);
        claims.buffer.suspects.retain(ours);
        if claims.claimed() < before {
            // The claimer may have seen a full buffer and gone to sleep.
            self.room.notify_one();
        }
        claims.buffer.pop(&self.life)
    }

    async fn release(&self, deliveries: Vec<Delivery>) -> Result<()> {
        let store = self.store.clone();
        run_to_completion(async move { store::release(&store, &deliveries).await }).await
    }
}

impl<S: Store> Reader for QueueReader<S> {
    fn try_next(&self) -> crate::Result<Turn> {
        self.shared.asked.ask();
        let Reading { following, changed, .. } = &self.shared.reading;
        let mut claims = self.shared.claims();
        if let Some(turn) = claims.buffer.refusal(&self.shared.closing, following, changed)? {
            return Ok(turn);
        }
        let Some(delivery) = self.shared.take(&mut claims) else { return Ok(Turn::Empty) };
        claims.in_flight.insert(delivery.message.key.clone(), delivery.owner());
        if !claims.buffer.ready.is_empty() {
            changed.notify_one();
        }
        drop(claims);
        self.shared.room.notify_one();
        Ok(Turn::Delivery(Box::new(delivery)))
    }

    async fn changed(&self) {
        self.shared.reading.changed.notified().await;
    }

    async fn settle(&self, mut delivery: Delivery) -> crate::Result<()> {
        let mark = delivery.mark.take();
        let grouped = delivery.claim.as_ref().is_some_and(|claim| claim.group.is_some());
        // A claim that is lost because somebody changed the row by hand still holds its group.
        let release = matches!(mark, None | Some(Mark::Cancelled)) || (grouped && mark == Some(Mark::Lost));
        let released = if release { self.shared.release(vec![delivery.copy()]).await } else { Ok(()) };
        drop(delivery.alone.take());
        let mut claims = self.shared.claims();
        if claims.in_flight.get(&delivery.message.key) == Some(&delivery.owner()) {
            claims.in_flight.remove(&delivery.message.key);
        }
        claims.in_doubt |= mark == Some(Mark::Unknown) || released.is_err();
        if mark == Some(Mark::Faulted) {
            claims.buffer.put(delivery);
            self.shared.reading.changed.notify_one();
        }
        drop(claims);
        self.shared.room.notify_one();
        if grouped {
            // The next one of the group can be claimed now.
            self.shared.wake.notify_one();
        }
        Ok(released?)
    }

    /// What is claimed and not begun is freed at once when the process deregisters, right after this.
    async fn close(&self) -> crate::Result<()> {
        self.shared.closing.cancel();
        self.claimer.ended().await;
        Ok(())
    }
}
