//! Wake-ups: who has sent something sends one, and whoever waits for messages of that queue looks at once instead of at the
//! next poll. It reaches the readers of this process directly, other processes of this host through `host`, and other hosts
//! through the database where that can be done ([`Wakeups::notify`](crate::store::Wakeups::notify)). A wake-up is a hint: it may be lost, or come too early.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{Store, store};

#[cfg(unix)]
mod folder;
mod host;

#[cfg(unix)]
pub use folder::Writers;
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

/// Other processes hear of a queue at most this often.
const QUIET: Duration = Duration::from_millis(50);

/// Wakes idle workers when something was sent; all clones of a store share it.
#[derive(Clone, Default)]
pub struct WakeUps(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Where processes of this host find each other.
    folder: Option<Meeting>,
    /// Those who wait, by queue.
    waiting: Mutex<Vec<(Arc<str>, Weak<Notify>)>>,
    sent: Mutex<Sent>,
    /// Something is to be told before what the task sleeps for.
    more: Notify,
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
    /// When others were last told.
    told: Option<Instant>,
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
        let mut all = self.waiting();
        all.retain(|(_, other)| other.strong_count() > 0);
        all.push((queue.clone(), Arc::downgrade(waiting)));
    }

    /// Wakes the workers of this process that wait for this queue.
    pub fn wake(&self, queue: &str) {
        for (_, waiting) in self.waiting().iter().filter(|(other, _)| &**other == queue) {
            if let Some(waiting) = waiting.upgrade() {
                waiting.notify_one();
            }
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
        let mut sent = self.to_tell();
        let told = sent.queues.get(queue).and_then(|telling| telling.told);
        let again: &[Duration] = if committed { &[] } else { &AGAIN };
        sent.queues.insert(queue.into(), Telling { sent: Instant::now(), again, others: true, told });
        if sent.runs {
            self.0.more.notify_one();
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            sent.runs = true;
            runtime.spawn(self.clone().tell_all(store.clone()));
        }
    }

    /// Hears what other processes tell, until the token is cancelled.
    pub(crate) async fn hear<S: Store>(self, store: S, end: CancellationToken) {
        let wake = |queue: &str| self.wake(queue);
        tokio::select! {
            () = end.cancelled() => {}
            () = host::hear(self.0.folder.as_ref(), wake) => {}
            () = store.listen(wake) => {}
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

    fn waiting(&self) -> MutexGuard<'_, Vec<(Arc<str>, Weak<Notify>)>> {
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
    /// Is there something to be told, or to be remembered for the sake of quiet?
    fn is_left(&self, now: Instant) -> bool {
        self.others || !self.again.is_empty() || self.told.is_some_and(|told| now - told < QUIET)
    }

    /// How long until it is told next.
    fn next(&self, now: Instant) -> Duration {
        let quiet = self.told.map_or(Duration::ZERO, |told| QUIET.saturating_sub(now - told));
        let others = if self.others { quiet } else { QUIET };
        match self.again.first() {
            Some(again) => others.min(again.saturating_sub(now - self.sent)),
            None => others,
        }
    }

    /// It is told now; true if others are to hear it too.
    fn take(&mut self, now: Instant) -> bool {
        let rung = self.again.iter().take_while(|again| now - self.sent >= **again).count();
        let others = (self.others || rung > 0) && self.told.is_none_or(|told| now - told >= QUIET);
        self.others = !others && (self.others || rung > 0);
        self.again = &self.again[rung..];
        if others {
            self.told = Some(now);
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telling(again: &'static [Duration]) -> Telling {
        Telling { sent: Instant::now(), again, others: true, told: None }
    }

    #[test]
    fn others_hear_at_once_and_then_not_again_for_a_while() {
        let mut telling = telling(&[]);
        let now = telling.sent;
        assert_eq!(telling.next(now), Duration::ZERO);
        assert!(telling.take(now));
        telling.others = true; // sent again
        let soon = now + Duration::from_millis(10);
        assert_eq!(telling.next(soon), Duration::from_millis(40));
        assert!(!telling.take(soon), "it is too soon");
        assert!(telling.take(now + QUIET), "but it is not forgotten");
        assert!(!telling.is_left(now + QUIET + QUIET));
    }

    #[test]
    fn what_may_not_be_committed_yet_is_rung_again_and_others_hear_the_last_of_it() {
        let mut telling = telling(&AGAIN);
        let sent = telling.sent;
        let (mut rung, mut heard) = (0, 0);
        for passed in 0..1000 {
            let now = sent + Duration::from_millis(passed);
            if telling.is_left(now) && telling.next(now).is_zero() {
                rung += 1;
                heard += u32::from(telling.take(now));
            }
        }
        assert!(rung > AGAIN.len() && (4..=6).contains(&heard), "rung {rung}, heard {heard}");
        assert!(telling.again.is_empty() && !telling.others);
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
