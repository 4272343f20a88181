//! The end of a business transaction: its messages are completed, or the failure of one is written, and it is committed. Where the
//! answer to COMMIT is lost, the rows tell what is known. All of it runs in a task of its own: whoever waits for it may be dropped.

use tracing::{Instrument, Span};

use crate::{
    Context, Delivery, Error, Store,
    action::{
        files::{Fate, FileSet},
        slot::run_to_completion,
    },
    error::Result,
    message::Mark,
    store::{self, Failure},
    trace,
};

/// How a business transaction ended.
enum Ending {
    Committed,
    RolledBack(Error),
    Unknown(Error),
}

/// Completes the messages, or records the failure of one, and commits; whoever drops us, it comes to an end.
pub(super) async fn complete_and_commit<S: Store>(cx: &mut Context<S>, failure: Option<Failure>) -> Result<()> {
    cx.tx().await?; // completion needs a transaction even if the action did not
    let copies: Vec<_> = cx.batch.window().iter().map(Delivery::copy).collect();
    let Some(tx) = cx.slot.take().await.filter(|_| !copies.is_empty()) else {
        return Err(Error::Setup("the handler `read` must come before `transaction`".into()));
    };
    cx.watched.note(None);
    let (store, files) = (cx.store.clone(), cx.files.take());
    let ending = async move { Ok(end(&store, tx, copies, failure, files).await) };
    match run_to_completion(ending).await? {
        Ending::Committed => {
            cx.wake();
            Ok(())
        }
        Ending::RolledBack(error) => Err(error),
        Ending::Unknown(error) => {
            cx.batch.window_mut().iter_mut().for_each(|delivery| delivery.mark = Some(Mark::Unknown));
            Err(error)
        }
    }
}

async fn end<S: Store>(
    store: &S,
    mut tx: S::Tx,
    deliveries: Vec<Delivery>,
    failure: Option<Failure>,
    mut files: Option<FileSet>,
) -> Ending {
    let (ending, fate) = match complete(store, &mut tx, &deliveries, failure, files.as_mut()).await {
        Ok(()) => match traced(trace::span!("commit"), store::commit(store, tx)).await {
            Ok(()) => (Ending::Committed, Fate::Committed),
            // A message may be out of our hands for another reason; files have a row of their own.
            // On the heap, like all that is rare: each pass would have room for it.
            Err(error) => (Box::pin(look(store, &deliveries, error)).await, Fate::Unknown),
        },
        Err(error) => {
            if let Err(error) = store::rollback(store, tx).await {
                tracing::debug!(error = %error.in_full(), "rollback failed");
            }
            (Ending::RolledBack(error), Fate::RolledBack)
        }
    };
    if let Some(files) = files {
        files.end(store, fate).await;
    }
    ending
}

/// The last statements of a business transaction: its files belong to it, and its messages go through the door.
async fn complete<S: Store>(
    store: &S,
    tx: &mut S::Tx,
    deliveries: &[Delivery],
    failure: Option<Failure>,
    files: Option<&mut FileSet>,
) -> Result<()> {
    if let Some(files) = files {
        files.seal().await?;
        store::note_files(store, tx, files.id()).await?;
    }
    // Without a claim there is nothing to complete, but the transaction must still prove that it is the one we began.
    match failure {
        None => traced(trace::span!("complete"), store::complete(store, tx, deliveries)).await,
        Some(failure) => store::fail(store, tx, &deliveries[0], &failure).await,
    }
}

/// As a step of the message's trace.
async fn traced<T>(span: Span, step: impl Future<Output = Result<T>>) -> Result<T> {
    let done = step.instrument(span.clone()).await;
    trace::fail(&span, done.is_err().then_some("database"));
    done
}

/// The rows tell: whoever still has one claim of a transaction has not committed it. A row that is gone was completed, unless an operator has
/// taken it away since. Nothing is written on a guess.
async fn look<S: Store>(store: &S, deliveries: &[Delivery], error: Error) -> Ending {
    if deliveries.iter().any(|delivery| delivery.claim.is_none()) {
        return Ending::Unknown(error);
    }
    let unknown = |probe: Error, delivery: &Delivery, error| {
        tracing::warn!(error = %probe.in_full(), "commit outcome of {} unknown", delivery.message.id());
        Ending::Unknown(error)
    };
    for delivery in deliveries {
        match store::is_claimed(store, delivery).await {
            Ok(true) => return Ending::RolledBack(error),
            Ok(false) => {}
            Err(probe) => return unknown(probe, delivery, error),
        }
    }
    for delivery in deliveries {
        match store::finish_cancel(store, delivery).await {
            Ok(true) => return Ending::RolledBack(Error::Cancelled),
            Ok(false) => {}
            Err(probe) => return unknown(probe, delivery, error),
        }
    }
    Ending::Committed
}
