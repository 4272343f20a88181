//! How full a queue at a broker was when the doctor looked, and what that tells about one message: `exam` judges by it.

use std::time::{Duration, Instant};

use ichido::broker::{InQueue, MutexRow, RowState, Sighting};

use crate::{
    brokers::{Kept, Seen},
    failure::Failure,
};

/// Where nobody can tell what is out and not acknowledged, a message is taken for lost only after so long.
const UNSEEN: Duration = Duration::from_mins(10);

/// How full the queue was.
pub(super) struct Depths {
    at: Instant,
    pub(super) counted: ichido::broker::Depths,
    /// None if nobody can tell.
    pub(super) consumers: Option<u32>,
}

/// None if there is no such queue.
pub(super) async fn look(kept: &Kept) -> Result<Option<Depths>, Failure> {
    let at = Instant::now();
    let seen = kept.place().depths().await?;
    Ok(seen.map(|Seen { counted, consumers }| Depths { at, counted, consumers }))
}

/// All that is known about a message with this row, and with a dead letter or without.
pub(super) fn sighting(depths: Option<&Depths>, relay_after: Duration, row: Option<&MutexRow>, dead: bool) -> Sighting {
    let (mut young, mut queue) = (relay_after.saturating_mul(2), InQueue::No);
    if let Some(Depths { at, counted, consumers }) = depths {
        let unseen = matches!(row, Some(MutexRow { state: RowState::Published(age), .. }) if *age >= UNSEEN);
        let none_out = counted.unacknowledged.map_or(*consumers == Some(0) || unseen, |out| out == 0);
        queue = if counted.ready + counted.busy == 0 && none_out { InQueue::No } else { InQueue::NotEmpty };
        // What was published since the look could not be seen by it.
        young = young.max(counted.stale) + at.elapsed();
    }
    Sighting { row: row.map(|row| row.state), dead, queue, young }
}

/// What a row says, in a word.
pub(super) fn name(row: Option<RowState>) -> &'static str {
    match row {
        None => "no",
        Some(RowState::Held) => "held",
        Some(RowState::Waiting) => "waiting",
        Some(RowState::Failed) => "failed",
        Some(RowState::Unsent(_)) => "unpublished",
        Some(RowState::Published(_)) => "free",
    }
}
