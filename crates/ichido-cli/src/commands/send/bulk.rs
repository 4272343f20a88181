//! The messages of one `ichido send`: read and looked at before the transaction begins, and if one of them is refused, told by its line.

use ichido::{
    Masks, NewMessage,
    by_hand::{Batch, Unsent},
    lanes::{Routes, Sent},
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::value::RawValue;

use super::Lines;
use crate::{failure::Failure, open::Backend};

/// So many messages take a while.
const MANY: usize = 1000;

/// Messages on their way to a queue or a lane set.
pub(super) struct Bulk {
    batch: Batch,
    /// Where each of them stood, counted from 1; empty lines count.
    lines: Vec<usize>,
}

impl Bulk {
    pub(super) fn read(
        lines: Lines,
        template: &NewMessage,
        to: String,
        routes: Routes,
        masks: Masks,
    ) -> Result<Self, Failure> {
        let mut bulk = Bulk { batch: Batch { to, routes, masks, messages: Vec::new() }, lines: Vec::new() };
        for (number, line) in (1..).zip(lines) {
            let line = line.map_err(|error| bad_line(number, &error.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            serde_json::from_str::<&RawValue>(&line)
                .map_err(|error| bad_line(number, &format!("not JSON: {error}")))?;
            let mut message = template.clone();
            message.payload = line.into_bytes();
            bulk.batch.messages.push(message);
            bulk.lines.push(number);
        }
        Ok(bulk)
    }

    pub(super) async fn send<S: Backend>(&self, store: &S, tx: &mut S::Tx) -> Result<Sent, Unsent> {
        let bar = progress(self.lines.len());
        let sent = self.batch.send(store, tx, |sent| bar.set_position(sent as u64)).await?;
        bar.finish_and_clear();
        Ok(sent)
    }

    /// What was wrong, with the line of the message that it was about.
    pub(super) async fn explain<S: Backend>(&self, store: &S, unsent: Unsent) -> Failure {
        if unsent.error.is_fault::<S>() {
            return Failure::of::<S>(&unsent.error);
        }
        match self.batch.explain(store, unsent).await {
            (Some(at), why) => bad_line(self.lines[at], &why),
            (None, why) => Failure::usage(format!("{why}; nothing was sent")),
        }
    }
}

/// A bar on a terminal, for what takes a while.
fn progress(messages: usize) -> ProgressBar {
    if messages <= MANY {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} messages, {per_sec}");
    ProgressBar::new(messages as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn bad_line(number: usize, text: &str) -> Failure {
    Failure::usage(format!("message {number}: {text}; nothing was sent"))
}
