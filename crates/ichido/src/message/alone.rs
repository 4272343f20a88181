//! Sending without a transaction of the caller's own: one of the store's is begun, and committed when everything is sent. It runs in a
//! task of its own, so that a caller that is dropped half-way leaves no open transaction behind. Senders call it.

use std::{error::Error as StdError, fmt};

use crate::{
    Cause, Error, MessageId, NewMessage, Store,
    action::{Terms, slot::run_to_completion},
    error::{Fault, Result},
    lanes::Routes,
    store,
};

/// COMMIT was sent, and nobody knows whether it happened: what was to be sent may have been sent, or not.
///
/// It is in the chain of sources of the error that a send without a transaction of one's own returns. Whoever sends again may
/// send twice, unless the first one had a unique key: then the second send finds it.
#[derive(Debug)]
pub struct UnknownCommit(pub Cause);

impl fmt::Display for UnknownCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the outcome of COMMIT is unknown: the messages were sent, or not; with a unique key it is safe to send them again",
        )
    }
}

impl StdError for UnknownCommit {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.0.as_ref())
    }
}

/// Begins a transaction, sends, commits, and wakes whoever waits.
pub(crate) async fn send_and_commit<S: Store>(
    store: &S,
    routes: &Routes,
    to: &str,
    messages: Vec<NewMessage>,
) -> Result<Vec<MessageId>> {
    let (store, routes, to) = (store.clone(), routes.clone(), to.to_owned());
    run_to_completion(async move {
        let mut tx = store::begin_on(&store, Terms::default()).await?;
        let sent = match routes.send(&store, S::connection(&mut tx), &to, &messages).await {
            Ok(sent) => sent,
            Err(error) => {
                if let Err(error) = store::rollback(&store, tx).await {
                    tracing::debug!(error = %error.in_full(), "rollback failed");
                }
                return Err(error);
            }
        };
        let (now, soon): (Vec<_>, Vec<_>) =
            sent.queues.into_iter().partition(|queue| store.wake_ups().take_turn(queue));
        store::commit_and_notify(&store, tx, &now).await.map_err(unknown::<S>)?;
        for queue in &now {
            store.wake_ups().tell_host(queue);
        }
        for queue in &soon {
            store.wake_ups().sent(&store, queue, true);
        }
        Ok(sent.ids)
    })
    .await
}

/// What the server has answered to COMMIT is known; where it has not, nobody knows.
fn unknown<S: Store>(error: Error) -> Error {
    if !error.is_fault::<S>() {
        return error;
    }
    Error::Failed(UnknownCommit(Fault(error.into()).into()).into())
}
