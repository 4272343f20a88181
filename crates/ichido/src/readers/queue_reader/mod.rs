//! Reads a store's queue for all workers of a pool. One task claims ahead in bounded batches while the workers run, so that
//! handing out is a look into a buffer; what is in flight is never handed out again, and what comes back is settled here.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    Delivery, Error, Key, Reader, Result, Store,
    action::slot::undisturbed,
    message::Mark,
    process::{Clock, flags::Following, life::Life},
    readers::Turn,
    store::{self, MOST_KEYS, ProcessId},
};

mod claimer;
mod level;

/// The reader of a queue in the store.
pub struct QueueReader<S: Store> {
    shared: Arc<Shared<S>>,
    claimer: Mutex<Option<JoinHandle<()>>>,
}

/// What a reader needs to know besides its store.
pub(crate) struct Reading {
    pub(crate) queue: Arc<str>,
    pub(crate) following: Following,
    /// How much may be claimed, at first.
    pub(crate) share: Share,
    /// How many messages a worker takes together.
    pub(crate) together: usize,
    pub(crate) ahead: usize,
    pub(crate) poll: Duration,
    pub(crate) lease: Duration,
    pub(crate) drain: bool,
    /// Workers wait here for deliveries; the levels of a lane set have one for all.
    pub(crate) changed: Arc<Notify>,
}

struct Shared<S: Store> {
    store: S,
    life: Arc<Life>,
    clock: Arc<dyn Clock>,
    reading: Reading,
    buffer: Mutex<Buffer>,
    /// The claimer waits here for room in the buffer.
    room: Notify,
    /// Who knows that there is something to claim wakes the claimer here.
    wake: Arc<Notify>,
    closing: CancellationToken,
    /// Nothing is claimed before the first worker asks: what starts before them may take its time.
    asked: CancellationToken,
}

struct Buffer {
    ready: VecDeque<Delivery>,
    suspects: VecDeque<Delivery>,
    /// With the owner under which each was claimed: after a rebirth a message can be in flight twice, once in vain.
    in_flight: HashMap<Key, Option<ProcessId>>,
    /// A claim's reply or a COMMIT's outcome was lost: the database must be asked what is ours.
    in_doubt: bool,
    error: Option<Error>,
    finished: bool,
    share: Share,
    /// How many claims have begun.
    claims: u64,
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
    /// So many at hand; what is beyond is given back.
    pub(crate) ready: usize,
}

impl Share {
    pub(crate) const NOTHING: Share = Share { claimed: 0, ready: 0 };

    pub(crate) fn of(claimed: usize) -> Self {
        Share { claimed, ready: usize::MAX }
    }
}

impl Buffer {
    fn new(share: Share) -> Self {
        Buffer {
            ready: VecDeque::new(),
            suspects: VecDeque::new(),
            in_flight: HashMap::new(),
            in_doubt: false,
            error: None,
            finished: false,
            share,
            claims: 0,
            emptied: None,
            awaited: false,
        }
    }

    fn claimed(&self) -> usize {
        self.ready.len() + self.suspects.len() + self.in_flight.len()
    }

    /// Takes out what is claimed and not begun.
    fn take_all(&mut self) -> Vec<Delivery> {
        self.ready.drain(..).chain(self.suspects.drain(..)).collect()
    }

    fn put(&mut self, delivery: Delivery) {
        if delivery.is_suspect() { self.suspects.push_back(delivery) } else { self.ready.push_back(delivery) }
    }
}

impl<S: Store> QueueReader<S> {
    pub(crate) fn open(store: S, life: Arc<Life>, clock: Arc<dyn Clock>, reading: Reading) -> Self {
        let share = reading.share;
        let shared = Arc::new(Shared {
            store,
            life,
            clock,
            reading,
            buffer: Mutex::new(Buffer::new(share)),
            room: Notify::new(),
            wake: Arc::new(Notify::new()),
            closing: CancellationToken::new(),
            asked: CancellationToken::new(),
        });
        shared.life.tell(shared.reading.changed.clone());
        shared.store.bell().join(&shared.reading.queue, &shared.wake);
        let claimer = tokio::spawn(claimer::run(shared.clone()).in_current_span());
        QueueReader { shared, claimer: Mutex::new(Some(claimer)) }
    }
}

