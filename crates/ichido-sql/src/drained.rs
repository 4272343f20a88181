//! What a look at several queues says: which of them still has something to do?

use std::sync::Arc;

use ichido::Result;

/// A condition more for a broker's queue: nothing was published through it that was never tried, and may be on its way to a queue
/// of the same process.
#[must_use]
pub fn none_unpublished(outbox: &str, queue: &str) -> String {
    format!(
        "and not exists (select 1 from {outbox} where queue = {queue} and published_at is null and mutex is null and attempts = 0)"
    )
}

/// The first of these queues that is not drained; `is_drained` tells of the one at this place.
///
/// # Errors
/// What `is_drained` says.
pub fn first_undrained(queues: &[Arc<str>], is_drained: impl Fn(usize) -> Result<bool>) -> Result<Option<Arc<str>>> {
    for (at, queue) in queues.iter().enumerate() {
        if !is_drained(at)? {
            return Ok(Some(queue.clone()));
        }
    }
    Ok(None)
}
