//! `ichido messages cancel`: messages by their ids, or all of a queue. A line is printed when that is committed, and not before.
//! Of what had failed, the dead letters go too.

use std::{collections::BTreeSet, sync::Arc};

use ichido::{
    Error, MessageId,
    by_hand::{CancelReport, Canceller},
    store::Cancelled,
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

pub(super) async fn run<S: Backend>(store: &S, config: &Config, args: Cancel) -> Result<u8, Failure> {
    let store = &by(store, args.why.reason.clone());
    let canceller = Canceller { store, dry_run: args.dry_run, wait: args.wait, most: usize::MAX };
    let (json, dry_run) = (args.json, args.dry_run);
    let mut work = Work { store, config, json, dry_run, cancelled: BTreeSet::new(), failed: BTreeSet::new(), left: 0 };
    if let Some(queue) = &args.queue {
        if !config.queues.contains_key(queue) {
            return Err(Failure::unknown_queue(queue, config));
        }
        canceller.all(queue, &args.states(), &mut work).await?;
    } else {
        // All of them are read before the first is changed.
        let ids = args.ids.iter().map(|id| known_id::<S>(config, id)).collect::<Result<Vec<_>, _>>()?;
        canceller.these(ids, &mut work).await?;
    }
    work.end().await
}

/// A command under way.
struct Work<'a, S> {
    store: &'a S,
    config: &'a Config,
    json: bool,
    dry_run: bool,
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

impl<S: Backend> CancelReport for Work<'_, S> {
    type Error = Failure;

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

    fn has_failed(&mut self, id: &MessageId) {
        self.failed.insert(id.clone());
    }

    fn failed(&self, error: Error) -> Failure {
        Failure::of::<S>(&error)
    }

    fn unsure(&self, id: &MessageId, error: Error) -> Failure {
        let failure = Failure::of::<S>(&error);
        let text = format!("whether {id} is cancelled is not known, run this again: {}", failure.text);
        Failure { text, ..failure }
    }
}

impl<S: Backend> Work<'_, S> {
    async fn end(self) -> Result<u8, Failure> {
        if !self.dry_run {
            // What was held up in a group need not wait for a poll.
            for queue in self.cancelled.iter().map(|id| Arc::clone(&id.queue)).collect::<BTreeSet<_>>() {
                self.store.wake_ups().tell(self.store, &queue).await;
            }
            let dead: Vec<_> = self.failed.intersection(&self.cancelled).cloned().collect();
            if let Some(why) = doctor::forget(self.store, self.config, &dead).await {
                output::complain(&format!("ichido: {why}"));
            }
        }
        if self.cancelled.len() as u64 + self.left > 1 {
            let (count, would) = (self.cancelled.len(), if self.dry_run { "would be " } else { "" });
            output::talk(&format!("ichido: {count} {would}cancelled, {} left alone", self.left));
        }
        Ok(if self.left > 0 { FOUND } else { 0 })
    }
}
