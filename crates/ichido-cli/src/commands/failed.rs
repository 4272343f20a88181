//! `ichido failed`: the messages that wait for an operator.

use std::collections::{BTreeMap, BTreeSet};

use ichido::{
    Error, Headers, Masks, MessageId,
    inspect::{Parked, ParkedFilter},
};
use serde::Serialize;

use super::doctor;
use crate::{
    args::{Failed, Many, Which},
    config::Config,
    failure::{FOUND, Failure},
    open::{Backend, OnStore},
    output, program,
};

impl OnStore for Failed {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        match self {
            Failed::List { which, waiting, json } => list(&store, config, which, waiting, json).await,
            Failed::Show { id, json } => show(&store, config, &id, json).await,
            Failed::Retry(many) => by_hand(&store, config, Verb::Retry, many).await,
            Failed::Discard(many) => by_hand(&store, config, Verb::Discard, many).await,
        }
    }
}

/// What the filter means; a queue that the configuration does not know is a slip.
async fn find<S: Backend>(store: &S, config: &Config, which: Which, waiting: bool) -> Result<Vec<Parked>, Failure> {
    if let Some(queue) = which.queue.as_ref().filter(|queue| !config.queues.contains_key(*queue)) {
        return Err(Failure::unknown_queue(queue, config));
    }
    let mut filter = ParkedFilter::default();
    (filter.queue, filter.error, filter.older) = (which.queue, which.error, which.older);
    (filter.waiting, filter.limit) = (waiting, which.limit);
    store.parked(&filter).await.map_err(|error| Failure::of::<S>(&error))
}

async fn list<S: Backend>(store: &S, config: &Config, which: Which, waiting: bool, json: bool) -> Result<u8, Failure> {
    let parked = find(store, config, which, waiting).await?;
    if json {
        output::json(&parked)?;
        return Ok(0);
    }
    let mut shapes: BTreeMap<&str, usize> = BTreeMap::new();
    for message in &parked {
        *shapes.entry(&message.shape).or_default() += 1;
    }
    let mut shapes: Vec<_> = shapes.into_iter().map(|(shape, count)| (count, shape)).collect();
    shapes.sort_unstable_by(|one, other| other.cmp(one));
    if parked.len() > 1 {
        let rows = shapes.iter().map(|(count, shape)| [count.to_string(), output::shortened(shape, 100)]);
        output::table(["COUNT", "ERROR"], &rows.collect::<Vec<_>>())?;
        output::print("")?;
    }
    let rows = parked.iter().map(|message| {
        let (attempts, error) = (message.attempts.to_string(), output::shortened(&message.error, 100));
        [message.id.clone(), message.state.to_string(), attempts, message.parked_at.clone(), error]
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

/// What is masked is masked here too. Errors were when they were recorded; those from before are looked at again.
fn mask(masks: &Masks, parked: &mut Parked, payload: Option<String>) -> Option<String> {
    let known = payload.as_deref().unwrap_or_default().as_bytes();
    let hide = |text: &mut String| *text = masks.text(text, known, &Headers::new());
    hide(&mut parked.error);
    parked.history.iter_mut().for_each(|failure| hide(&mut failure.error));
    parked.shape = ichido::inspect::shape(&parked.error);
    payload.map(|payload| masks.payload(payload.as_bytes()).into_owned())
}

async fn show<S: Backend>(store: &S, config: &Config, id: &str, json: bool) -> Result<u8, Failure> {
    let id: MessageId = id.parse().map_err(|error| Failure::of::<S>(&error))?;
    let mut filter = ParkedFilter::default();
    (filter.id, filter.waiting) = (Some(id.clone()), true);
    let payload = store.payload(&id).await.map_err(|error| Failure::of::<S>(&error))?;
    let parked = store.parked(&filter).await.map_err(|error| Failure::of::<S>(&error))?;
    let Some(mut parked) = parked.into_iter().next() else {
        return Err(Failure::found(format!("{id} has not failed")));
    };
    let payload = mask(&program::masks(config), &mut parked, payload);
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

/// What the database said about a message, without what must not be seen of it.
async fn hidden<S: Backend>(store: &S, config: &Config, id: &MessageId, error: &Error) -> String {
    let masks = program::masks(config);
    let payload = if masks.is_empty() { None } else { store.payload(id).await.ok().flatten() };
    masks.text(&error.to_string(), payload.unwrap_or_default().as_bytes(), &Headers::new())
}

/// What an operator does with a failed message.
#[derive(Clone, Copy)]
enum Verb {
    Retry,
    Discard,
}

/// Each message is looked at again at the moment it is changed; what has not failed (any more) is told and left alone.
async fn by_hand<S: Backend>(store: &S, config: &Config, verb: Verb, many: Many) -> Result<u8, Failure> {
    let ids = if many.ids.is_empty() {
        find(store, config, many.which, false).await?.into_iter().map(|parked| parked.id).collect()
    } else {
        many.ids
    };
    let (mut code, mut changed) = (0, Vec::new());
    for id in ids {
        let id: MessageId = id.parse().map_err(|error| Failure::of::<S>(&error))?;
        let (done, would) = match verb {
            Verb::Retry => ("retried", "would be retried"),
            Verb::Discard => ("discarded", "would be discarded"),
        };
        if many.dry_run {
            output::print(&format!("{id} {would}"))?;
            continue;
        }
        let result = match verb {
            Verb::Retry => store.retry(&id).await,
            Verb::Discard => store.discard(&id).await,
        };
        match result {
            Ok(true) => {
                output::print(&format!("{id} {done}"))?;
                changed.push(id);
            }
            Ok(false) => {
                eprintln!("ichido: {id} has not failed; left alone");
                code = FOUND;
            }
            // What the database says about one message must not keep the others from being repaired.
            Err(error @ Error::Failed(_)) if !error.is_fault::<S>() => {
                eprintln!("ichido: {}", hidden(store, config, &id, &error).await);
                code = FOUND;
            }
            Err(error) => return Err(Failure::of::<S>(&error)),
        }
    }
    // What runs again, or was held up in its group, need not wait for a poll.
    for queue in changed.iter().map(|id| &id.queue).collect::<BTreeSet<_>>() {
        store.wake_ups().tell(store, queue).await;
    }
    if matches!(verb, Verb::Discard) {
        doctor::forget(store, config, &changed).await;
    }
    Ok(code)
}
