//! The messages of one `ichido send`: read and looked at before the transaction begins, written in batches, and if one of them is
//! refused, found by its line.

use std::ops::Range;

use ichido::{
    Error, Headers, Masks, NewMessage,
    lanes::{Routes, Sent},
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::value::RawValue;

use super::Lines;
use crate::{failure::Failure, open::Backend};

/// Messages per statement.
const BATCH: usize = 1000;

/// Messages on their way to a queue or a lane set.
pub(super) struct Bulk {
    to: String,
    routes: Routes,
    masks: Masks,
    messages: Vec<NewMessage>,
    /// Where each of them stood, counted from 1; empty lines count.
    lines: Vec<usize>,
}

/// A batch that was refused, and why.
pub(super) struct Unsent {
    batch: Range<usize>,
    error: Error,
}

impl Bulk {
    pub(super) fn read(
        lines: Lines,
        template: &NewMessage,
        to: String,
        routes: Routes,
        masks: Masks,
    ) -> Result<Self, Failure> {
        let mut bulk = Bulk { to, routes, masks, messages: Vec::new(), lines: Vec::new() };
        for (number, line) in (1..).zip(lines) {
            let line = line.map_err(|error| bad_line(number, &error.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            serde_json::from_str::<&RawValue>(&line)
                .map_err(|error| bad_line(number, &format!("not JSON: {error}")))?;
            let mut message = template.clone();
            message.payload = line.into_bytes();
            bulk.messages.push(message);
            bulk.lines.push(number);
        }
        Ok(bulk)
    }

    pub(super) async fn send<S: Backend>(&self, store: &S, tx: &mut S::Tx) -> Result<Sent, Unsent> {
        let mut all = Sent::default();
        let bar = progress(self.messages.len());
        for begin in (0..self.messages.len()).step_by(BATCH) {
            let batch = begin..self.messages.len().min(begin + BATCH);
            let sent = self.some(store, tx, batch.clone()).await.map_err(|error| Unsent { batch, error })?;
            all.ids.extend(sent.ids);
            all.queues.extend(sent.queues);
            bar.set_position(all.ids.len() as u64);
        }
        bar.finish_and_clear();
        Ok(all)
    }

    async fn some<S: Backend>(&self, store: &S, tx: &mut S::Tx, which: Range<usize>) -> Result<Sent, Error> {
        self.routes.send(store, S::connection(tx), &self.to, &self.messages[which]).await
    }

    /// What was wrong, with the line of the message that it was about.
    pub(super) async fn explain<S: Backend>(&self, store: &S, unsent: Unsent) -> Failure {
        let Unsent { batch, error } = unsent;
        if error.is_fault::<S>() {
            return Failure::of::<S>(&error);
        }
        let found = if self.messages.len() > 1 { self.find(store, batch.clone()).await } else { None };
        let hide = |error: &Error, about: &[NewMessage]| {
            about
                .iter()
                .fold(format!("{error:#}"), |text, message| self.masks.text(&text, &message.payload, &Headers::new()))
        };
        match found {
            Some((at, error)) => bad_line(self.lines[at], &hide(&error, &self.messages[at..=at])),
            None => Failure::usage(format!("{}; nothing was sent", hide(&error, &self.messages[batch]))),
        }
    }

    /// Sends again what came before the batch that was refused, and then one message after the other until one is refused. Nothing
    /// is committed.
    async fn find<S: Backend>(&self, store: &S, batch: Range<usize>) -> Option<(usize, Error)> {
        let mut tx = store.begin().await.ok()?;
        let mut found = None;
        for begin in (0..batch.start).step_by(BATCH) {
            self.some(store, &mut tx, begin..begin + BATCH).await.ok()?;
        }
        for at in batch {
            if let Err(error) = self.some(store, &mut tx, at..at + 1).await {
                found = Some((at, error)).filter(|(_, error)| !error.is_fault::<S>());
                break;
            }
        }
        store.rollback(tx).await.ok()?;
        found
    }
}

/// A bar on a terminal, for what takes a while.
fn progress(messages: usize) -> ProgressBar {
    if messages <= BATCH {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} messages, {per_sec}");
    ProgressBar::new(messages as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn bad_line(number: usize, text: &str) -> Failure {
    Failure::usage(format!("message {number}: {text}; nothing was sent"))
}
