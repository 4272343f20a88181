//! An action that has run by [`Run`](super::Run): what it said and sent, and its transaction, which the test looks into.

use std::{fmt, path::Path};

use super::sent::{Expected, Sent};
use crate::{Context, Error, Outcome, Store, action::slot::Slot, error::Result, store};

/// An action that has run, with its transaction still open.
pub struct Ran<S: Store> {
    pub(super) cx: Context<S>,
    pub(super) result: Result<Outcome>,
}

impl<S: Store> Ran<S> {
    /// What the action said, or its error; a panic is an error too.
    ///
    /// # Errors
    /// The action's.
    pub fn result(&self) -> Result<&Outcome, &Error> {
        self.result.as_ref()
    }

    /// What the action said.
    ///
    /// # Panics
    /// If it failed; with its error.
    #[must_use]
    #[track_caller]
    pub fn outcome(&self) -> &Outcome {
        self.result.as_ref().unwrap_or_else(|error| panic!("the action failed: {error:#}"))
    }

    /// The action's error.
    ///
    /// # Panics
    /// If it did not fail; with what it said.
    #[must_use]
    #[track_caller]
    pub fn error(&self) -> &Error {
        self.result.as_ref().expect_err("the action did not fail")
    }

    /// The action's transaction, to inspect what it has written; started now if the action has not.
    ///
    /// # Errors
    /// When the transaction cannot be started.
    pub async fn tx(&mut self) -> Result<&mut S::Connection> {
        self.cx.tx().await
    }

    /// Has the action started its transaction?
    #[must_use]
    pub fn opened_transaction(&self) -> bool {
        !matches!(self.cx.slot, Slot::Closed)
    }

    /// What the action wrote to this file, which appears only with a commit.
    ///
    /// # Errors
    /// If it wrote nothing there, or it cannot be read.
    pub async fn file(&mut self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        match &mut self.cx.files {
            Some(files) => files.written(path.as_ref()).await,
            None => Err(Error::Refused("no file was written".into())),
        }
    }

    /// What the action sent through its context, in order. What it sent through a [`Client`](crate::Client) of its own is in
    /// the tables only.
    #[must_use]
    pub fn sent(&self) -> &[Sent] {
        self.cx.noted.as_deref().unwrap_or_default()
    }

    /// Something was sent to this queue; what it must be is said by what follows.
    ///
    /// # Panics
    /// If nothing was; with what was sent.
    #[track_caller]
    pub fn assert_sent(&self, queue: &str) -> Expected<'_> {
        Expected::new(self.sent(), queue)
    }

    /// # Panics
    /// If something was sent; with what it was.
    #[track_caller]
    pub fn assert_nothing_sent(&self) {
        assert!(self.sent().is_empty(), "nothing was to be sent\n{}", Sent::list(self.sent()));
    }

    /// Rolls back. Dropping it does the same, a moment later.
    pub async fn roll_back(mut self) {
        self.cx.roll_back().await;
    }
}

impl<S: Store> fmt::Debug for Ran<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ran").field("result", &self.result).field("sent", &self.sent()).finish_non_exhaustive()
    }
}

impl<S: Store> Drop for Ran<S> {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if let Slot::Open(tx) = std::mem::replace(&mut self.cx.slot, Slot::Closed) {
            let store = self.cx.store.clone();
            runtime.spawn(async move { store::rollback(&store, tx).await });
        }
        if let Some(files) = self.cx.files.take() {
            runtime.spawn(files.remove());
        }
    }
}
