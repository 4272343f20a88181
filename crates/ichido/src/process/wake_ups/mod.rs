//! Wake-ups: who has sent something sends one, and whoever waits for messages of that queue looks at once instead of at the
//! next poll. It reaches the readers of this process directly, other processes of this host through `host`, and other hosts
//! through the database where that can be done ([`Wakeups::notify`](crate::store::Wakeups::notify)); `hearing` says when they look. A wake-up is a hint: it may
//! be lost, or come too early.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    Store,
    process::{rate::Rate, tasks::boxed},
    store,
};

#[cfg(unix)]
mod folder;
mod hearing;
mod host;

#[cfg(unix)]
pub use folder::Writers;
use hearing::{Hearing, Teller};
use host::Meeting;

/// When a send in a transaction of somebody else's is rung again: nobody tells us when it commits.
const AGAIN: [Duration; 7] = [
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(8),
    Duration::from_millis(20),
    Duration::from_millis(60),
    Duration::from_millis(200),
    Duration::from_millis(600),
];

/// How often other processes hear of a queue: some wake-ups go out at once, and then 125 a second.
const TOLD: Rate = Rate::new(Duration::from_millis(8), 25);

/// Chores look this much later than those who claim: somebody waits for these.
const BEHIND: Duration = Duration::from_millis(2);

/// Wakes idle workers when something was sent; all clones of a store share it.
#[derive(Clone, Default)]
pub struct WakeUps(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Where processes of this host find each other.
    folder: Option<Meeting>,
    waiting: Mutex<Vec<Waiter>>,
    hearing: Hearing,
    sent: Mutex<Sent>,
    /// Something is to be told before what the task sleeps for.
    more: Notify,
}

/// Who waits for messages of a queue.
struct Waiter {
    queue: Arc<str>,
    wake: Weak<Notify>,
    /// Nobody else would do what it does: it never waits for its turn.
    alone: bool,
}

/// What is still to be told.
#[derive(Default)]
struct Sent {
    queues: BTreeMap<Arc<str>, Telling>,
    /// A task is at it.
    runs: bool,
}

/// A queue to be told of, and whether others are to hear it too.
type Ring = (Arc<str>, bool);

/// How a queue is told of.
struct Telling {
    sent: Instant,
    /// How often it is still rung again.
    again: &'static [Duration],
    /// Others are to be told.
    others: bool,
    /// How often others may be told.
    rate: Rate,
}

impl WakeUps {
    /// Wake-ups shared by the processes of this user that use the same folder.
    #[must_use]
    pub fn in_folder(folder: PathBuf) -> Self {
        WakeUps::meeting(Meeting::new(folder, None))
    }

    /// Wake-ups shared by the processes of this host that use the same folder, and may write to the same file.
    #[must_use]
    pub fn beside(file: PathBuf, folder: PathBuf) -> Self {
        WakeUps::meeting(Meeting::new(folder, Some(file)))
    }

    fn meeting(meeting: Meeting) -> Self {
        WakeUps(Arc::new(Shared { folder: Some(meeting), ..Shared::default() }))
    }

    /// Wake-ups for everybody on this host who uses the database at this address.
    #[must_use]
    pub fn at(address: &str) -> Self {
        WakeUps::in_folder(host::folder(address))
    }

    /// From now on this is notified when something is sent to the queue, for as long as somebody else holds it.
    pub(crate) fn join(&self, queue: &Arc<str>, waiting: &Arc<Notify>) {
        self.add(queue, waiting, false);
    }

    /// The same for what only this process does, as long as it has the queue's chore lease.
    pub(crate) fn join_alone(&self, queue: &Arc<str>, waiting: &Arc<Notify>) {
        self.add(queue, waiting, true);
    }

    fn add(&self, queue: &Arc<str>, waiting: &Arc<Notify>, alone: bool) {
        let mut all = self.waiting();
        all.retain(|other| other.wake.strong_count() > 0);
        all.push(Waiter { queue: queue.clone(), wake: Arc::downgrade(waiting), alone });
    }

    /// So many processes use the database.
    pub(crate) fn fleet(&self, processes: u32) {
        self.0.hearing.fleet.store(processes, Ordering::Relaxed);
    }

    /// Wakes the workers of this process that wait for this queue.
    pub fn wake(&self, queue: &str) {
        self.wake_some(queue, |_| true);
    }

    fn wake_some(&self, queue: &str, whom: impl Fn(&Waiter) -> bool) {
        for waiter in self.waiting().iter().filter(|waiter| &*waiter.queue == queue && whom(waiter)) {
            if let Some(waiting) = waiter.wake.upgrade() {
                waiting.notify_one();
            }
        }
    }

