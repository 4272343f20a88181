//! The place of a transaction in the context. It is begun at first use, in a task of its own, so that a caller that is
//! dropped half-way leaks no open transaction into the pool; commit and rollback run in tasks too (docs/invariants.md, "No future
//! that owns a transaction is dropped").

use tokio::task::JoinHandle;

use crate::{
    BoxFuture, Delivery, Error, Store,
    action::Terms,
    broker::Found,
    error::Result,
    process::tasks::{boxed, spawn_in_span},
    store,
};

pub(crate) enum Slot<S: Store> {
    Closed,
    Opening(JoinHandle<Result<S::Tx>>),
    Open(S::Tx),
}

impl<S: Store> Slot<S> {
    /// The transaction, begun now if it is not.
    pub(crate) async fn open(&mut self, store: &S, terms: Terms) -> Result<&mut S::Tx> {
        if let Slot::Closed = self {
            let store = store.clone();
            *self = Slot::Opening(spawn_in_span(async move { store::begin_on(&store, terms).await }));
        }
        if let Slot::Opening(task) = self {
            let begun = joined(task.await);
            *self = Slot::Closed;
            *self = Slot::Open(begun?);
        }
        match self {
            Slot::Open(tx) => Ok(tx),
            _ => Err("the transaction did not start".into()),
        }
    }

    /// Begins one with the lock of this message in it.
    pub(crate) async fn open_locked(&mut self, store: &S, terms: Terms, delivery: Delivery) -> Result<Found> {
        let store = store.clone();
        let (tx, found) = run_to_completion(async move { store::begin_locked(&store, terms, &delivery).await }).await?;
        *self = Slot::Open(tx);
        Ok(found)
    }

    /// Has a transaction been asked for?
    pub(crate) fn is_used(&self) -> bool {
        !matches!(self, Slot::Closed)
    }

    /// Takes the transaction out, waiting for one that is still being begun.
    pub(crate) async fn take(&mut self) -> Option<S::Tx> {
        match std::mem::replace(self, Slot::Closed) {
            Slot::Closed => None,
            Slot::Opening(task) => joined(task.await).ok(),
            Slot::Open(tx) => Some(tx),
        }
    }
}

/// Runs a future in a task of its own and waits for it: if the waiter is dropped, the work still comes to its end.
pub(crate) fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    completed(boxed(work))
}

async fn completed<T: Send + 'static>(work: BoxFuture<'static, Result<T>>) -> Result<T> {
    joined(spawn_in_span(work).await)
}

fn joined<T>(result: Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    result.unwrap_or_else(|error| Err(Error::Panic(error.to_string())))
}
