//! A process of the user's own, run in the test until nothing is left in its queues, and what became of each message.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    ActionError, Context, Error, Handler, MessageId, Next, Outcome, Process, Store, error::Result, handlers::Scope,
    message::Mark,
};

/// Runs a process until no message is unprocessed and none waits for a retry, and counts what became of them.
///
/// The process is built as it is elsewhere, with its handlers, its settings and its pools. A message that waits for a retry is
/// waited for, by the database's time: give the pool a [`RetryPolicy`](crate::RetryPolicy) with short times.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> ichido::Result<()> {
/// # use ichido::{Operate, store::{Database, Transactions}};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite://{}", folder.path().join("test.db").display());
/// # let store = ichido_sqlite::Sqlite::new(&url, vec![ichido::Queue::managed("mail")])?;
/// # store.migrate().await?;
/// # let mut tx = store.begin().await?;
/// # ichido::Client::new(store.clone()).queue("mail").send_all(ichido_sqlite::Sqlite::connection(&mut tx), &["anna", "ben", "nobody"]).await?;
/// # store.commit(tx).await?;
/// use ichido::{Context, Outcome, Pool, Process, Result, testing};
/// use ichido_sqlite::Sqlite;
///
/// async fn greet(_: &mut Context<Sqlite>, name: String) -> Result<Outcome> {
///     if name == "nobody" { Ok(Outcome::park("there is nobody to greet")) } else { Ok(Outcome::Done) }
/// }
///
/// // In the queue `mail`: anna, ben and nobody.
/// let process = Process::new(store).action_fn(Pool::new("Greet").from("mail"), greet);
/// let drained = testing::drain(process).await?;
/// assert_eq!((drained.done, drained.failed), (2, 1));
/// assert_eq!(drained.errors[0].to_string(), "mail/3, attempt 1: there is nobody to greet");
/// # Ok(()) }
/// ```
///
/// # Errors
/// What [`Process::run`] says.
pub async fn drain<S: Store>(process: Process<S>) -> Result<Drained> {
    let witness = Witness::default();
    let told = witness.0.clone();
    let process = process.handlers(|queue| queue.after(Scope::Worker, "read", witness));
    let code = process.drain().run().await?;
    let seen = std::mem::take(&mut *lock(&told));
    let done = seen.last.values().filter(|done| **done).count();
    Ok(Drained { done, failed: seen.last.len() - done, errors: seen.errors, code })
}

/// What became of the messages of a process.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Drained {
    /// Messages that are done.
    pub done: usize,
    /// Messages that have failed for good.
    pub failed: usize,
    /// Every attempt that failed, also of messages that were done in the end.
    pub errors: Vec<Attempt>,
    /// The exit code of the process.
    pub code: i32,
}

impl Drained {
    /// # Panics
    /// If a message has failed, or the process did not end with 0; with every error.
    #[track_caller]
    pub fn assert_all_done(&self) {
        let errors: Vec<_> = self.errors.iter().map(|attempt| format!("\n{attempt}")).collect();
        let Drained { done, failed, code, .. } = self;
        let fine = *failed == 0 && *code == 0;
        assert!(fine, "{done} done, {failed} failed, exit code {code}{}", errors.concat());
    }
}

/// One attempt that failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attempt {
    /// The message.
    pub id: MessageId,
    /// Which attempt.
    pub attempt: u32,
    /// Why.
    pub error: String,
}

impl std::fmt::Display for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, attempt {}: {}", self.id, self.attempt, self.error)
    }
}

/// Sees what comes out of `transaction` and of the handlers before it.
#[derive(Default)]
struct Witness(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// What the last run of each message has come to: when nothing waits any more, that is for good.
    last: BTreeMap<MessageId, bool>,
    errors: Vec<Attempt>,
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Store> Handler<S> for Witness {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let result = next.run(cx).await;
        let mut seen = lock(&self.0);
        for delivery in cx.deliveries() {
            if delivery.mark == Some(Mark::Done) {
                seen.last.insert(delivery.message.id(), true);
            }
        }
        if let ([delivery], Some(error)) = (cx.deliveries(), why(&result))
            && matches!(delivery.mark, None | Some(Mark::Parked))
        {
            let (id, attempt) = (delivery.message.id(), delivery.attempt);
            seen.last.insert(id.clone(), false);
            seen.errors.push(Attempt { id, attempt, error });
        }
        drop(seen);
        result
    }
}

/// Why a message was put aside; none if it was not.
fn why(result: &crate::Result<Outcome>) -> Option<String> {
    match result {
        Ok(Outcome::Done | Outcome::Stop | Outcome::Ended(_)) | Err(ActionError(Error::Setup(_))) => None,
        Ok(Outcome::Park(reason)) => Some(reason.clone()),
        Ok(Outcome::Retry(_)) => Some("the action asked for a retry".into()),
        Ok(Outcome::Abort(code)) => Some(format!("the action aborted the process with code {code}")),
        Err(error) => Some(format!("{error:#}")),
    }
}
