//! Messages cancelled by their ids, or all of a queue, in bounded transactions. What is cancelled is told when that is committed, and not before.
//! What runs under a lock is asked for and waited for; what is done stays done and is told. A broker may have dead letters of what had failed.

use std::time::{Duration, Instant};

use crate::{
    Error, Inspect, MessageId,
    inspect::ParkedFilter,
    message::cancel_within,
    store::{Cancellable, Cancelled},
};

/// So many messages are cancelled in one transaction.
const PAGE: usize = 100;

/// So many are listed at most, of those that are locked, or that would be cancelled.
const LISTED: usize = 10_000;

/// Messages move from one state to the other meanwhile: what is claimed was ready a moment ago.
const ROUNDS: u32 = 3;

/// Who is told what becomes of messages.
pub trait CancelReport: Send {
    /// Why nothing more is cancelled.
    type Error: Send;

    /// What became of a message.
    ///
    /// # Errors
    /// It cannot be told; nothing more is cancelled.
    fn tell(&mut self, id: &MessageId, result: Cancelled) -> Result<(), Self::Error>;

    /// This message of a broker's queue has failed: if it is cancelled, its dead letter is of no use any more.
    fn has_failed(&mut self, id: &MessageId);

    /// The database failed.
    fn failed(&self, error: Error) -> Self::Error;

    /// The database failed to the end: whether this message is cancelled is not known.
    fn unsure(&self, id: &MessageId, error: Error) -> Self::Error;
}

/// Cancels messages.
#[derive(Debug, Clone, Copy)]
pub struct Canceller<'a, S> {
    /// Of this store.
    pub store: &'a S,
    /// Nothing is changed, and nobody asked.
    pub dry_run: bool,
    /// How long messages that run are waited for.
    pub wait: Duration,
    /// No more than so many of a queue are cancelled, if any number is meant.
    pub most: usize,
}

impl<S: Inspect> Canceller<'_, S> {
    /// All are asked for before the first is waited for.
    ///
    /// # Errors
    /// Whatever `report` makes of it.
    pub async fn these<R: CancelReport>(&self, ids: Vec<MessageId>, report: &mut R) -> Result<(), R::Error> {
        let (begun, mut later) = (Instant::now(), Vec::new());
        for id in ids {
            if self.is_failed(&id).await.map_err(|error| report.failed(error))? {
                report.has_failed(&id);
            }
            let looked = if self.dry_run { self.store.would_cancel(&id).await } else { self.store.cancel(&id).await };
            match looked {
                Ok(Cancelled::Asked) if !self.dry_run => later.push((id, true)),
                Err(error) if error.is_fault::<S>() && !self.dry_run => later.push((id, false)),
                Ok(looked) => report.tell(&id, looked)?,
                Err(error) => return Err(report.failed(error)),
            }
        }
        for (id, seen) in later {
            let wait = self.wait.saturating_sub(begun.elapsed());
            let looked = match cancel_within(self.store, &id, wait).await {
                // It was not, when this began.
                Ok(Cancelled::Already) => Cancelled::Cancelled,
                // It was there.
                Ok(Cancelled::Unknown) if seen => Cancelled::Done,
                Ok(looked) => looked,
                Err(error) => return Err(report.unsure(&id, error)),
            };
            report.tell(&id, looked)?;
        }
        Ok(())
    }

    /// Has it failed, in a queue of a broker?
    async fn is_failed(&self, id: &MessageId) -> crate::error::Result<bool> {
        if self.dry_run || !self.store.broker_queues().contains(&id.queue) {
            return Ok(false);
        }
        let filter = ParkedFilter { id: Some(id.clone()), ..ParkedFilter::default() };
        Ok(!self.store.parked(&filter).await?.is_empty())
    }

    /// Every message of the queue that is in one of these states, up to the bound.
    ///
    /// # Errors
    /// Whatever `report` makes of it.
    pub async fn all<R: CancelReport>(
        &self,
        queue: &str,
        states: &[Cancellable],
        report: &mut R,
    ) -> Result<(), R::Error> {
        let mut left = self.most;
        for _ in 0..if self.dry_run { 0 } else { ROUNDS } {
            let cancelled = self.round(queue, states, left, report).await?;
            left = left.saturating_sub(cancelled);
            if cancelled == 0 {
                break;
            }
        }
        let mut locked = Vec::new();
        for state in states {
            let most = LISTED.min(left.saturating_sub(locked.len()));
            if most > 0 {
                let found = self.store.cancellable(queue, *state, most).await;
                locked.extend(found.map_err(|error| report.failed(error))?);
            }
        }
        self.these(locked, report).await
    }

    /// Those that nobody has locked, up to so many; how many.
    async fn round<R: CancelReport>(
        &self,
        queue: &str,
        states: &[Cancellable],
        most: usize,
        report: &mut R,
    ) -> Result<usize, R::Error> {
        let mut cancelled = 0;
        for state in states {
            while cancelled < most {
                let page = self.store.cancel_some(queue, *state, PAGE.min(most - cancelled)).await;
                let page = page.map_err(|error| report.failed(error))?;
                for id in &page {
                    if *state == Cancellable::Failed {
                        report.has_failed(id);
                    }
                    report.tell(id, Cancelled::Cancelled)?;
                }
                cancelled += page.len();
                if page.len() < PAGE {
                    break;
                }
            }
        }
        Ok(cancelled)
    }
}
