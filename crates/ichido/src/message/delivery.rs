//! One handing-over of a message, with the claim that makes it ours. Readers make deliveries, the transaction handler
//! marks what became of them, and the reader settles them by that mark.

use std::time::{Duration, Instant};

use crate::{
    Message,
    broker::{Found, Standing},
    process::life::Alone,
    store::{Failure, ProcessId},
};

/// A message that a worker is processing, with its claim.
#[derive(Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// What was sent.
    pub message: Message,
    /// Which run of this message it is, beginning with 1. Only a run that failed by itself counts.
    pub attempt: u32,
    /// The right to complete the message; a reader of the user's own may hand out deliveries without one.
    pub claim: Option<Claim>,
    /// How often the database failed under this delivery, in this process.
    pub faults: u32,
    /// Why the payload is withheld from the action.
    pub refused: Option<String>,
    /// What happened to it; a delivery without a mark is released.
    pub mark: Option<Mark>,
    /// For how long it had waited when it was claimed, by the database's clock; none where nothing says when it was sent.
    pub waited: Option<Duration>,
    /// When it was sent, by the clock of this process.
    pub(crate) sent: Option<Instant>,
    /// The number of its execution in this process.
    pub(crate) execution: u64,
    /// Its failure that was recorded last.
    pub(crate) failure: Option<Failure>,
    /// Its failure has been logged.
    pub(crate) told: bool,
    /// Held while a suspect runs, so that a process runs one at a time.
    pub(crate) alone: Option<Alone>,
}

/// The right to complete one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The process that has it; every statement about the message carries this id.
    pub owner: ProcessId,
    /// There is a parked row about this message, which completion removes.
    pub parked: bool,
    /// A process died while it had this message claimed.
    pub suspect: bool,
    /// The group that this message holds while it is claimed.
    pub group: Option<String>,
    /// The row is held by a lock of the business transaction, which has no owner in it: only for what a broker hands out.
    pub locked: bool,
}

impl Claim {
    /// What the row's owner column has while this claim holds.
    #[must_use]
    pub fn in_row(&self) -> Option<ProcessId> {
        (!self.locked).then_some(self.owner)
    }
}

/// What the transaction handler did with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Completed and committed.
    Done,
    /// Its failure is recorded.
    Parked,
    /// The claim was lost.
    Lost,
    /// It was cancelled while it ran, or before it began.
    Cancelled,
    /// The database failed; the message did not, and is still claimed.
    Faulted,
    /// COMMIT was sent, and its outcome is unknown.
    Unknown,
    /// A broker delivered it, and its row could not be locked or claimed.
    Guarded(Found),
}

impl Delivery {
    /// A delivery that completes nothing in the store: for readers of the user's own, which settle it themselves.
    #[must_use]
    pub fn unclaimed(message: Message) -> Self {
        Delivery {
            message,
            attempt: 1,
            claim: None,
            faults: 0,
            refused: None,
            mark: None,
            waited: None,
            sent: None,
            execution: 0,
            failure: None,
            told: false,
            alone: None,
        }
    }

    /// A delivery of a claimed message that has failed `failures` times before.
    #[must_use]
    pub fn claimed(message: Message, claim: Claim, failures: u32) -> Self {
        Delivery { attempt: failures.saturating_add(1), claim: Some(claim), ..Delivery::unclaimed(message) }
    }

    /// The same delivery, without its payload if that is larger than this.
    #[must_use]
    pub fn within(mut self, payload_limit: usize) -> Self {
        let size = self.message.payload.len();
        if size > payload_limit {
            self.refused = Some(format!("{size} bytes are over the limit of {payload_limit}"));
            self.message.payload = [].into();
        }
        self
    }

    /// The same delivery, of a message that had waited this many milliseconds when it was claimed.
    #[must_use]
    pub fn after(mut self, waited: Option<i64>) -> Self {
        // A message from the future has not waited yet.
        self.waited = waited.map(|waited| Duration::from_millis(waited.max(0).unsigned_abs()));
        self
    }

    /// For how long its message has waited for its first start, at this moment. What was delayed, retried, rescued or has run
    /// into a fault has not only waited.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let first = self.attempt == 1 && self.faults == 0 && self.claim.as_ref().is_none_or(|claim| !claim.parked);
        let waited = self.sent.map(|sent| now.saturating_duration_since(sent)).or(self.waited);
        waited.filter(|_| first)
    }

    /// What is known about its message now that its row is locked.
    pub(crate) fn stand(&mut self, standing: Standing) {
        self.attempt = standing.failures.saturating_add(1);
        if let Some(claim) = &mut self.claim {
            claim.parked = standing.parked;
        }
    }

    /// The process that has it claimed.
    #[must_use]
    pub fn owner(&self) -> Option<ProcessId> {
        self.claim.as_ref().map(|claim| claim.owner)
    }

    /// Did a process die while it had this message claimed?
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.suspect)
    }

    /// The same delivery for a task of its own: what the store needs to write about it.
    #[must_use]
    pub fn copy(&self) -> Self {
        Delivery {
            message: self.message.clone(),
            claim: self.claim.clone(),
            refused: self.refused.clone(),
            failure: None,
            alone: None,
            ..*self
        }
    }
}
