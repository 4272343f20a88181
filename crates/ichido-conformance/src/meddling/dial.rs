//! A clock for the chores of a process. They sleep until the test sends them on with [`Dial::tick`], which says how much time
//! has passed meanwhile; everybody else only takes a nap. So no time passes in the middle of a tick.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ichido::{BoxFuture, Clock};
use tokio::sync::{Mutex as Waiting, mpsc, watch};

use super::in_time;

/// How long a nap is.
const NAP: Duration = Duration::from_millis(2);

/// A clock that a test turns.
#[derive(Clone, Debug)]
pub struct Dial(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    chores: Duration,
    now: Mutex<Instant>,
    jump: mpsc::UnboundedSender<Duration>,
    jumps: Waiting<mpsc::UnboundedReceiver<Duration>>,
    asleep: watch::Sender<u32>,
    naps: watch::Sender<u32>,
}

impl Dial {
    /// Whoever sleeps exactly so long is taken for the chores.
    #[must_use]
    pub fn new(chores: Duration) -> Self {
        let (jump, jumps) = mpsc::unbounded_channel();
        let (asleep, naps) = (watch::Sender::new(0), watch::Sender::new(0));
        Dial(Arc::new(Inner {
            chores,
            now: Mutex::new(Instant::now()),
            jump,
            jumps: Waiting::new(jumps),
            asleep,
            naps,
        }))
    }

    /// Wakes the chores when so much time has passed, and resolves when they sleep again.
    pub async fn tick(&self, passed: Duration) {
        let before = self.wake(passed).await;
        self.asleep_after(before).await;
    }

    /// Wakes the chores when so much time has passed, and says how often they have slept before.
    pub async fn wake(&self, passed: Duration) -> u32 {
        self.asleep_after(0).await;
        let before = self.slept();
        self.0.jump.send(passed).expect("the receiver is ours");
        before
    }

    /// How often the chores have gone to sleep.
    #[must_use]
    pub fn slept(&self) -> u32 {
        *self.0.asleep.borrow()
    }

    /// Resolves when the chores have gone to sleep more often than that.
    pub async fn asleep_after(&self, before: u32) {
        let mut asleep = self.0.asleep.subscribe();
        let next = in_time(asleep.wait_for(|asleep| *asleep > before), "the chores did not come to their end").await;
        drop(next.expect("the sender is ours"));
    }

    /// So much time passes now, whoever is awake.
    pub fn pass(&self, time: Duration) {
        *self.0.now.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }

    /// Resolves when others have begun so many more naps.
    pub async fn naps(&self, more: u32) {
        let mut naps = self.0.naps.subscribe();
        let before = *naps.borrow_and_update();
        let later = in_time(naps.wait_for(|naps| *naps >= before + more), "nobody takes a nap").await;
        drop(later.expect("the sender is ours"));
    }
}

impl Clock for Dial {
    fn now(&self) -> Instant {
        *self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let inner = self.0.clone();
        if time != inner.chores {
            inner.naps.send_modify(|naps| *naps += 1);
            return Box::pin(tokio::time::sleep(NAP));
        }
        inner.asleep.send_modify(|asleep| *asleep += 1);
        Box::pin(async move {
            let jump = inner.jumps.lock().await.recv().await.expect("the sender is ours");
            Dial(inner.clone()).pass(jump);
        })
    }
}
