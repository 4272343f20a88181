//! How often something may happen from one address within a time: wrong tokens, and requests at all.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// No more addresses are remembered; past it, the oldest counts are forgotten together.
const MOST_ADDRESSES: usize = 10_000;

/// Counts by address, within a window that begins with the first count.
pub(crate) struct Throttle {
    most: u32,
    window: Duration,
    counts: Mutex<HashMap<Option<IpAddr>, (Instant, u32)>>,
}

impl Throttle {
    pub(crate) fn new(most: u32, window: Duration) -> Self {
        Throttle { most, window, counts: Mutex::default() }
    }

    /// Has it happened as often as it may?
    pub(crate) fn is_full(&self, peer: Option<IpAddr>) -> bool {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&peer).is_some_and(|(since, count)| since.elapsed() < self.window && *count >= self.most)
    }

    /// It happens; false if it may not any more.
    pub(crate) fn count(&self, peer: Option<IpAddr>) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST_ADDRESSES && !counts.contains_key(&peer) {
            counts.retain(|_, (since, _)| since.elapsed() < self.window);
            if counts.len() >= MOST_ADDRESSES {
                counts.clear();
            }
        }
        let (since, count) = counts.entry(peer).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= self.window {
            (*since, *count) = (Instant::now(), 0);
        }
        *count = count.saturating_add(1);
        *count <= self.most
    }
}
