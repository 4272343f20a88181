//! Reads a broker's queue for all workers of a pool. One task admits what the source hands out: it knows what is not ours to run,
//! and marks rows as our own where a lock of the transaction is not enough; the workers take from what it has admitted. What
//! comes back is settled at the broker here, and only here: after the database has it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    Delivery, Key, Message, Reader, Store,
    broker::{DynBroker, DynSource, Guard, Received},
    process::{Clock, flags::Following, life::Life, tasks::spawn_in_span},
    readers::{
        Turn,
        buffer::{Asked, Buffer, Filling},
    },
    stat::{Lane, Meter},
};

mod admit;
mod level;
mod settle;

/// The reader of a queue at a broker.
pub(crate) struct BrokerReader<S: Store> {
    shared: Arc<Shared<S>>,
    admitting: Filling,
}

/// What a reader needs to know besides its store.
pub(crate) struct Receiving {
    pub(crate) queue: Arc<str>,
    pub(crate) broker: Arc<dyn DynBroker>,
    pub(crate) guard: Guard,
    pub(crate) following: Following,
    /// So many deliveries are in hand at most, begun or not.
    pub(crate) prefetch: u16,
    /// How many workers run its messages, and which level of a lane set it is.
    pub(crate) place: (u32, Option<Lane>),
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
    receiving: Receiving,
    admissions: Mutex<Admissions>,
    /// The admitting task waits here for what came back.
    wake: Notify,
    closing: CancellationToken,
    /// Nothing is received before the first worker asks: what starts before them may take its time.
    asked: Asked,
    /// Acknowledgements and the like that are on their way.
    settling: Mutex<JoinSet<()>>,
}

/// What the source has handed out, and what is known of it.
#[derive(Default)]
struct Admissions {
    /// What can run and is not begun.
    buffer: Buffer,
    /// What must be marked as our own before it can run.
    unclaimed: Vec<Held>,
    /// Everything that is admitted, begun or not, by key: no message is in hand twice.
    admitted: HashMap<Key, Held>,
    in_flight: usize,
    /// Somebody has met a delivery that the broker hands out again.
    stale: bool,
    /// The source has had time to hand out what there was at the beginning.
    settled_in: bool,
    /// So many are about to be settled.
    settling: usize,
    /// All that may be out were: the broker may have more, and hands it out when some of them are settled.
    more: bool,
    /// When one was last handed out or settled.
    moved: Option<Instant>,
}

/// A delivery that is not settled.
#[derive(Clone)]
struct Held {
    source: Arc<dyn DynSource>,
    received: Arc<Received>,
    message: Message,
}

impl Held {
    fn is_current(&self) -> bool {
        self.source.is_current(self.received.tag)
    }
}

impl Admissions {
    fn is_idle(&self) -> bool {
        self.admitted.is_empty() && self.unclaimed.is_empty()
    }

    /// Is this message in hand?
    fn has(&self, key: &Key) -> bool {
        self.in_hand(key).is_some()
    }

    /// The delivery of this message that is in hand.
    fn in_hand(&self, key: &Key) -> Option<&Held> {
        self.admitted.get(key).or_else(|| self.unclaimed.iter().find(|held| held.message.key == *key))
    }

    /// Is it in hand by a connection that is gone?
    fn has_lost(&self, key: &Key) -> bool {
        let lost = |held: &Held| !held.is_current();
        self.admitted.get(key).is_some_and(lost)
            || self.unclaimed.iter().any(|held| held.message.key == *key && lost(held))
    }

    /// So many were handed out and are not settled.
    fn out(&self) -> usize {
        self.admitted.len() + self.unclaimed.len() + self.settling
    }
}

impl<S: Store> BrokerReader<S> {
    pub(crate) fn open(store: S, life: Arc<Life>, clock: Arc<dyn Clock>, receiving: Receiving) -> Self {
        let shared = Arc::new(Shared {
            store,
            life,
            clock,
            receiving,
            admissions: Mutex::default(),
            wake: Notify::new(),
            closing: CancellationToken::new(),
            asked: Asked::default(),
            settling: Mutex::default(),
        });
        shared.life.tell(shared.receiving.changed.clone());
        shared.receiving.following.tell(&shared.receiving.changed);
        let admits = shared.life.signs.watch("the admitting task", admit::run(shared.clone()));
        let admitting = spawn_in_span(admits);
        BrokerReader { shared, admitting: Filling::new(admitting) }
    }
}

impl<S: Store> Shared<S> {
    fn admissions(&self) -> MutexGuard<'_, Admissions> {
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meter(&self) -> Arc<Meter> {
        self.life.meters.of(&self.receiving.queue, || self.receiving.place.clone())
    }

    /// Takes a delivery that may run now. One that the broker hands out again, because the connection is gone, is not ours
    /// to run any more; the admitting task gives its row back.
    fn take(&self, admissions: &mut Admissions) -> Option<Delivery> {
        let Admissions { buffer, admitted, stale: met, .. } = admissions;
        let stale = |delivery: &Delivery| {
            !admitted.get(&delivery.message.key).is_some_and(Held::is_current)
                || delivery.claim.as_ref().is_some_and(|claim| !claim.locked && claim.owner != self.life.id())
        };
        if buffer.ready.front().is_some_and(&stale) || buffer.suspects.front().is_some_and(&stale) {
            *met = true;
            self.wake.notify_one();
            return None;
        }
        buffer.pop(&self.life)
    }
}

impl<S: Store> Reader for BrokerReader<S> {
    fn try_next(&self) -> crate::Result<Turn> {
        self.shared.asked.ask();
        let Receiving { following, changed, .. } = &self.shared.receiving;
        let mut admissions = self.shared.admissions();
        if let Some(turn) = admissions.buffer.refusal(&self.shared.closing, following, changed)? {
            return Ok(turn);
        }
        let Some(delivery) = self.shared.take(&mut admissions) else { return Ok(Turn::Empty) };
        admissions.in_flight += 1;
        if !admissions.buffer.ready.is_empty() {
            changed.notify_one();
        }
        Ok(Turn::Delivery(Box::new(delivery)))
    }

    async fn changed(&self) {
        self.shared.receiving.changed.notified().await;
    }

    async fn settle(&self, delivery: Delivery) -> crate::Result<()> {
        Ok(self.shared.settle_marked(delivery).await?)
    }

    /// What is not begun goes back to the broker; rows that are marked as ours are freed when the process deregisters, right
    /// after this.
    async fn close(&self) -> crate::Result<()> {
        self.shared.closing.cancel();
        self.admitting.ended().await;
        self.shared.settled().await;
        Ok(())
    }
}
