//! `ichido failed`: the messages that wait for an operator.

use ichido::{MessageId, Parked, ParkedFilter};
use serde::Serialize;

use crate::{
    args::Failed,
    config::Config,
    failure::{FOUND, Failure},
    open::{Backend, OnStore},
    output,
};

impl OnStore for Failed {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        match self {
            Failed::List { queue: Some(queue), .. } if !config.queues.contains_key(&queue) => {
                Err(Failure::unknown_queue(&queue, config))
            }
            Failed::List { queue, waiting, limit, json } => list(&store, queue, waiting, limit, json).await,
            Failed::Show { id, json } => show(&store, &id, json).await,
            Failed::Retry { ids } => by_hand(&store, Verb::Retry, ids).await,
            Failed::Discard { ids } => by_hand(&store, Verb::Discard, ids).await,
        }
    }
}

async fn list<S: Backend>(
    store: &S,
    queue: Option<String>,
    waiting: bool,
    limit: u32,
    json: bool,
) -> Result<u8, Failure> {
    let mut filter = ParkedFilter::default();
    (filter.queue, filter.waiting, filter.limit) = (queue, waiting, limit);
    let parked = store.parked(&filter).await.map_err(|error| Failure::of::<S>(&error))?;
    if json {
        output::json(&parked)?;
        return Ok(0);
    }
    let rows = parked.iter().map(|message| {
        let attempts = message.attempts.to_string();
        [
            message.id.clone(),
            message.state.to_string(),
            attempts,
            message.parked_at.clone(),
            output::shortened(&message.error, 100),
        ]
    });
    output::table(["MESSAGE", "STATE", "ATTEMPTS", "SINCE", "ERROR"], &rows.collect::<Vec<_>>())?;
    Ok(0)
}

/// A failed message with its payload.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    parked: Parked,
    payload: Option<String>,
}

async fn show<S: Backend>(store: &S, id: &str, json: bool) -> Result<u8, Failure> {
    let id: MessageId = id.parse().map_err(|error| Failure::of::<S>(&error))?;
    let mut filter = ParkedFilter::default();
    (filter.id, filter.waiting) = (Some(id.clone()), true);
    let payload = store.payload(&id).await.map_err(|error| Failure::of::<S>(&error))?;
    let parked = store.parked(&filter).await.map_err(|error| Failure::of::<S>(&error))?;
    let Some(parked) = parked.into_iter().next() else {
        return Err(Failure::found(format!("{id} has not failed")));
    };
    if json {
        output::json(&Shown { parked, payload })?;
        return Ok(0);
    }
    output::print(&format!("message   {}", parked.id))?;
    output::print(&format!("state     {}", parked.state))?;
    output::print(&format!("attempts  {}", parked.attempts))?;
    output::print(&format!("since     {}", parked.parked_at))?;
    if let Some(due) = &parked.due_at {
        output::print(&format!("due       {due}"))?;
    }
    output::print(&format!("payload   {}", output::readable(payload.as_deref().unwrap_or("(gone)"))))?;
    for failure in &parked.history {
        output::print(&format!(
            "\nattempt {} at {}\n{}",
            failure.attempt,
            failure.at,
            output::readable(&failure.error)
        ))?;
    }
    Ok(0)
}

/// What an operator does with a failed message.
#[derive(Clone, Copy)]
enum Verb {
    Retry,
    Discard,
}

/// Each id is looked at again at the moment it is changed; what has not failed (any more) is told and left alone.
async fn by_hand<S: Backend>(store: &S, verb: Verb, ids: Vec<String>) -> Result<u8, Failure> {
    let mut code = 0;
    for id in ids {
        let id: MessageId = id.parse().map_err(|error| Failure::of::<S>(&error))?;
        let (changed, done) = match verb {
            Verb::Retry => (store.retry(&id).await, "retried"),
            Verb::Discard => (store.discard(&id).await, "discarded"),
        };
        if changed.map_err(|error| Failure::of::<S>(&error))? {
            output::print(&format!("{id} {done}"))?;
        } else {
            eprintln!("ichido: {id} has not failed; left alone");
            code = FOUND;
        }
    }
    Ok(code)
}
