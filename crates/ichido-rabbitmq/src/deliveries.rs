//! A source as ichido's core knows it: [`ichido::broker::Source`], which names deliveries by numbers. It keeps each one that is out until
//! it is settled, and those only that can be: as many as the prefetch.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ichido::broker::{Received, Settlement, Unpublished};

use crate::{Delivery, Id, State, Subscription, rabbitmq::trouble};

/// Hands out deliveries of one queue and settles them.
#[derive(Debug)]
pub struct Deliveries {
    source: Subscription,
    out: Mutex<Out>,
}

#[derive(Debug, Default)]
struct Out {
    last: u64,
    by_tag: BTreeMap<u64, Arc<Delivery>>,
}

impl Deliveries {
    /// Why nothing is received now, if that is known.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        trouble(self.source.state())
    }

    pub(crate) fn of(source: Subscription) -> Self {
        Self { source, out: Mutex::default() }
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, tag: u64) -> Option<Arc<Delivery>> {
        self.out().by_tag.get(&tag).cloned()
    }
}

impl ichido::broker::Source for Deliveries {
    fn try_next(&self) -> Option<Received> {
        let delivery = self.source.try_next()?;
        let mut out = self.out();
        // Those of a lost connection may never be settled by anybody.
        if out.by_tag.first_key_value().is_some_and(|(_, oldest)| !oldest.is_current()) {
            out.by_tag.retain(|_, delivery| delivery.is_current());
        }
        out.last += 1;
        let received = Received { tag: out.last, ..delivery.received() };
        let tag = out.last;
        out.by_tag.insert(tag, Arc::new(delivery));
        Some(received)
    }

    fn is_open(&self) -> bool {
        matches!(self.source.state(), State::Connected)
    }

    fn prefetch(&self) -> u16 {
        self.source.prefetch()
    }

    async fn changed(&self) {
        self.source.changed().await;
    }

    fn is_current(&self, tag: u64) -> bool {
        self.find(tag).is_some_and(|delivery| delivery.is_current())
    }

    async fn settle(&self, tag: u64, settlement: Settlement) -> Result<(), Unpublished> {
        let Some(delivery) = self.find(tag) else {
            return Ok(());
        };
        match settlement {
            // What waits for its time is published again then.
            Settlement::Ack | Settlement::Later(_) => self.source.ack(&delivery).await,
            Settlement::Release => self.source.release(&delivery).await,
            Settlement::Busy => self.source.busy(&delivery).await?,
            Settlement::DeadLetter(reason) => self.source.dead_letter(&delivery, &reason).await?,
            Settlement::Failed { reason, row } => self.source.dead_letter_failed(&delivery, &reason, &row).await?,
        };
        self.out().by_tag.remove(&tag);
        Ok(())
    }

    async fn close(&self) {
        self.source.close().await;
    }
}

impl Delivery {
    /// As the core knows it, without a name of its own.
    #[must_use]
    pub fn received(&self) -> Received {
        let id = match self.id() {
            Id::Of(id) => Ok(id),
            Id::Missing => Err("it has no mutex id".to_owned()),
            Id::Unreadable(why) => Err(format!("its mutex id is unreadable: {why}")),
        };
        Received {
            tag: 0,
            id,
            origin: self.origin(),
            queue: self.queue(),
            message_id: self.message_id().map(str::to_owned),
            sender: self.app_id().map(str::to_owned),
            payload: Arc::clone(&self.payload),
            headers: self.headers(),
            redelivered: self.is_redelivered(),
            sent_at: sent_at(self),
        }
    }
}

fn sent_at(delivery: &Delivery) -> Option<SystemTime> {
    let ms = delivery.header(ichido::broker::SENT_AT)?.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_millis(ms))
}
