//! What probes and monitors ask of a process that runs in this program: is it live (its own loops move), is it ready (it claims), what has it
//! measured? The answers come from memory and cost no query, so a database that is away is no reason to restart. `dispatch` says when a process begins and
//! ends; what its loops leave behind is in `signs`.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::life::Life;
use crate::stat::Measures;

/// Answers a program's own probes about the [`Process`](crate::Process) that it came from. Clones are of the same process.
///
/// ```
/// # fn probe<S: ichido::Store>(process: ichido::Process<S>) {
/// let probe = process.probe();
/// tokio::spawn(process.run());
/// // and in the handler of GET /readyz:
/// let status = if probe.ready().is_ok() { 200 } else { 503 };
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<Stage>>);

enum Stage {
    /// For the first time, or again after an outage that ended this life.
    Starting(Option<Arc<Life>>),
    Running(Arc<Life>, Duration),
    Ended,
}

impl Default for Stage {
    fn default() -> Self {
        Stage::Starting(None)
    }
}

impl Probe {
    /// Do the process's own loops move? One that is starting, or has ended, has none that could be stuck.
    ///
    /// # Errors
    /// What does not move, and since when.
    pub fn live(&self) -> Result<(), String> {
        match &*self.stage() {
            Stage::Running(life, lease) => life.signs.live(life, *lease),
            Stage::Starting(_) | Stage::Ended => Ok(()),
        }
    }

    /// Does the process claim messages?
    ///
    /// # Errors
    /// Why not: it is starting, paused, stopping, or not sure of its heartbeat.
    pub fn ready(&self) -> Result<(), &'static str> {
        match &*self.stage() {
            Stage::Starting(_) => Err("starting"),
            Stage::Running(life, _) if life.is_stopping() => Err("stopping"),
            Stage::Running(life, _) if life.is_paused() => Err("paused"),
            Stage::Running(life, _) if life.may_claim().is_none() => Err("its heartbeat is in doubt"),
            Stage::Running(..) => Ok(()),
            Stage::Ended => Err("ended"),
        }
    }

    /// What the process has measured so far, without a query; none before it has started and after it has ended.
    #[must_use]
    pub fn measures(&self) -> Option<Measures> {
        match &*self.stage() {
            Stage::Starting(Some(life)) | Stage::Running(life, _) => Some(life.measures()),
            Stage::Starting(None) | Stage::Ended => None,
        }
    }

    pub(crate) fn begin(&self, life: Arc<Life>, lease: Duration) -> Began {
        *self.stage() = Stage::Running(life, lease);
        Began(self.clone())
    }

    pub(crate) fn end(&self) {
        *self.stage() = Stage::Ended;
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held while workers run. After a fault they may start again.
pub(crate) struct Began(Probe);

impl Drop for Began {
    fn drop(&mut self) {
        let mut stage = self.0.stage();
        if let Stage::Running(life, _) = &*stage {
            *stage = if life.is_stopping() { Stage::Ended } else { Stage::Starting(Some(life.clone())) };
        }
    }
}
