//! The process's own clock. It measures durations and wakes sleepers; it never decides about leases or due times, which
//! are the database's (docs/invariants.md, "Database time only"). Tests put their own in its place.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::BoxFuture;

/// Measures time that passes in this process.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// A moment; only differences between two of them mean something.
    fn now(&self) -> Instant;
    /// Resolves when this time has passed. Safe to drop.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// The machine's monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
