//! What a look at several queues says: which of them still has something to do?

use std::sync::Arc;

use crate::Result;

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
