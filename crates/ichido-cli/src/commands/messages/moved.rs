//! `ichido messages reschedule` and `run-now`: each message in a transaction of its own, under the lock of its row. What cannot be moved is
//! left as it is, with the reason.

use std::collections::BTreeSet;

use ichido::{
    Due, Error, MessageId,
    inspect::{Changed, MessageInfo, MessageState},
};
use serde::Serialize;

use super::{
    super::failed::{hidden, known_id},
    nowhere,
};
use crate::{
    args::Reschedule,
    config::Config,
    failure::{FOUND, Failure},
    open::Backend,
    output,
};

/// What became of a message.
#[derive(Serialize)]
struct Moved {
    id: String,
    changed: bool,
    state: Option<MessageState>,
    due_at: Option<String>,
    text: String,
    /// It is not as it was asked for.
    #[serde(skip)]
    failed: bool,
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
    async fn refused<S: Backend>(store: &S, config: &Config, id: &MessageId, error: &Error) -> Result<Self, Failure> {
        if error.is_fault::<S>() {
            return Err(Failure::of::<S>(error));
        }
        let (name, text) = (id.to_string(), hidden(store, config, id, error).await);
        let text = if text.contains(&name) { text } else { format!("{name}: {text}") };
        Ok(Moved::new(id, false, None, text, true))
    }
}

pub(super) async fn reschedule<S: Backend>(store: &S, config: &Config, asked: Reschedule) -> Result<u8, Failure> {
    let id = known_id::<S>(config, &asked.id)?;
    let due = match (asked.delay, asked.at) {
        (Some(delay), _) => Due::After(delay),
        (None, Some(at)) => Due::At(at),
        (None, None) => return Err(Failure::usage("one of --delay and --at is needed")),
    };
    let moved = match store.reschedule(&id, due).await {
        Ok(Changed::Yes) => {
            let info = store.message(&id).await.map_err(|error| Failure::of::<S>(&error))?;
            let due = info.as_ref().and_then(|info| info.due_at.clone()).unwrap_or_else(|| "now".into());
            Moved::new(&id, true, info.as_ref(), format!("{id} rescheduled; due {due}"), false)
        }
        Ok(Changed::No(info)) => Moved::left(&id, info.as_deref()),
        Err(error) => Moved::refused(store, config, &id, &error).await?,
    };
    tell(&[moved], asked.json)
}

pub(super) async fn run_now<S: Backend>(store: &S, config: &Config, ids: &[String], json: bool) -> Result<u8, Failure> {
    // All of them are read before the first is changed.
    let ids = ids.iter().map(|id| known_id::<S>(config, id)).collect::<Result<Vec<_>, _>>()?;
    let mut all = Vec::new();
    for id in &ids {
        all.push(match store.run_now(id).await {
            Ok(Changed::Yes) => {
                let info = MessageInfo::new(id.to_string(), &*id.queue, MessageState::Ready);
                Moved::new(id, true, Some(&info), format!("{id} is ready now"), false)
            }
            Ok(Changed::No(Some(info))) if info.state == MessageState::Ready => {
                Moved::new(id, false, Some(&info), format!("{id} is ready already; there is nothing to do"), false)
            }
            Ok(Changed::No(info)) => Moved::left(id, info.as_deref()),
            Err(error) => Moved::refused(store, config, id, &error).await?,
        });
    }
    let changed = ids.iter().zip(&all).filter(|(_, moved)| moved.changed);
    for queue in changed.map(|(id, _)| &id.queue).collect::<BTreeSet<_>>() {
        store.wake_ups().tell(store, queue).await;
    }
    tell(&all, json)
}

/// Prints what was done, and complains about what was not.
fn tell(all: &[Moved], json: bool) -> Result<u8, Failure> {
    if json {
        output::json(&all)?;
    } else {
        for moved in all {
            if moved.failed {
                output::complain(&format!("ichido: {}", moved.text));
            } else {
                output::print(&moved.text)?;
            }
        }
    }
    Ok(if all.iter().any(|moved| moved.failed) { FOUND } else { 0 })
}
