//! Single messages of any queue: listed, shown, cancelled, moved in time.

use std::time::Duration;

use axum::{Json, extract::Path};
use ichido::{
    Due, MessageId,
    by_hand::{Moved, ShownMessage, parse_time},
    inspect::{Listed, MessageInfo},
    store::Cancellable,
};
use serde::{Deserialize, Serialize};

use super::{Answered, Body, LISTED, MOST_LISTED};
use crate::{
    Console, Problem,
    access::{As, Operate, Read},
    desk::{CancelLine, CancelOrder, Which},
    fields::Fields,
    known,
};

/// So many messages are changed at a time.
pub(super) const MOST_IDS: usize = 1000;

/// A message that runs is waited for at most this long.
const LONGEST_WAIT: u64 = 30;

/// No reason is longer.
const LONGEST_REASON: usize = 250;

/// Ten years: no database counts further.
pub(crate) const LONGEST_DELAY: u64 = 10 * 365 * 24 * 3600;

/// A page.
#[derive(Serialize)]
pub(super) struct Page {
    messages: Vec<MessageInfo>,
    next: Option<String>,
    notes: Vec<String>,
}

pub(super) async fn list(who: As<Read>, query: Fields) -> Answered<Page> {
    let query = query.only(&["queue", "state", "limit", "after"])?;
    let queues = match query.name("queue")? {
        None => who.console().queues().to_vec(),
        Some(queue) => {
            known::queue(who.console(), &queue)?;
            vec![queue]
        }
    };
    let states = query.parsed::<Listed>("state", "one of ready, claimed, waiting and failed")?;
    let states = states.map_or_else(|| Listed::ALL.to_vec(), |state| vec![state]);
    let after = query.get("after").map(known::place).transpose()?;
    let limit = query.limit(LISTED, MOST_LISTED)?;
    let page = who.look().list(queues, states, after, limit as usize).await?;
    let next = page.next.as_ref().map(ToString::to_string);
    Ok(Json(Page { messages: page.messages, next, notes: page.notes }))
}

pub(super) async fn one(who: As<Read>, Path(id): Path<String>, query: Fields) -> Answered<ShownMessage> {
    query.only(&[])?;
    let id = known::id(who.console(), &id)?;
    let found = who.look().message(id.clone()).await?;
    found.map(Json).ok_or_else(|| Problem::nowhere(ichido::by_hand::nowhere(&id)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    #[serde(default)]
    ids: Vec<String>,
    queue: Option<String>,
    #[serde(default)]
    states: Vec<String>,
    #[serde(default)]
    dry_run: bool,
    limit: Option<usize>,
    wait_seconds: Option<u64>,
    reason: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Cancels {
    messages: Vec<CancelLine>,
    /// There may be more of the queue.
    more: bool,
}

pub(super) async fn cancel(who: As<Operate>, body: Body<Cancel>) -> Answered<Cancels> {
    let asked = body.value;
    let which = match &asked.queue {
        Some(_) if !asked.ids.is_empty() => return Err(Problem::bad("either `ids` or `queue`, not both")),
        None if !asked.states.is_empty() => return Err(Problem::bad("`states` needs `queue`")),
        None => Which::These(ids(who.console(), &asked.ids)?),
        Some(queue) => {
            known::queue(who.console(), queue)?;
            Which::All(queue.clone(), states(&asked.states)?)
        }
    };
    let wait = asked.wait_seconds.unwrap_or(10);
    if wait > LONGEST_WAIT {
        return Err(Problem::bad(format!("`wait_seconds` must be at most {LONGEST_WAIT}")));
    }
    let limit = asked.limit.unwrap_or(MOST_IDS);
    if !(1..=MOST_IDS).contains(&limit) {
        return Err(Problem::bad(format!("`limit` must be a number from 1 to {MOST_IDS}")));
    }
    let order = CancelOrder { which, dry_run: asked.dry_run, wait: Duration::from_secs(wait), most: Some(limit) };
    let messages = who.act(reason(asked.reason)?).cancel(order).await?;
    let more = asked.queue.is_some() && messages.len() >= limit;
    Ok(Json(Cancels { messages, more }))
}

fn states(names: &[String]) -> Result<Vec<Cancellable>, Problem> {
    let all = ["ready", "claimed", "waiting", "failed"].into_iter().zip(Cancellable::ALL);
    if let Some(unknown) = names.iter().find(|name| !all.clone().any(|(known, _)| known == name.as_str())) {
        let text = format!("`{unknown}` is not one of ready, claimed, waiting and failed");
        return Err(Problem::bad(text));
    }
    let meant = |known: &str| names.is_empty() || names.iter().any(|name| name == known);
    Ok(all.filter(|(known, _)| meant(known)).map(|(_, state)| state).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reschedule {
    id: String,
    delay_seconds: Option<u64>,
    at: Option<String>,
    reason: Option<String>,
}

pub(super) async fn reschedule(who: As<Operate>, body: Body<Reschedule>) -> Answered<Moved> {
    let asked = body.value;
    let id = known::id(who.console(), &asked.id)?;
    let due = due(asked.delay_seconds, asked.at.as_deref())?;
    let due = due.ok_or_else(|| Problem::bad("one of `delay_seconds` and `at` is needed"))?;
    Ok(Json(who.act(reason(asked.reason)?).reschedule(id, due).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunNow {
    ids: Vec<String>,
    reason: Option<String>,
}

#[derive(Serialize)]
pub(super) struct AllMoved {
    messages: Vec<Moved>,
}

pub(super) async fn run_now(who: As<Operate>, body: Body<RunNow>) -> Answered<AllMoved> {
    let ids = ids(who.console(), &body.value.ids)?;
    let messages = who.act(reason(body.value.reason)?).run_now(ids).await?;
    Ok(Json(AllMoved { messages }))
}

/// The ids of messages, all of them read before the first is changed.
pub(super) fn ids(console: &Console, ids: &[String]) -> Result<Vec<MessageId>, Problem> {
    if ids.is_empty() || ids.len() > MOST_IDS {
        return Err(Problem::bad(format!("`ids` must have 1 to {MOST_IDS} message ids")));
    }
    ids.iter().map(|id| known::id(console, id)).collect()
}

/// When a message may run, if that is said.
pub(super) fn due(delay_seconds: Option<u64>, at: Option<&str>) -> Result<Option<Due>, Problem> {
    match (delay_seconds, at) {
        (Some(_), Some(_)) => Err(Problem::bad("either `delay_seconds` or `at`, not both")),
        (Some(delay), None) if delay > LONGEST_DELAY => {
            Err(Problem::bad(format!("`delay_seconds` must be at most {LONGEST_DELAY}")))
        }
        (Some(delay), None) => Ok(Some(Due::After(Duration::from_secs(delay)))),
        (None, Some(at)) => {
            let wrong = |_| Problem::bad("`at` must be a time like 2026-12-24T17:00:00Z or 2026-12-24T18:00:00+01:00");
            Ok(Some(Due::At(parse_time(at).map_err(wrong)?)))
        }
        (None, None) => Ok(None),
    }
}

/// Why, for the audit.
pub(crate) fn reason(reason: Option<String>) -> Result<Option<String>, Problem> {
    match reason {
        Some(text) if text.chars().count() > LONGEST_REASON || text.contains('\0') => {
            Err(Problem::bad(format!("`reason` must have at most {LONGEST_REASON} characters and no NUL")))
        }
        reason => Ok(reason.filter(|text| !text.is_empty())),
    }
}
