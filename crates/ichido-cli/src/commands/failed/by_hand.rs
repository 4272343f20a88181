//! `ichido failed retry` and `discard`: one message after the other, each in a transaction of its own, where it is looked at again.
//! What has not failed (any more), or cannot be changed, is told and left alone.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use ichido::{
    Error, Headers, MessageId,
    inspect::{Parked, ParkedFilter},
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

/// So many messages are looked for together.
const PAGE: u32 = 500;

/// What an operator does with a failed message.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Retry,
    Discard,
}

impl Verb {
    fn done(self) -> &'static str {
        match self {
            Verb::Retry => "retried",
            Verb::Discard => "discarded",
        }
    }
}

pub(super) async fn by_hand<S: Backend>(store: &S, config: &Config, verb: Verb, many: Many) -> Result<u8, Failure> {
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
    verb: Verb,
    dry_run: bool,
    pace: Option<Interval>,
    bar: ProgressBar,
    changed: Vec<MessageId>,
    left: u64,
}

impl<'a, S: Backend> Work<'a, S> {
    fn new(store: &'a S, config: &'a Config, verb: Verb, many: &Many) -> Self {
        let pace = many.rate.map(|rate| {
            let mut pace = interval(Duration::from_secs(1) / rate);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            pace
        });
        let bar = if many.ids.is_empty() && !many.dry_run { bar(verb) } else { ProgressBar::hidden() };
        Work { store, config, verb, dry_run: many.dry_run, pace, bar, changed: Vec::new(), left: 0 }
    }

    /// Every message that the filter means, and that had failed when this began: one that fails again meanwhile is not retried
    /// for ever.
    async fn all(&mut self, mut filter: ParkedFilter, limit: u32) -> Result<(), Failure> {
        let (began, older, mut left) = (Instant::now(), filter.older.unwrap_or_default(), limit);
        loop {
            filter.limit = left.min(PAGE);
            filter.older = Some(older + began.elapsed());
            let page = self.store.parked(&filter).await.map_err(|error| Failure::of::<S>(&error))?;
            let Some(last) = page.last().cloned() else { return Ok(()) };
            left -= u32::try_from(page.len()).unwrap_or(left);
            filter.after = Some(last);
            for Parked { id, .. } in page {
                self.one(id.parse().map_err(|error| Failure::of::<S>(&error))?).await?;
            }
        }
    }

    async fn one(&mut self, id: MessageId) -> Result<(), Failure> {
        if self.dry_run {
            return self.would(&id).await;
        }
        if let Some(pace) = &mut self.pace {
            pace.tick().await;
        }
        let changed = match self.verb {
            Verb::Retry => self.store.retry(&id).await,
            Verb::Discard => self.store.discard(&id).await,
        };
        match changed {
            Ok(true) => {
                self.bar.suspend(|| output::print(&format!("{id} {}", self.verb.done())))?;
                self.bar.inc(1);
                self.changed.push(id);
            }
            Ok(false) => self.leave(&format!("{id} has not failed; left alone")),
            Err(error) if error.is_fault::<S>() => return Err(Failure::of::<S>(&error)),
            // What the database says about one message must not keep the others from being repaired.
            Err(error) => {
                let (id, text) = (id.to_string(), hidden(self.store, self.config, &id, &error).await);
                self.leave(&if text.contains(&id) { text } else { format!("{id}: {text}") });
            }
        }
        Ok(())
    }

    /// What would happen to a message, by a look at it.
    async fn would(&mut self, id: &MessageId) -> Result<(), Failure> {
        let mut filter = ParkedFilter::default();
        filter.id = Some(id.clone());
        if self.store.parked(&filter).await.map_err(|error| Failure::of::<S>(&error))?.is_empty() {
            self.leave(&format!("{id} has not failed; it would be left alone"));
            return Ok(());
        }
        self.changed.push(id.clone());
        output::print(&format!("{id} would be {}", self.verb.done()))
    }

    fn leave(&mut self, text: &str) {
        self.left += 1;
        self.bar.suspend(|| output::complain(&format!("ichido: {text}")));
    }

    async fn end(self) -> Result<u8, Failure> {
        self.bar.finish_and_clear();
        if !self.dry_run {
            // What runs again, or was held up in its group, need not wait for a poll.
            for queue in self.changed.iter().map(|id| &id.queue).collect::<BTreeSet<_>>() {
                self.store.wake_ups().tell(self.store, queue).await;
            }
            if matches!(self.verb, Verb::Discard) {
                doctor::forget(self.store, self.config, &self.changed).await;
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
fn bar(verb: Verb) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} {msg}, {per_sec}");
    let bar = ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.with_message(verb.done())
}

/// What the database said about a message, without what must not be seen of it.
pub(in super::super) async fn hidden<S: Backend>(store: &S, config: &Config, id: &MessageId, error: &Error) -> String {
    let masks = program::masks(config);
    let payload = if masks.is_empty() { None } else { store.payload(id).await.ok().flatten() };
    masks.text(&format!("{error:#}"), payload.unwrap_or_default().as_bytes(), &Headers::new())
}
