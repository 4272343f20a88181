//! Whether a process is ready, for the probes of an application that runs it: `dispatch` notes its life while it serves.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::life::Life;

/// Tells whether a process is ready; it can be asked from anywhere, also before the process runs and after it has ended.
///
/// ```
/// # fn probe<S: ichido::Store>(process: ichido::Process<S>) {
/// let readiness = process.readiness();
/// tokio::spawn(process.run());
/// // and in the handler of GET /readyz:
/// let status = if readiness.is_ready() { 200 } else { 503 };
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Readiness(Arc<Mutex<Weak<Life>>>);

impl Readiness {
    /// Is the process registered, does its heartbeat succeed, and has nobody stopped it? One that is paused is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade().is_some_and(|life| life.serves())
    }

    /// It serves from now on, until what is returned is dropped.
    pub(crate) fn begin(&self, life: &Arc<Life>) -> Serving {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(life);
        Serving(self.clone())
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Readiness").field(&self.is_ready()).finish()
    }
}

/// Held while a process serves.
pub(crate) struct Serving(Readiness);

impl Drop for Serving {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = Weak::new();
    }
}
