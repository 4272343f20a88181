//! Why a message is put aside, and for how long: what `park` and `fail` write down.

use std::time::Duration;

/// Why a message is put aside, and for how long.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Failure {
    /// What an operator reads.
    pub error: String,
    /// Runs that failed by themselves, this one included if it did.
    pub failures: u32,
    /// When it runs again; none: it has failed for good.
    pub retry_after: Option<Duration>,
    /// What kind of failure it is, for the monitor.
    pub(crate) code: &'static str,
}

impl Failure {
    /// A failure for good.
    pub fn dead(error: impl Into<String>, failures: u32) -> Self {
        Failure { error: error.into(), failures, retry_after: None, code: "error" }
    }

    /// A failure that is tried again after this time.
    pub fn waiting(error: impl Into<String>, failures: u32, retry_after: Duration) -> Self {
        Failure { error: error.into(), failures, retry_after: Some(retry_after), code: "error" }
    }
}
