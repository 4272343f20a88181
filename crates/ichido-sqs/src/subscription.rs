//! Deliveries of a queue. The reader of a pool asks it for the next one, which never waits, and gives each delivery back with what shall become of
//! it. What it holds comes from `receiving`, and stays out of sight of others until it is settled (`renewal`, `settling`).

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ichido::broker::{RowName, Unpublished};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    Delivery, Envelope, Publisher, Result, Server, Settings, Topology,
    asking::Asking,
    header::{REASON, ROW, is_plain},
    in_hand::InHand,
    receiving::together,
    renewal,
    settling::Settling,
};

/// How long a source that closes waits for receives that are under way.
const CLOSING: Duration = Duration::from_secs(1);

/// In bytes.
const LONGEST_REASON: usize = 2000;

/// The longest time for which a message that comes too early is sent back.
const LONGEST_WAIT: Duration = Duration::from_mins(15);

/// Hands out deliveries of one queue, shared by all workers of a pool. When it is dropped, what is not settled comes back after its
/// visibility timeout.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) topology: Topology,
    pub(crate) settings: Settings,
    pub(crate) prefetch: u16,
    publisher: Publisher,
    settling: Settling,
    in_hand: Mutex<InHand>,
    asking: Mutex<Asking>,
    /// The reader waits here.
    pub(crate) changed: Notify,
    /// There is room for more.
    pub(crate) freed: Notify,
    pub(crate) closed: watch::Sender<bool>,
}

impl Subscription {
    pub(crate) fn start(
        server: Server,
        topology: Topology,
        settings: Settings,
        prefetch: u16,
        publisher: Publisher,
    ) -> Self {
        let prefetch = prefetch.max(1);
        let settling = Settling::start(&server, &topology.queue, together(prefetch));
        let shared = Arc::new(Shared {
            server,
            topology,
            settings,
            prefetch,
            publisher,
            settling,
            in_hand: Mutex::default(),
            asking: Mutex::default(),
            changed: Notify::new(),
            freed: Notify::new(),
            closed: watch::Sender::new(false),
        });
        let tasks = [tokio::spawn(Arc::clone(&shared).run()), tokio::spawn(renewal::run(Arc::clone(&shared)))];
        Self { shared, tasks }
    }

    /// The next delivery with its number, if there is one at hand. Never waits.
    pub(crate) fn try_next(&self) -> Option<(u64, Arc<Delivery>)> {
        if self.shared.is_closed() { None } else { self.shared.in_hand().next() }
    }

    /// Resolves when `try_next` may find something, or nothing will come any more.
    pub async fn changed(&self) {
        // Before the look, so that nothing comes unheard between the two.
        let rung = self.shared.changed.notified();
        if !self.shared.in_hand().has_ready() && !self.shared.is_closed() {
            rung.await;
        }
    }

    /// So many deliveries that are not settled it hands out at most.
    #[must_use]
    pub fn prefetch(&self) -> u16 {
        self.shared.prefetch
    }

    /// Has SQS been asked, with time to answer, and does it answer?
    #[must_use]
    pub fn is_open(&self) -> bool {
        let asking = self.shared.asking();
        asking.why_not.is_none() && (asking.some.is_some() || asking.is_late())
    }