    /// Another process has told of a queue. Who does alone what it does never waits for its turn, but lets those who claim go first.
    fn hear_of(&self, queue: &str, teller: Teller) {
        let waiting = self.waiting().iter().find(|waiter| &*waiter.queue == queue).map(|waiter| waiter.queue.clone());
        let Some(queue) = waiting else { return };
        if self.waiting().iter().any(|waiter| waiter.queue == queue && waiter.alone) {
            let (alone, of) = (self.clone(), queue.clone());
            tokio::spawn(async move {
                tokio::time::sleep(BEHIND).await;
                alone.wake_some(&of, |waiter| waiter.alone);
            });
        }
        let wait = self.0.hearing.wait(&queue, teller);
        if wait.is_zero() {
            return self.wake_some(&queue, |waiter| !waiter.alone);
        }
        if self.0.hearing.begin(&queue) {
            let wake_ups = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                wake_ups.0.hearing.end(&queue);
                wake_ups.wake_some(&queue, |waiter| !waiter.alone);
            });
        }
    }

    /// Wakes everybody, now: for a program that ends soon.
    pub async fn tell<S: Store>(&self, store: &S, queue: &str) {
        self.wake(queue);
        self.tell_others(store, queue).await;
    }

    /// Tells everybody that something was sent to a queue, here at once and elsewhere soon; `committed` if it is there for
    /// all to see, else it is rung a few times while the caller commits.
    pub(crate) fn sent<S: Store>(&self, store: &S, queue: &str, committed: bool) {
        self.wake(queue);
        let (mut sent, now) = (self.to_tell(), Instant::now());
        sent.queues.entry(queue.into()).or_insert_with(|| Telling::nothing(now)).note(committed, now);
        if sent.runs {
            self.0.more.notify_one();
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            sent.runs = true;
            runtime.spawn(boxed(self.clone().tell_all(store.clone())));
        }
    }

    /// May others be told of a queue at once, with the COMMIT of what was sent to it? If so, they count as told.
    pub(crate) fn take_turn(&self, queue: &str) -> bool {
        let (mut sent, now) = (self.to_tell(), Instant::now());
        let telling = sent.queues.entry(queue.into()).or_insert_with(|| Telling::nothing(now));
        let free = !telling.others && telling.rate.wait(now).is_zero();
        if free {
            telling.rate.take(now);
        }
        free
    }

    /// Tells whoever is on this host that something was sent to a queue; other hosts know.
    pub(crate) fn tell_host(&self, queue: &str) {
        self.wake(queue);
        host::tell(self.0.folder.as_ref(), queue);
    }

    /// Hears what other processes tell, until the token is cancelled.
    pub(crate) async fn hear<S: Store>(self, store: S, end: CancellationToken) {
        tokio::select! {
            () = end.cancelled() => {}
            () = host::hear(self.0.folder.as_ref(), |queue| self.hear_of(queue, Teller::Host)) => {}
            () = store.listen(|queue: &str| self.hear_of(queue, Teller::Database)) => {}
        }
    }

    /// Until nothing is left to be told.
    async fn tell_all<S: Store>(self, store: S) {
        let mut run = Run { wake_ups: self.clone(), over: false };
        while let Some((wait, due)) = self.due() {
            for (queue, others) in due {
                self.wake(&queue);
                if others {
                    self.tell_others(&store, &queue).await;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.0.more.notified() => {}
            }
        }
        run.over = true;
    }

    async fn tell_others<S: Store>(&self, store: &S, queue: &str) {
        host::tell(self.0.folder.as_ref(), queue);
        if let Err(error) = store::notify(store, queue).await {
            tracing::debug!(error = %error.in_full(), "cannot wake up other hosts for `{queue}`");
        }
    }

    /// What is to be told now, whether others are to hear it, and how long to wait for the next; none if all is told.
    fn due(&self) -> Option<(Duration, Vec<Ring>)> {
        let mut sent = self.to_tell();
        let now = Instant::now();
        sent.queues.retain(|_, telling| telling.is_left(now));
        let next = sent.queues.values().map(|telling| telling.next(now)).min();
        sent.runs = next.is_some();
        let mut due = Vec::new();
        for (queue, telling) in &mut sent.queues {
            if telling.next(now).is_zero() {
                due.push((queue.clone(), telling.take(now)));
            }
        }
        Some((next?.max(Duration::from_millis(1)), due))
    }

    fn to_tell(&self) -> MutexGuard<'_, Sent> {
        self.0.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that tells. It may be dropped with its runtime; the next send starts another one then.
struct Run {
    wake_ups: WakeUps,
    over: bool,
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.over {
            self.wake_ups.to_tell().runs = false;
        }
    }
}

impl Telling {
    /// Nothing is to be told.
    fn nothing(now: Instant) -> Self {
        Telling { sent: now, again: &[], others: false, rate: TOLD }
    }

    /// Something was sent. What is not committed yet, others cannot see yet; and what one transaction has committed says nothing of
    /// another that has not.
    fn note(&mut self, committed: bool, now: Instant) {
        if committed {
            self.others = true;
        } else {
            (self.sent, self.again) = (now, &AGAIN);
        }
    }