impl<S: Store> Shared<S> {
    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self) {
        if !self.asked.is_cancelled() {
            self.asked.cancel();
        }
    }

    /// How many more messages may be claimed now; nothing while enough are at hand, so that claims come in batches.
    fn wanted(&self, buffer: &Buffer) -> usize {
        if buffer.ready.len() * 4 > self.reading.ahead {
            return 0;
        }
        match buffer.share.claimed.saturating_sub(buffer.claimed()) {
            // While a worker settles what it had together, it is not refilled one by one.
            room if room < self.reading.together => 0,
            room => room.min(MOST_KEYS),
        }
    }

    /// Takes a delivery that may run now. What was claimed under an id that counts as dead is dropped: it is not ours.
    fn take(&self, buffer: &mut Buffer) -> Option<Delivery> {
        let me = self.life.id();
        let ours = |delivery: &Delivery| delivery.claim.as_ref().is_none_or(|claim| claim.owner == me);
        let before = buffer.claimed();
        buffer.ready.retain(ours);
        buffer.suspects.retain(ours);
        if buffer.claimed() < before {
            // The claimer may have seen a full buffer and gone to sleep.
            self.room.notify_one();
        }
        if !buffer.suspects.is_empty()
            && let Some(alone) = self.life.alone()
        {
            let suspect = buffer.suspects.pop_front();
            return suspect.map(|suspect| Delivery { alone: Some(alone), ..suspect });
        }
        buffer.ready.pop_front()
    }

    async fn release(&self, deliveries: Vec<Delivery>) -> Result<()> {
        let store = self.store.clone();
        undisturbed(async move { store::release(&store, &deliveries).await }).await
    }
}

impl<S: Store> Reader for QueueReader<S> {
    fn try_next(&self) -> Result<Turn> {
        self.shared.ask();
        let mut buffer = self.shared.buffer();
        if let Some(error) = buffer.error.take() {
            return Err(error);
        }
        let following = &self.shared.reading.following;
        if self.shared.closing.is_cancelled() || buffer.finished || following.stop.is_cancelled() {
            self.shared.reading.changed.notify_one();
            return Ok(Turn::Finished);
        }
        if following.is_paused() {
            return Ok(Turn::Empty);
        }
        let Some(delivery) = self.shared.take(&mut buffer) else { return Ok(Turn::Empty) };
        buffer.in_flight.insert(delivery.message.key.clone(), delivery.owner());
        if !buffer.ready.is_empty() {
            self.shared.reading.changed.notify_one();
        }
        drop(buffer);
        self.shared.room.notify_one();
        Ok(Turn::Delivery(Box::new(delivery)))
    }

    async fn changed(&self) {
        self.shared.reading.changed.notified().await;
    }

    async fn settle(&self, mut delivery: Delivery) -> Result<()> {
        let mark = delivery.mark.take();
        let grouped = delivery.claim.as_ref().is_some_and(|claim| claim.group.is_some());
        // A claim that is lost because somebody changed the row by hand still holds its group.
        let release = mark.is_none() || (grouped && mark == Some(Mark::Lost));
        let released = if release { self.shared.release(vec![delivery.copy()]).await } else { Ok(()) };
        drop(delivery.alone.take());
        let mut buffer = self.shared.buffer();
        if buffer.in_flight.get(&delivery.message.key) == Some(&delivery.owner()) {
            buffer.in_flight.remove(&delivery.message.key);
        }
        buffer.in_doubt |= mark == Some(Mark::Unknown) || released.is_err();
        if mark == Some(Mark::Faulted) {
            buffer.put(delivery);
            self.shared.reading.changed.notify_one();
        }
        drop(buffer);
        self.shared.room.notify_one();
        if grouped {
            // The next one of the group can be claimed now.
            self.shared.wake.notify_one();
        }
        released
    }

    /// What is claimed and not begun is freed at once when the process takes leave, right after this.
    async fn close(&self) -> Result<()> {
        self.shared.closing.cancel();
        let claimer = self.claimer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(claimer) = claimer {
            let _ = claimer.await;
        }
        Ok(())
    }
}
