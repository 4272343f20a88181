//! What the action says about a message, and what the handler queue says about itself on the way out.

use std::time::Duration;

/// The result of a pass through the rest of the handler queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The work is done: complete the message and commit.
    Done,
    /// Roll back, and run the message again after this time (none: after the backoff). Spends an attempt.
    Retry(Option<Duration>),
    /// Roll back, and run the message again after this time, as the same attempt: nothing has failed, it was too early.
    Snooze(Duration),
    /// Roll back, and park the message for good with this reason.
    Park(String),
    /// End the process with this code (100–199). Spends an attempt.
    Abort(u8),
    /// Used by the handler queue itself: there is nothing more to do.
    Stop,
    /// Used by the handler queue itself: the process ended with this status.
    Ended(i32),
}

impl Outcome {
    /// Run the message again after the backoff.
    #[must_use]
    pub fn retry() -> Self {
        Outcome::Retry(None)
    }

    /// Run the message again after this time.
    #[must_use]
    pub fn retry_after(time: Duration) -> Self {
        Outcome::Retry(Some(time))
    }

    /// Run the message again after this time. No attempt is spent and nothing is recorded as a failure; snoozes are counted apart.
    ///
    /// What the action has written is rolled back, for a message's effects are committed with its completion and nowhere else. To keep
    /// them, send a message with a delay and return [`Outcome::Done`].
    #[must_use]
    pub fn snooze(time: Duration) -> Self {
        Outcome::Snooze(time)
    }

    /// Park the message for good; an operator will see the reason.
    pub fn park(reason: impl Into<String>) -> Self {
        Outcome::Park(reason.into())
    }
}
