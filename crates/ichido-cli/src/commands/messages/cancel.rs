//! `ichido messages cancel`: messages by their ids, or all of a queue, in bounded transactions. A line is printed when that is committed, and not
//! before. What runs under a lock is asked for and waited for; what is done stays done and is told. Of what had failed, the dead letters go too.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ichido::{
    Error, MessageId,
    inspect::ParkedFilter,
    message::cancel_within,
    store::{Cancellable, Cancelled},
};
use serde::Serialize;

use super::super::{by, doctor, failed::known_id};
use crate::{
    args::Cancel,
    config::Config,
    failure::{FOUND, Failure},
    open::Backend,
    output,
};

/// So many messages are cancelled in one transaction.
const PAGE: usize = 100;

/// So many are listed at most, of those that are locked, or that would be cancelled.
const LISTED: usize = 10_000;

/// Messages move from one state to the other meanwhile: what is claimed was ready a moment ago.
const ROUNDS: u32 = 3;

pub(super) async fn run<S: Backend>(store: &S, config: &Config, args: Cancel) -> Result<u8, Failure> {
    let store = &by(store, args.why.reason.clone());
    let (cancelled, failed) = (BTreeSet::new(), BTreeSet::new());
    let mut work =
        Work { store, config, json: args.json, dry_run: args.dry_run, wait: args.wait, cancelled, failed, left: 0 };
    if let Some(queue) = &args.queue {
        if !config.queues.contains_key(queue) {
            return Err(Failure::unknown_queue(queue, config));
        }
        work.all(queue, &args.states()).await?;
    } else {
        // All of them are read before the first is changed.
        let ids = args.ids.iter().map(|id| known_id::<S>(config, id)).collect::<Result<Vec<_>, _>>()?;
        work.these(ids).await?;
    }
    work.end().await
}

/// A command under way.
struct Work<'a, S> {
    store: &'a S,
    config: &'a Config,
    json: bool,
    dry_run: bool,
    wait: Duration,
    cancelled: BTreeSet<MessageId>,
    /// Of these the broker may have dead letters.
    failed: BTreeSet<MessageId>,
    left: u64,
}

/// What is printed about a message.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    result: Cancelled,
}

impl<S: Backend> Work<'_, S> {
    /// All are asked for before the first is waited for.
    async fn these(&mut self, ids: Vec<MessageId>) -> Result<(), Failure> {
        let (begun, mut later) = (Instant::now(), Vec::new());
        for id in ids {
            self.note_failed(&id).await?;
            let looked = if self.dry_run { self.store.would_cancel(&id).await } else { self.store.cancel(&id).await };
            match looked {
                Ok(Cancelled::Asked) if !self.dry_run => later.push((id, true)),
                Err(error) if error.is_fault::<S>() && !self.dry_run => later.push((id, false)),
                looked => self.tell(&id, looked.map_err(|error| Failure::of::<S>(&error))?)?,
            }
        }
        for (id, seen) in later {
            let wait = self.wait.saturating_sub(begun.elapsed());
            let looked = match cancel_within(self.store, &id, wait).await.map_err(|error| unsure::<S>(&id, &error))? {
                // It was not, when this began.
                Cancelled::Already => Cancelled::Cancelled,
                // It was there.
                Cancelled::Unknown if seen => Cancelled::Done,
                looked => looked,
            };
            self.tell(&id, looked)?;
        }
        Ok(())
    }

    /// Has it failed, in a queue of a broker?
    async fn note_failed(&mut self, id: &MessageId) -> Result<(), Failure> {
        if self.dry_run || !self.store.broker_queues().contains(&id.queue) {
            return Ok(());
        }
        let mut filter = ParkedFilter::default();
        filter.id = Some(id.clone());
        if !self.store.parked(&filter).await.map_err(|error| Failure::of::<S>(&error))?.is_empty() {
            self.failed.insert(id.clone());
        }
        Ok(())
    }

    /// Every message of the queue that is in one of these states.
    async fn all(&mut self, queue: &str, states: &[Cancellable]) -> Result<(), Failure> {
        let failure = |error| Failure::of::<S>(&error);
        let mut locked = Vec::new();
        for _ in 0..if self.dry_run { 0 } else { ROUNDS } {
            let before = self.cancelled.len();
            for state in states {
                loop {
                    let page = self.store.cancel_some(queue, *state, PAGE).await.map_err(failure)?;
                    for id in &page {
                        self.tell(id, Cancelled::Cancelled)?;
                    }
                    if *state == Cancellable::Failed {
                        self.failed.extend(page.iter().cloned());
                    }
                    if page.len() < PAGE {
                        break;
                    }
                }
            }
            if self.cancelled.len() == before {
                break;
            }
        }
        for state in states {
            locked.extend(self.store.cancellable(queue, *state, LISTED).await.map_err(failure)?);
        }
        self.these(locked).await
    }

    /// Says what became of a message: what is cancelled on standard output.
    fn tell(&mut self, id: &MessageId, result: Cancelled) -> Result<(), Failure> {
        let name = id.to_string();
        if result.is_cancelled() {
            self.cancelled.insert(id.clone());
        } else {
            self.left += 1;
        }
        if self.json {
            return output::json(&Line { id: &name, result });
        }
        let would = if self.dry_run { "would be " } else { "" };
        match result {
            Cancelled::Cancelled => return output::print(&format!("{name} {would}cancelled")),
            Cancelled::Already => return output::print(&format!("{name} was cancelled or discarded before")),
            Cancelled::Done => output::complain(&format!("ichido: {name} is done, and stays done")),
            Cancelled::Asked if self.dry_run => {
                output::complain(&format!("ichido: {name} runs; its process would be asked to drop it"));
            }
            Cancelled::Asked => output::complain(&format!(
                "ichido: {name} still runs; its process is asked to drop it, and cancels it unless it is done first"
            )),
            _ => output::complain(&format!("ichido: {name} not found: never sent, or done and gone")),
        }
        Ok(())
    }

    async fn end(self) -> Result<u8, Failure> {
        if !self.dry_run {
            // What was held up in a group need not wait for a poll.
            for queue in self.cancelled.iter().map(|id| Arc::clone(&id.queue)).collect::<BTreeSet<_>>() {
                self.store.wake_ups().tell(self.store, &queue).await;
            }
            let dead: Vec<_> = self.failed.intersection(&self.cancelled).cloned().collect();
            doctor::forget(self.store, self.config, &dead).await;
        }
        if self.cancelled.len() as u64 + self.left > 1 {
            let (count, would) = (self.cancelled.len(), if self.dry_run { "would be " } else { "" });
            output::talk(&format!("ichido: {count} {would}cancelled, {} left alone", self.left));
        }
        Ok(if self.left > 0 { FOUND } else { 0 })
    }
}

/// The database failed to the end.
fn unsure<S: Backend>(id: &MessageId, error: &Error) -> Failure {
    let failure = Failure::of::<S>(error);
    let text = format!("whether {id} is cancelled is not known, run this again: {}", failure.text);
    Failure { text, ..failure }
}
