//! `ichido failed`: the messages that wait for an operator. `list` and `show` are here, `retry` and `discard` in `repairing`.

mod repairing;

use std::collections::BTreeMap;

use ichido::{
    MessageId,
    by_hand::{self, Repair},
    inspect::{Parked, ParkedFilter},
};

use self::repairing::repair;
use crate::{
    args::{Failed, Which},
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output, program,
};

/// So many messages are listed unless `--limit` says otherwise.
const LISTED: u32 = 100;

/// The summary of errors counts so many messages, however few are listed.
const SUMMARISED: u32 = 10_000;

impl OnStore for Failed {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        match self {
            Failed::List { which, waiting, json } => list(&store, config, which, waiting, json).await,
            Failed::Show { id, json } => show(&store, config, &id, json).await,
            Failed::Retry(many) => repair(&store, config, Repair::Retry, many).await,
            Failed::Discard(many) => repair(&store, config, Repair::Discard, many).await,
        }
    }
}

/// What the filter means; a queue that the configuration does not know is a slip.
fn filter(config: &Config, which: Which, waiting: bool) -> Result<ParkedFilter, Failure> {
    if let Some(queue) = which.queue.as_ref().filter(|queue| !config.queues.contains_key(*queue)) {
        return Err(Failure::unknown_queue(queue, config));
    }
    let mut filter = ParkedFilter::default();
    (filter.queue, filter.error, filter.older) = (which.queue, which.error, which.older);
    (filter.waiting, filter.limit) = (waiting, which.limit.unwrap_or(LISTED));
    Ok(filter)
}

async fn list<S: Backend>(store: &S, config: &Config, which: Which, waiting: bool, json: bool) -> Result<u8, Failure> {
    let mut filter = filter(config, which, waiting)?;
    let limit = filter.limit as usize;
    // One more than the summary counts tells whether it is complete.
    filter.limit = if json { filter.limit } else { filter.limit.max(SUMMARISED).saturating_add(1) };
    let mut parked = store.parked(&filter).await.map_err(|error| Failure::of::<S>(&error))?;
    if json {
        output::json(&parked)?;
    } else {
        let is_bound = parked.len() == filter.limit as usize;
        parked.truncate(filter.limit as usize - 1);
        summarise(&parked, is_bound)?;
        let rows = parked.iter().take(limit).map(|message| {
            let (attempts, error) = (message.attempts.to_string(), output::shortened(&why(message), 100));
            [message.id.clone(), message.state.to_string(), attempts, message.parked_at.clone(), error]
        });
        output::table(["MESSAGE", "STATE", "ATTEMPTS", "SINCE", "ERROR"], &rows.collect::<Vec<_>>())?;
        if parked.len() > limit {
            let all = format!("{}{}", if is_bound { "more than " } else { "" }, parked.len());
            output::talk(&format!("ichido: {limit} of {all} messages are shown; use --limit to see more"));
        }
    }
    if filter.queue.is_none() {
        tell_elsewhere(store).await?;
    }
    Ok(0)
}

/// Why a message is parked: its last error, or that it is snoozed.
fn why(message: &Parked) -> String {
    match message.snoozed {
        0 => message.error.clone(),
        1 => "snoozed".into(),
        times => format!("snoozed {times} times"),
    }
}

/// How often which error; lower bounds where not all messages were counted.
fn summarise(parked: &[Parked], is_bound: bool) -> Result<(), Failure> {
    if parked.len() < 2 {
        return Ok(());
    }
    let mut shapes: BTreeMap<&str, usize> = BTreeMap::new();
    for message in parked {
        *shapes.entry(&message.shape).or_default() += 1;
    }
    let mut shapes: Vec<_> = shapes.into_iter().map(|(shape, count)| (count, shape)).collect();
    shapes.sort_unstable_by(|one, other| other.cmp(one));
    let bound = if is_bound { "≥" } else { "" };
    let rows = shapes.iter().map(|(count, shape)| [format!("{bound}{count}"), output::shortened(shape, 100)]);
    output::table(["COUNT", "ERROR"], &rows.collect::<Vec<_>>())?;
    output::print("")
}

/// Two applications may share a database: what belongs to another one is named and left alone.
async fn tell_elsewhere<S: Backend>(store: &S) -> Result<(), Failure> {
    let elsewhere = store.failed_elsewhere().await.map_err(|error| Failure::of::<S>(&error))?;
    if !elsewhere.is_empty() {
        let named: Vec<_> = elsewhere.iter().map(|(queue, count)| format!("{queue} ({count})")).collect();
        let named = output::shortened(&named.join(", "), 200);
        output::talk(&format!(
            "ichido: left alone: failed messages of queues that are not in this configuration: {named}"
        ));
    }
    Ok(())
}

/// The id of a message in one of the configuration's queues.
pub(super) fn known_id<S: Backend>(config: &Config, id: &str) -> Result<MessageId, Failure> {
    let id: MessageId = id.parse().map_err(|error| Failure::of::<S>(&error))?;
    if config.queues.contains_key(&*id.queue) { Ok(id) } else { Err(Failure::unknown_queue(&id.queue, config)) }
}

async fn show<S: Backend>(store: &S, config: &Config, id: &str, json: bool) -> Result<u8, Failure> {
    let id = known_id::<S>(config, id)?;
    let found = by_hand::show_failure(store, &program::masks(config), &id).await;
    let found = found.map_err(|error| Failure::of::<S>(&error))?;
    let shown = found.ok_or_else(|| Failure::found(format!("{id} has not failed")))?;
    if json {
        output::json(&shown)?;
        return Ok(0);
    }
    let (parked, payload) = (shown.parked, shown.payload);
    output::print(&format!("message   {}", parked.id))?;
    output::print(&format!("state     {}", parked.state))?;
    output::print(&format!("attempts  {}", parked.attempts))?;
    if parked.snoozed > 0 {
        output::print(&format!("snoozed   {}", parked.snoozed))?;
    }
    output::print(&format!("since     {}", parked.parked_at))?;
    if let Some(due) = &parked.due_at {
        output::print(&format!("due       {due}"))?;
    }
    output::print(&format!("payload   {}", output::indented(payload.as_deref().unwrap_or("(gone)"))))?;
    for failure in &parked.history {
        let error = output::indented(&failure.error);
        output::print(&format!("\nattempt {} at {}\n{error}", failure.attempt, failure.at))?;
    }
    Ok(0)
}
