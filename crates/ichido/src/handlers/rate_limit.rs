//! `rate limit`: lets at most so many messages begin per second, in all workers of the pool together. Scope: worker. It comes
//! after `loop`, best before `read`, so that no message is in hand while a worker waits; a stop ends the wait.
//!
//! Option `per_second` (no default): 1 to 1,000,000.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Context, Handler, Next, Outcome, Store,
    error::Result,
    handlers::{About, Options, Scope},
};

/// Lets at most this many messages start per second.
#[derive(Debug)]
pub struct RateLimit {
    apart: Duration,
    next: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// At most this many per second; at least one.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        RateLimit { apart: Duration::from_secs(1) / per_second.max(1), next: Mutex::default() }
    }

    pub(crate) fn from_options(options: &mut Options) -> Result<Self> {
        let number = options.whole("per_second", 1..=1_000_000, None)?;
        Ok(RateLimit::new(u32::try_from(number).unwrap_or(u32::MAX)))
    }

    /// How long to wait for the next free moment, which is taken.
    fn take(&self, now: Instant) -> Duration {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let free = next.map_or(now, |next| next.max(now));
        *next = Some(free + self.apart);
        free - now
    }
}

impl<S: Store> Handler<S> for RateLimit {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let wait = self.take(cx.clock.now());
        if !cx.pause(wait).await {
            return Ok(Outcome::Stop);
        }
        next.run(cx).await
    }

    fn about(&self, _: Scope) -> About {
        About::new("rate limit", "wait until the rate allows one more", "", "").in_loop("it would wait only once")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_a_fixed_time_apart_and_none_is_saved_up() {
        let limit = RateLimit::new(10);
        let start = Instant::now();
        let millis = Duration::from_millis;
        assert_eq!(limit.take(start), Duration::ZERO);
        assert_eq!(limit.take(start), millis(100));
        assert_eq!(limit.take(start + millis(50)), millis(150));
        let later = start + millis(5000);
        assert_eq!(limit.take(later), Duration::ZERO);
        assert_eq!(limit.take(later), millis(100), "idle time does not add up");
    }
}
