//! Messages moved in time: each in a transaction of its own, under the lock of its row. What cannot be moved is left as it is, with the reason.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{hidden, nowhere};
use crate::{
    Due, Error, Masks, MessageId, Messages,
    error::Result,
    inspect::{Changed, MessageInfo, MessageState},
};

/// What became of a message.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Moved {
    /// The message.
    pub id: String,
    /// Was it changed?
    pub changed: bool,
    /// Its state now.
    pub state: Option<MessageState>,
    /// When it runs.
    pub due_at: Option<String>,
    /// The same in words.
    pub text: String,
    /// It is not as it was asked for.
    #[serde(skip)]
    pub failed: bool,
}

impl Moved {
    fn new(id: &MessageId, changed: bool, info: Option<&MessageInfo>, text: String, failed: bool) -> Self {
        let due_at = info.and_then(|info| info.due_at.clone());
        Moved { id: id.to_string(), changed, state: info.map(|info| info.state), due_at, text, failed }
    }

    /// It was left as it is.
    fn left(id: &MessageId, info: Option<&MessageInfo>) -> Self {
        let text = info.map_or_else(|| nowhere(id), MessageInfo::why_left);
        Moved::new(id, false, info, text, true)
    }

    /// What the database said about one message must not keep the others from being moved.
    async fn refused<S: Messages>(store: &S, masks: &Masks, id: &MessageId, error: Error) -> Result<Self> {
        if error.is_fault::<S>() {
            return Err(error);
        }
        let text = hidden(store, masks, id, &error).await;
        Ok(Moved::new(id, false, None, text, true))
    }
}

/// A message that waits becomes due at another time; one that is ready waits until then.
///
/// # Errors
/// The database fails.
pub async fn reschedule<S: Messages>(store: &S, masks: &Masks, id: &MessageId, due: Due) -> Result<Moved> {
    match store.reschedule(id, due).await {
        Ok(Changed::Yes) => {
            let info = store.message(id).await?;
            let due = info.as_ref().and_then(|info| info.due_at.clone()).unwrap_or_else(|| "now".into());
            Ok(Moved::new(id, true, info.as_ref(), format!("{id} rescheduled; due {due}"), false))
        }
        Ok(Changed::No(info)) => Ok(Moved::left(id, info.as_deref())),
        Err(error) => Moved::refused(store, masks, id, error).await,
    }
}

/// Messages that wait become ready, and their workers are woken.
///
/// # Errors
/// The database fails.
pub async fn run_now<S: Messages>(store: &S, masks: &Masks, ids: &[MessageId]) -> Result<Vec<Moved>> {
    let mut all = Vec::new();
    for id in ids {
        all.push(match store.run_now(id).await {
            Ok(Changed::Yes) => {
                let info = MessageInfo::new(id.to_string(), &*id.queue, MessageState::Ready);
                Moved::new(id, true, Some(&info), format!("{id} is ready now"), false)
            }
            Ok(Changed::No(Some(info))) if info.state == MessageState::Ready => {
                Moved::new(id, false, Some(&info), format!("{id} is ready already; there is nothing to do"), false)
            }
            Ok(Changed::No(info)) => Moved::left(id, info.as_deref()),
            Err(error) => Moved::refused(store, masks, id, error).await?,
        });
    }
    let changed = ids.iter().zip(&all).filter(|(_, moved)| moved.changed);
    for queue in changed.map(|(id, _)| &id.queue).collect::<BTreeSet<_>>() {
        store.wake_ups().tell(store, queue).await;
    }
    Ok(all)
}
