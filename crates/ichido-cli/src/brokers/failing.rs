//! What a broker says when something fails, as the command line tells it: for `rabbitmq`, `sqs` and `dead_letters`.

use std::fmt::Display;

use super::DUPLICATE;
use crate::failure::{Failure, UNREACHABLE};

/// An error of a broker's crate.
pub(super) trait FailsAtBroker: Display {
    /// Does somebody else do the same now?
    fn is_busy(&self) -> bool;

    /// Will trying again later help?
    fn is_transient(&self) -> bool;
}

/// The failure of the queue with this key.
pub(super) fn failure(key: &str, error: &impl FailsAtBroker) -> Failure {
    let text = format!("{key}: {error}");
    if error.is_busy() {
        Failure { code: DUPLICATE, text }
    } else if error.is_transient() {
        Failure { code: UNREACHABLE, text }
    } else {
        Failure::usage(text)
    }
}
