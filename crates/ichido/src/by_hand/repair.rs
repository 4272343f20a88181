//! Failed messages, retried or discarded: one after the other, each in a transaction of its own, where it is looked at again. What has not
//! failed (any more), or cannot be changed, is told and left alone.

use std::{collections::BTreeSet, time::Instant};

use serde::{Deserialize, Serialize};

use super::hidden;
use crate::{
    Inspect, Masks, MessageId, Messages, Operate,
    error::Result,
    inspect::{Parked, ParkedFilter},
};

/// So many messages are looked for together.
const PAGE: u32 = 500;

/// What an operator does with a failed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repair {
    /// It runs again, from attempt one.
    Retry,
    /// It is given up for good.
    Discard,
}

impl Repair {
    /// What was done to the message.
    #[must_use]
    pub fn done(self) -> &'static str {
        match self {
            Repair::Retry => "retried",
            Repair::Discard => "discarded",
        }
    }
}

/// What became of a failed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// It is retried or discarded, or would be.
    Yes,
    /// It was left alone, or would be, for this reason.
    Left(String),
}

/// Retries or discards one message; with `dry_run`, only looks at it.
///
/// # Errors
/// The database is at fault. What it says about this message alone is an answer, not an error.
pub async fn repair<S: Operate + Messages>(
    store: &S,
    masks: &Masks,
    verb: Repair,
    id: &MessageId,
    dry_run: bool,
) -> Result<Repaired> {
    if dry_run {
        let filter = ParkedFilter { id: Some(id.clone()), ..ParkedFilter::default() };
        let would = !store.parked(&filter).await?.is_empty();
        let left = || Repaired::Left(format!("{id} has not failed; it would be left alone"));
        return Ok(if would { Repaired::Yes } else { left() });
    }
    let changed = match verb {
        Repair::Retry => store.retry(id).await,
        Repair::Discard => store.discard(id).await,
    };
    match changed {
        Ok(true) => Ok(Repaired::Yes),
        Ok(false) => Ok(Repaired::Left(format!("{id} has not failed; left alone"))),
        Err(error) if error.is_fault::<S>() => Err(error),
        // What the database says about one message must not keep the others from being repaired.
        Err(error) => Ok(Repaired::Left(hidden(store, masks, id, &error).await)),
    }
}

/// Every message that a filter means, and that had failed when this began: one that fails again meanwhile is not retried for ever.
#[derive(Debug)]
pub struct FailedPages {
    filter: ParkedFilter,
    began: Instant,
    left: u32,
}

impl FailedPages {
    /// Up to `limit` messages that this filter means.
    #[must_use]
    pub fn new(filter: ParkedFilter, limit: u32) -> Self {
        FailedPages { filter, began: Instant::now(), left: limit }
    }

    /// The next of them; none at the end.
    ///
    /// # Errors
    /// The database fails.
    pub async fn next<S: Inspect>(&mut self, store: &S) -> Result<Vec<MessageId>> {
        let mut filter = self.filter.clone();
        filter.limit = self.left.min(PAGE);
        filter.older = Some(filter.older.unwrap_or_default() + self.began.elapsed());
        if filter.limit == 0 {
            return Ok(Vec::new());
        }
        let page = store.parked(&filter).await?;
        self.left -= u32::try_from(page.len()).unwrap_or(self.left).min(self.left);
        if let Some(last) = page.last() {
            self.filter.after = Some(last.clone());
        }
        page.into_iter().map(|Parked { id, .. }| id.parse()).collect()
    }
}

/// What runs again, or was held up in its group, need not wait for a poll.
pub async fn wake<S: Operate>(store: &S, changed: &[MessageId]) {
    for queue in changed.iter().map(|id| &id.queue).collect::<BTreeSet<_>>() {
        store.wake_ups().tell(store, queue).await;
    }
}
