//! `ichido failed retry` and `discard`: one message after the other, at a pace if that is asked for; what became of each is told.

use std::time::Duration;

use ichido::{
    MessageId,
    by_hand::{self, FailedPages, Repair, Repaired},
    inspect::ParkedFilter,
};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{
    super::{by, doctor},
    filter, known_id, tell_elsewhere,
};
use crate::{
    args::Many,
    config::Config,
    failure::{FOUND, Failure},
    open::Backend,
    output, program,
};

pub(super) async fn repair<S: Backend>(store: &S, config: &Config, verb: Repair, many: Many) -> Result<u8, Failure> {
    let store = &by(store, many.why.reason.clone());
    let mut work = Work::new(store, config, verb, &many);
    if many.ids.is_empty() {
        let (limit, one_queue) = (many.which.limit.unwrap_or(u32::MAX), many.which.queue.is_some());
        work.all(filter(config, many.which, false)?, limit).await?;
        if !one_queue {
            tell_elsewhere(store).await?;
        }
    } else {
        // All of them are read before the first is changed.
        let ids = many.ids.iter().map(|id| known_id::<S>(config, id)).collect::<Result<Vec<_>, _>>()?;
        for id in ids {
            work.one(id).await?;
        }
    }
    work.end().await
}

/// A command under way.
struct Work<'a, S> {
    store: &'a S,
    config: &'a Config,
    verb: Repair,
    dry_run: bool,
    pace: Option<Interval>,
    bar: ProgressBar,
    changed: Vec<MessageId>,
    left: u64,
}

impl<'a, S: Backend> Work<'a, S> {
    fn new(store: &'a S, config: &'a Config, verb: Repair, many: &Many) -> Self {
        let pace = many.rate.map(|rate| {
            let mut pace = interval(Duration::from_secs(1) / rate);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            pace
        });
        let bar = if many.ids.is_empty() && !many.dry_run { bar(verb) } else { ProgressBar::hidden() };
        Work { store, config, verb, dry_run: many.dry_run, pace, bar, changed: Vec::new(), left: 0 }
    }

    async fn all(&mut self, filter: ParkedFilter, limit: u32) -> Result<(), Failure> {
        let mut pages = FailedPages::new(filter, limit);
        loop {
            let page = pages.next(self.store).await.map_err(|error| Failure::of::<S>(&error))?;
            if page.is_empty() {
                return Ok(());
            }
            for id in page {
                self.one(id).await?;
            }
        }
    }

    async fn one(&mut self, id: MessageId) -> Result<(), Failure> {
        if let Some(pace) = self.pace.as_mut().filter(|_| !self.dry_run) {
            pace.tick().await;
        }
        let repaired = by_hand::repair(self.store, &program::masks(self.config), self.verb, &id, self.dry_run).await;
        match repaired.map_err(|error| Failure::of::<S>(&error))? {
            Repaired::Yes => {
                let would = if self.dry_run { "would be " } else { "" };
                self.bar.suspend(|| output::print(&format!("{id} {would}{}", self.verb.done())))?;
                self.bar.inc(1);
                self.changed.push(id);
            }
            Repaired::Left(why) => self.leave(&why),
        }
        Ok(())
    }

    fn leave(&mut self, text: &str) {
        self.left += 1;
        self.bar.suspend(|| output::complain(&format!("ichido: {text}")));
    }

    async fn end(self) -> Result<u8, Failure> {
        self.bar.finish_and_clear();
        if !self.dry_run {
            by_hand::wake(self.store, &self.changed).await;
            if self.verb == Repair::Discard {
                let kept = doctor::forget(self.store, self.config, &self.changed).await;
                if let Some(why) = kept {
                    output::complain(&format!("ichido: {why}"));
                }
            }
        }
        if self.changed.len() as u64 + self.left > 1 {
            let (changed, would) = (self.changed.len(), if self.dry_run { "would be " } else { "" });
            output::talk(&format!("ichido: {changed} {would}{}, {} left alone", self.verb.done(), self.left));
        }
        Ok(if self.left > 0 { FOUND } else { 0 })
    }
}

/// A line on a terminal, for what takes a while.
fn bar(verb: Repair) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} {msg}, {per_sec}");
    let bar = ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.with_message(verb.done())
}
