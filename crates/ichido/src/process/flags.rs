//! The flags that operators set per request id: `ichido stop` and `pause`. Stores keep them, `upkeep` reads them once per
//! check interval, and each pool follows those of its request id: its workers through `process stop`, its reader by
//! claiming nothing and releasing what is not begun.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// What an operator asks of a request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Its processes stop, and new ones do not start.
    Stop,
    /// Its processes idle.
    Pause,
}

/// The flags of one request id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Flags {
    /// Its processes stop, and new ones do not start.
    pub stopped: bool,
    /// Its processes idle.
    pub paused: bool,
}

/// How a request id is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequestState {
    /// The request id.
    pub request_id: String,
    /// How many live processes serve it.
    pub processes: usize,
    /// What operators ask of it.
    #[serde(flatten)]
    pub flags: Flags,
}

impl RequestState {
    /// A request id that nobody serves and of which nobody asks anything.
    pub fn new(request_id: impl Into<String>) -> Self {
        RequestState { request_id: request_id.into(), processes: 0, flags: Flags::default() }
    }
}

/// A pool as far as flags concern it; clones are of the same pool.
#[derive(Clone)]
pub(crate) struct Following {
    pub(crate) request_id: Arc<str>,
    /// Of this pool alone; the process's stop stops it too.
    pub(crate) stop: CancellationToken,
    seen: Arc<watch::Sender<Flags>>,
    /// Where its workers wait for deliveries.
    waiting: Arc<Mutex<Vec<Arc<Notify>>>>,
}

impl Following {
    pub(crate) fn new(request_id: Arc<str>, stop: &CancellationToken) -> Self {
        let seen = Arc::new(watch::Sender::new(Flags::default()));
        Following { request_id, stop: stop.child_token(), seen, waiting: Arc::default() }
    }

    /// From now on this is told when a pause ends: a worker that looked during the pause got nothing, whatever is at hand.
    pub(crate) fn tell(&self, changed: &Arc<Notify>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(changed.clone());
    }

    /// These are the flags now. Who was stopped stays stopped.
    pub(crate) fn see(&self, flags: Flags) {
        let before = self.seen.send_replace(flags);
        let request_id = &self.request_id;
        match (before.paused, flags.paused) {
            (false, true) => tracing::info!("`{request_id}` is paused until `ichido resume {request_id}`"),
            (true, false) => {
                tracing::info!("`{request_id}` is resumed");
                self.waiting
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .iter()
                    .for_each(|waiting| waiting.notify_one());
            }
            _ => {}
        }
        if flags.stopped && !self.stop.is_cancelled() {
            tracing::info!(
                "`{request_id}` is stopped: running messages finish, the rest is released; `ichido unstop \
                 {request_id}` lets it start again"
            );
            self.stop.cancel();
        }
    }

    /// Was it stopped by its flag?
    pub(crate) fn is_stopped(&self) -> bool {
        self.seen.borrow().stopped
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.seen.borrow().paused
    }

    /// Must it claim nothing and keep nothing that is not begun?
    pub(crate) fn is_held(&self) -> bool {
        self.stop.is_cancelled() || self.is_paused()
    }

    /// Resolves when it is held.
    pub(crate) async fn held(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.until(|flags| flags.paused) => {}
        }
    }

    /// Resolves when it is not paused; a pool that is stopped need not wait for that.
    pub(crate) async fn resumed(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.until(|flags| !flags.paused) => {}
        }
    }

    async fn until(&self, reached: impl Fn(&Flags) -> bool) {
        // The sender is ours: it is not gone.
        let _ = self.seen.subscribe().wait_for(reached).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSED: Flags = Flags { stopped: false, paused: true };

    #[tokio::test]
    async fn a_paused_pool_is_held_until_it_is_resumed_or_stopped() {
        let process = CancellationToken::new();
        let pool = Following::new("R1".into(), &process);
        assert!(!pool.is_held());
        pool.see(PAUSED);
        pool.held().await;
        assert!(pool.is_held() && pool.is_paused() && !pool.is_stopped());
        pool.see(Flags::default());
        pool.resumed().await;
        assert!(!pool.is_held());
        pool.see(PAUSED);
        process.cancel();
        pool.resumed().await;
        assert!(pool.is_held() && !pool.is_stopped(), "the process was stopped, not the request id");
    }

    #[tokio::test]
    async fn a_stop_concerns_its_pool_alone_and_is_not_taken_back() {
        let process = CancellationToken::new();
        let (one, other) = (Following::new("R1".into(), &process), Following::new("R2".into(), &process));
        one.see(Flags { stopped: true, paused: false });
        one.held().await;
        assert!(one.is_stopped() && !other.is_held() && !process.is_cancelled());
        one.see(Flags::default());
        assert!(one.is_held(), "its workers are on their way out");
    }
}