    /// Is there something to be told, or to be remembered because others have been told often?
    fn is_left(&self, now: Instant) -> bool {
        self.others || !self.again.is_empty() || !self.rate.until_full(now).is_zero()
    }

    /// How long until it is told next.
    fn next(&self, now: Instant) -> Duration {
        let others = if self.others { self.rate.wait(now) } else { self.rate.until_full(now) };
        match self.again.first() {
            Some(again) if !self.others => again.saturating_sub(now - self.sent),
            Some(again) => others.min(again.saturating_sub(now - self.sent)),
            None => others,
        }
    }

    /// It is told now; true if others are to hear it too.
    fn take(&mut self, now: Instant) -> bool {
        let rung = self.again.iter().take_while(|again| now - self.sent >= **again).count();
        self.again = &self.again[rung..];
        let wanted = self.others || rung > 0;
        let others = wanted && self.rate.wait(now).is_zero();
        self.others = wanted && !others;
        if others {
            self.rate.take(now);
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telling(again: &'static [Duration], committed: bool) -> Telling {
        Telling { sent: Instant::now(), again, others: committed, rate: TOLD }
    }

    #[test]
    fn a_hundred_a_second_are_told_at_once_and_of_more_none_is_forgotten() {
        let mut telling = telling(&[], true);
        let sent = telling.sent;
        let told = |telling: &mut Telling, every: u64| {
            let each = (0..1000).step_by(usize::try_from(every).unwrap()).map(|passed| {
                let now = sent + Duration::from_millis(passed);
                telling.others = true; // sent again
                telling.next(now).is_zero() && telling.take(now)
            });
            each.filter(|told| *told).count()
        };
        assert_eq!(told(&mut telling, 10), 100, "each of them at once");
        telling.rate = TOLD;
        let many = told(&mut telling, 1);
        assert!((100..=160).contains(&many), "{many} of 1000");
        let last = sent + Duration::from_secs(1);
        let wait = telling.next(last);
        assert!(telling.others && wait <= Duration::from_millis(8), "the last of them soon: {wait:?}");
        assert!(telling.take(last + wait) && telling.is_left(last + wait));
        assert!(!telling.is_left(last + Duration::from_secs(1)));
    }

    #[test]
    fn what_a_commit_tells_counts_as_told() {
        let (wake_ups, began) = (WakeUps::default(), Instant::now());
        let told = (0..100).filter(|_| wake_ups.take_turn("orders")).count();
        let more = usize::try_from(began.elapsed().as_millis() / 8).unwrap();
        assert!((25..=26 + more).contains(&told), "{told} of 100 at once");
        assert!(wake_ups.take_turn("mail"), "each queue has a bucket of its own");
    }

    #[test]
    fn what_may_not_be_committed_yet_is_rung_again_and_others_hear_it_too() {
        let mut telling = telling(&AGAIN, false);
        let sent = telling.sent;
        assert!(!telling.next(sent).is_zero(), "nobody else can see it yet");
        let (mut rung, mut heard) = (0, 0);
        for passed in 0..1000 {
            let now = sent + Duration::from_millis(passed);
            if telling.is_left(now) && telling.next(now).is_zero() {
                rung += 1;
                heard += usize::from(telling.take(now));
            }
        }
        assert_eq!((rung, heard), (AGAIN.len(), AGAIN.len()));
        assert!(telling.again.is_empty() && !telling.others);
    }

    #[test]
    fn what_another_has_committed_does_not_end_the_rings_of_who_has_not() {
        let mut telling = telling(&AGAIN, false);
        let sent = telling.sent;
        telling.note(true, sent);
        assert!(telling.take(sent), "of what is committed others hear at once");
        let last = sent + AGAIN[AGAIN.len() - 1];
        assert!(telling.is_left(last) && telling.take(last), "and once more of what is committed by now");
    }

    #[tokio::test]
    async fn who_hears_of_a_queue_looks_once_and_who_does_it_alone_at_once() {
        let (wake_ups, orders, chores) = (WakeUps::default(), Arc::new(Notify::new()), Arc::new(Notify::new()));
        wake_ups.join(&"orders".into(), &orders);
        wake_ups.join_alone(&"orders".into(), &chores);
        wake_ups.fleet(64);
        (0..9).for_each(|_| wake_ups.hear_of("orders", Teller::Host));
        chores.notified().await;
        orders.notified().await;
    }

    #[tokio::test]
    async fn who_waits_for_a_queue_is_told_and_nobody_else() {
        let wake_ups = WakeUps::default();
        let (orders, mail) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        wake_ups.join(&"orders".into(), &orders);
        wake_ups.join(&"mail".into(), &mail);
        wake_ups.wake("orders");
        orders.notified().await;
        assert!(tokio::time::timeout(Duration::from_millis(1), mail.notified()).await.is_err());
        drop(mail);
        wake_ups.join(&"orders".into(), &orders);
        assert_eq!(wake_ups.waiting().len(), 2, "who is gone is forgotten");
    }
}
