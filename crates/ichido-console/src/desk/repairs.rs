//! Failed messages are retried or discarded, one after the other, as fast as was asked for.

use std::time::Duration;

use ichido::{
    Error, Masks, MessageId, Messages, Operate,
    by_hand::{self, FailedPages, Repair, Repaired},
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::{Brokers, LONGEST_PACED, LeftAlone, RepairAnswer, RepairOrder};
use crate::Problem;

/// An order under way.
pub(super) struct Repairs<'a, S> {
    store: &'a S,
    masks: &'a Masks,
    brokers: &'a dyn Brokers,
    order: RepairOrder,
    pace: Option<Pace>,
    changed: Vec<MessageId>,
    answer: RepairAnswer,
}

impl<'a, S: Operate + Messages> Repairs<'a, S> {
    pub(super) fn new(store: &'a S, masks: &'a Masks, brokers: &'a dyn Brokers, order: RepairOrder) -> Self {
        let pace = order.rate.filter(|_| !order.dry_run).map(Pace::new);
        let answer = RepairAnswer { dry_run: order.dry_run, ..RepairAnswer::default() };
        Repairs { store, masks, brokers, order, pace, changed: Vec::new(), answer }
    }

    pub(super) async fn run(mut self) -> Result<RepairAnswer, Problem> {
        // What was changed before an error is changed: whoever waits for it is woken in any case.
        let done = if self.order.ids.is_empty() { self.all().await } else { self.named().await };
        if !self.order.dry_run {
            by_hand::wake(self.store, &self.changed).await;
            if self.order.verb == Repair::Discard {
                self.answer.warning = self.brokers.forget(&self.changed).await;
            }
        }
        done.map(|()| self.answer)
    }

    async fn named(&mut self) -> Result<(), Problem> {
        let ids = std::mem::take(&mut self.order.ids);
        self.answer.more = !self.these(ids).await?;
        Ok(())
    }

    /// All that the filter means, up to its limit.
    async fn all(&mut self) -> Result<(), Problem> {
        let limit = self.order.filter.limit;
        let mut pages = FailedPages::new(self.order.filter.clone(), limit);
        let mut seen = 0;
        loop {
            let page = pages.next(self.store).await.map_err(|error| Self::problem(&error))?;
            if page.is_empty() {
                self.answer.more = seen >= limit as usize;
                return Ok(());
            }
            seen += page.len();
            if !self.these(page).await? {
                self.answer.more = true;
                return Ok(());
            }
        }
    }

    /// False: the time was over before the last of them.
    async fn these(&mut self, ids: Vec<MessageId>) -> Result<bool, Problem> {
        for id in ids {
            if let Some(pace) = &mut self.pace
                && !pace.next().await
            {
                return Ok(false);
            }
            let done = by_hand::repair(self.store, self.masks, self.order.verb, &id, self.order.dry_run).await;
            match done.map_err(|error| Self::problem(&error))? {
                Repaired::Yes => {
                    self.answer.changed.push(id.to_string());
                    self.changed.push(id);
                }
                Repaired::Left(why) => self.answer.left.push(LeftAlone { id: id.to_string(), why }),
            }
        }
        Ok(true)
    }

    fn problem(error: &Error) -> Problem {
        Problem::of::<S>(error)
    }
}

/// So many per second, as `ichido failed retry --rate` does it, but not for ever.
struct Pace {
    ticks: Interval,
    until: Instant,
}

impl Pace {
    fn new(rate: u32) -> Self {
        let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Pace { ticks, until: Instant::now() + Duration::from_secs(LONGEST_PACED.into()) }
    }

    /// Waits until it is the next one's turn; false if that is too late.
    async fn next(&mut self) -> bool {
        tokio::time::timeout_at(self.until, self.ticks.tick()).await.is_ok() && Instant::now() < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_at_a_rate_has_an_end() {
        let mut pace = Pace::new(1000);
        assert!(pace.next().await && pace.next().await);
        let bound = Duration::from_secs(LONGEST_PACED.into());
        assert!(pace.until - Instant::now() <= bound, "a request is not held longer");
        pace.until = Instant::now();
        assert!(!pace.next().await, "the rest is for the next request");
    }
}