    /// Why nothing is received now, if that is known.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.shared.asking().why_not.clone()
    }

    /// Has the queue more? As far as the last receives can tell: whether they found something, and the next one is not overdue.
    #[must_use]
    pub fn has_more(&self) -> bool {
        let room = self.shared.room();
        let asking = self.shared.asking();
        let soon = asking.receives == 0 || !asking.is_late();
        room == 0 && asking.receives == 0 || asking.why_not.is_none() && asking.some.unwrap_or(true) && soon
    }

    pub(crate) fn is_current(&self, tag: u64) -> bool {
        self.shared.in_hand().is_current(tag, Instant::now())
    }

    /// It is done: SQS deletes it.
    pub(crate) async fn ack(&self, tag: u64) {
        let Some((delivery, others)) = self.shared.in_hand().settles(tag) else { return };
        self.shared.changed.notify_waiters();
        self.shared.settling.delete(&delivery.receipt, others).await;
        self.shared.finish(tag);
    }

    /// It goes back to the queue, for anybody, at once.
    pub(crate) async fn release(&self, tag: u64) {
        self.hide(tag, Duration::ZERO).await;
    }

    /// Somebody else is at it: it comes back after the busy delay.
    pub(crate) async fn busy(&self, tag: u64) {
        self.hide(tag, self.shared.settings.busy_delay).await;
    }

    /// Its message waits for its due time and is published again then. Where order is kept, it stays at its place out of sight, if SQS can hide
    /// it for so long; anywhere else it is of no use.
    pub(crate) async fn later(&self, tag: u64, due_in: Option<Duration>) {
        let Some(delivery) = self.shared.in_hand().find(tag) else { return };
        let early = self.shared.settings.busy_delay.saturating_mul(1 << delivery.receives.min(10));
        let wait = due_in.unwrap_or(early.min(LONGEST_WAIT));
        if !self.shared.topology.is_fifo() || wait >= self.shared.in_hand().room(tag, Instant::now()) {
            return self.ack(tag).await;
        }
        self.hide(tag, wait).await;
    }

    /// It goes to the dead letters, with the reason, and is there before it is deleted here.
    ///
    /// # Errors
    /// If it could not be put there. It is not settled then.
    pub(crate) async fn dead_letter(&self, tag: u64, reason: &str, row: Option<&RowName>) -> Result<(), Unpublished> {
        let Some(delivery) = self.shared.in_hand().find(tag) else { return Ok(()) };
        let (reason, row) = (shortened(reason), row.map(ToString::to_string));
        let mut beside = vec![(REASON, reason.as_str())];
        beside.extend(row.as_deref().map(|row| (ROW, row)));
        let letter = Envelope::dead_letter(&delivery, &self.shared.topology.dead_letter, &beside);
        let mut sent = self.shared.publisher.publish_one(letter.clone()).await;
        if let Err(Unpublished::Unroutable(_)) = sent
            && self.shared.topology.declare
            && self.shared.topology.declare(&self.shared.server).await.is_ok()
        {
            sent = self.shared.publisher.publish_one(letter).await;
        }
        sent?;
        self.ack(tag).await;
        Ok(())
    }

    async fn hide(&self, tag: u64, time: Duration) {
        let Some(delivery) = self.shared.in_hand().find(tag) else { return };
        // Those behind it are out of sight for as long, or a server that takes the group for free would hand them out first.
        let mut all = vec![delivery];
        all.extend(self.shared.in_hand().comes_again(tag));
        self.shared.hide_all(&all, time).await;
        self.shared.freed.notify_one();
    }

    /// Stops receiving and releases what nobody has taken; what was taken can still be settled. A long poll that is under way ends by itself, and
    /// what it brings goes back. It may bring what was just released: that is waited for.
    pub async fn close(&self) {
        self.shared.closed.send_replace(true);
        self.shared.changed.notify_waiters();
        let untaken = self.shared.in_hand().take_untaken();
        if untaken.is_empty() {
            return;
        }
        self.shared.hide_all(&untaken, Duration::ZERO).await;
        let answered = async {
            while self.shared.asking().receives > 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = timeout(CLOSING, answered).await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.closed.send_replace(true);
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    fn finish(&self, tag: u64) {
        self.in_hand().finished(tag);
        self.freed.notify_one();
        self.changed.notify_waiters();
    }

    /// Releases deliveries that are not in hand any more, without waiting for it.
    pub(crate) fn give_back(self: &Arc<Self>, deliveries: Vec<Arc<Delivery>>) {
        if !deliveries.is_empty() {
            let shared = Arc::clone(self);
            tokio::spawn(async move { shared.hide_all(&deliveries, Duration::ZERO).await });
        }
    }

    pub(crate) async fn hide_all(&self, deliveries: &[Arc<Delivery>], time: Duration) {
        let receipts = deliveries.iter().map(|delivery| delivery.receipt.as_str());
        let gone = self.settling.hide_all(receipts, time).await;
        if gone > 0 {
            tracing::debug!(queue = self.topology.queue, gone, "deliveries come back only when they expire");
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub(crate) fn in_hand(&self) -> MutexGuard<'_, InHand> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn asking(&self) -> MutexGuard<'_, Asking> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The whole text is with the message's row; here it must be short, and what SQS takes.
fn shortened(reason: &str) -> String {
    let short = &reason[..reason.floor_char_boundary(LONGEST_REASON)];
    let kept: String = short.chars().map(|c| if is_plain(c.encode_utf8(&mut [0; 4])) { c } else { ' ' }).collect();
    if kept.is_empty() { "no reason given".to_owned() } else { kept }
}
