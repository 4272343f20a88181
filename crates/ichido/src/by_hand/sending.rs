//! Messages on their way to a queue or a lane set: written in batches in one transaction, and if one of them is refused, found by its place.

use std::ops::Range;

use crate::{
    Error, Headers, Masks, NewMessage, Store,
    error::Result,
    lanes::{Routes, Sent},
};

/// Messages per statement.
const BATCH: usize = 1000;

/// Messages on their way to a queue or a lane set.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Where they go: a queue or a lane set.
    pub to: String,
    /// The lane sets.
    pub routes: Routes,
    /// What must not be seen of them.
    pub masks: Masks,
    /// The messages.
    pub messages: Vec<NewMessage>,
}

/// Messages that were refused together, and why.
#[derive(Debug)]
pub struct Unsent {
    among: Range<usize>,
    /// Why.
    pub error: Error,
}

impl Batch {
    /// Sends all of them in this transaction; `progress` is told how many are written.
    ///
    /// # Errors
    /// Some were refused, or the database failed; nothing must be committed.
    pub async fn send<S: Store>(
        &self,
        store: &S,
        tx: &mut S::Tx,
        mut progress: impl FnMut(usize) + Send,
    ) -> Result<Sent, Unsent> {
        let mut all = Sent::default();
        for begin in (0..self.messages.len()).step_by(BATCH) {
            let among = begin..self.messages.len().min(begin + BATCH);
            let sent = self.some(store, tx, among.clone()).await.map_err(|error| Unsent { among, error })?;
            all.ids.extend(sent.ids);
            all.queues.extend(sent.queues);
            progress(all.ids.len());
        }
        Ok(all)
    }

    async fn some<S: Store>(&self, store: &S, tx: &mut S::Tx, which: Range<usize>) -> Result<Sent> {
        self.routes.send(store, S::connection(tx), &self.to, &self.messages[which]).await
    }

    /// What was wrong: the place of the message that it was about, if that can be told, and why, without what must not be seen. Not for what the
    /// database is at fault for.
    pub async fn explain<S: Store>(&self, store: &S, unsent: Unsent) -> (Option<usize>, String) {
        let Unsent { among, error } = unsent;
        let found = if self.messages.len() > 1 { self.find(store, among.clone()).await } else { None };
        let hide = |error: &Error, about: &[NewMessage]| {
            about
                .iter()
                .fold(format!("{error:#}"), |text, message| self.masks.text(&text, &message.payload, &Headers::new()))
        };
        match found {
            Some((at, error)) => (Some(at), hide(&error, &self.messages[at..=at])),
            None => (None, hide(&error, &self.messages[among])),
        }
    }

    /// Sends again what came before those that were refused, and then one message after the other until one is refused. Nothing is
    /// committed.
    async fn find<S: Store>(&self, store: &S, among: Range<usize>) -> Option<(usize, Error)> {
        let mut tx = store.begin().await.ok()?;
        let mut found = None;
        for begin in (0..among.start).step_by(BATCH) {
            self.some(store, &mut tx, begin..begin + BATCH).await.ok()?;
        }
        for at in among {
            if let Err(error) = self.some(store, &mut tx, at..at + 1).await {
                found = Some((at, error)).filter(|(_, error)| !error.is_fault::<S>());
                break;
            }
        }
        store.rollback(tx).await.ok()?;
        found
    }
}
