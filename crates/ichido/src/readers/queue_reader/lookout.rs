//! Looks into the queues of a process that have nothing to claim: once per poll interval, with one statement for all of them together, which
//! writes nothing. Claimers wait here, and one in whose queue there is something again is woken. Nobody waits: nobody looks.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{Store, process::Clock, store};

/// The claimers of a process that wait for something to claim.
#[derive(Default)]
pub(crate) struct Lookout {
    waiting: Mutex<Vec<Waiting>>,
    /// Somebody has begun to wait.
    more: Notify,
}

#[derive(Clone)]
struct Waiting {
    queue: Arc<str>,
    wake: Arc<Notify>,
}

/// A claimer that waits, until this is dropped.
pub(super) struct Place<'a> {
    lookout: &'a Lookout,
    wake: &'a Arc<Notify>,
}

impl Lookout {
    /// From now on this is notified when there is something to claim in the queue.
    pub(super) fn wait<'a>(&'a self, queue: &Arc<str>, wake: &'a Arc<Notify>) -> Place<'a> {
        self.waiting().push(Waiting { queue: queue.clone(), wake: wake.clone() });
        self.more.notify_one();
        Place { lookout: self, wake }
    }

    /// Looks, until the token is cancelled.
    pub(crate) async fn run<S: Store>(
        self: Arc<Self>,
        store: S,
        clock: Arc<dyn Clock>,
        poll: Duration,
        end: CancellationToken,
    ) {
        let looks = async {
            loop {
                if self.waiting().is_empty() {
                    self.more.notified().await;
                }
                clock.sleep(poll).await;
                self.look(&store).await;
            }
        };
        tokio::select! {
            () = end.cancelled() => {}
            () = looks => {}
        }
    }

    /// A look that fails wakes everybody: their claims find out what it is, and what is to be done about it.
    async fn look<S: Store>(&self, store: &S) {
        let waiting = self.waiting().clone();
        let mut queues: Vec<Arc<str>> = waiting.iter().map(|waiting| waiting.queue.clone()).collect();
        queues.sort_unstable();
        queues.dedup();
        if queues.is_empty() {
            return;
        }
        let there = store::claimable(store, &queues).await.unwrap_or_else(|error| {
            tracing::debug!(error = %error.in_full(), "cannot look into the queues");
            vec![true; queues.len()]
        });
        for waiting in &waiting {
            if queues.iter().zip(&there).any(|(queue, there)| *there && *queue == waiting.queue) {
                waiting.wake.notify_one();
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lookout.waiting().retain(|waiting| !Arc::ptr_eq(&waiting.wake, self.wake));
    }
}
