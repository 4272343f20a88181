//! What a reader has at hand for its workers, and in which order they get it: suspects alone, the rest as it came. A task of the
//! reader fills it and says here how it ended; what the database failed under comes back to it; `try_next` empties it. The
//! readers of queues and of brokers have one each, inside their own state and under its lock.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    Delivery, Error,
    error::Result,
    process::{flags::Following, life::Life},
    readers::Turn,
};

/// Deliveries that are ours and not begun, and how their reader ended, if it has.
#[derive(Default)]
pub(super) struct Buffer {
    pub(super) ready: VecDeque<Delivery>,
    /// Those that a process died with; they run one at a time.
    pub(super) suspects: VecDeque<Delivery>,
    /// What kept the reader from reading; one worker hears it.
    pub(super) error: Option<Error>,
    /// Nothing will come any more.
    pub(super) finished: bool,
}

impl Buffer {
    /// How many are not begun.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.suspects.len()
    }

    pub(super) fn put(&mut self, delivery: Delivery) {
        if delivery.is_suspect() { self.suspects.push_back(delivery) } else { self.ready.push_back(delivery) }
    }

    /// Takes out what is not begun.
    pub(super) fn take_all(&mut self) -> Vec<Delivery> {
        self.ready.drain(..).chain(self.suspects.drain(..)).collect()
    }

    /// The delivery that would be taken now.
    pub(super) fn head(&self, life: &Life) -> Option<&Delivery> {
        let suspect = self.suspects.front().filter(|_| !life.suspect_runs());
        suspect.or(self.ready.front())
    }

    /// Takes a delivery that may run now: a suspect, if no other one runs in the process, or else the next that is ready.
    pub(super) fn pop(&mut self, life: &Arc<Life>) -> Option<Delivery> {
        if !self.suspects.is_empty()
            && let Some(alone) = life.alone()
        {
            let suspect = self.suspects.pop_front();
            return suspect.map(|suspect| Delivery { alone: Some(alone), ..suspect });
        }
        self.ready.pop_front()
    }

    /// What a worker hears instead of getting something: an error, that nothing will come, or that there is a pause. None: it may
    /// take what there is.
    pub(super) fn refusal(
        &mut self,
        closing: &CancellationToken,
        following: &Following,
        changed: &Notify,
    ) -> Result<Option<Turn>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if closing.is_cancelled() || self.finished || following.stop.is_cancelled() {
            changed.notify_one(); // the next worker must hear it too
            return Ok(Some(Turn::Finished));
        }
        Ok(following.is_paused().then_some(Turn::Empty))
    }
}

/// Has a worker asked for something yet? What starts before the workers may take its time.
#[derive(Default)]
pub(super) struct Asked(CancellationToken);

impl Asked {
    pub(super) fn ask(&self) {
        if !self.0.is_cancelled() {
            self.0.cancel();
        }
    }

    pub(super) async fn wait(&self) {
        self.0.cancelled().await;
    }
}

/// The task that fills the buffer.
pub(super) struct Filling(Mutex<Option<JoinHandle<()>>>);

impl Filling {
    pub(super) fn new(task: JoinHandle<()>) -> Self {
        Filling(Mutex::new(Some(task)))
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }
}
