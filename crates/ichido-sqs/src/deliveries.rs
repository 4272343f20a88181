//! A source as ichido's core knows it: [`ichido::broker::Source`], on a subscription.

use std::time::Duration;

use ichido::broker::{Received, Settlement, Unpublished};
use tokio::time::timeout;

use crate::Subscription;

/// Whoever waits for a settlement longer than that does not learn what became of it.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Hands out deliveries of one queue and settles them.
#[derive(Debug)]
pub struct Deliveries {
    source: Subscription,
}

impl Deliveries {
    pub(crate) fn of(source: Subscription) -> Self {
        Self { source }
    }

    /// Why nothing is received now, if that is known.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.source.trouble()
    }
}

impl ichido::broker::Source for Deliveries {
    fn try_next(&self) -> Option<Received> {
        let (tag, delivery) = self.source.try_next()?;
        Some(Received { tag, ..delivery.received() })
    }

    fn is_open(&self) -> bool {
        self.source.is_open()
    }

    fn prefetch(&self) -> u16 {
        self.source.prefetch()
    }

    fn has_more(&self) -> Option<bool> {
        Some(self.source.has_more())
    }

    async fn changed(&self) {
        self.source.changed().await;
    }

    fn is_current(&self, tag: u64) -> bool {
        self.source.is_current(tag)
    }

    async fn settle(&self, tag: u64, settlement: Settlement) -> Result<(), Unpublished> {
        let settled = async {
            match settlement {
                Settlement::Ack => self.source.ack(tag).await,
                Settlement::Release => self.source.release(tag).await,
                Settlement::Busy => self.source.busy(tag).await,
                Settlement::Later(due_in) => self.source.later(tag, due_in).await,
                Settlement::DeadLetter(reason) => self.source.dead_letter(tag, &reason, None).await?,
                Settlement::Failed { reason, row } => self.source.dead_letter(tag, &reason, Some(&row)).await?,
            }
            Ok(())
        };
        let late = |_| Err(Unpublished::Unknown("SQS does not answer".to_owned()));
        timeout(TIMEOUT, settled).await.unwrap_or_else(late)
    }

    async fn close(&self) {
        self.source.close().await;
    }
}
