//! Failed messages: listed, shown, retried, discarded; one, some, or all that a filter means, with a dry run.

use std::time::Duration;

use axum::{Json, extract::Path};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ichido::{
    by_hand::{Repair, ShownFailure},
    inspect::{Parked, ParkedFilter},
};
use serde::{Deserialize, Serialize};

use super::{
    Answered, Body, LISTED, MOST_LISTED,
    messages::{MOST_IDS, ids, reason},
};
use crate::{
    Console, Problem,
    access::{As, Operate, Read},
    desk::{LONGEST_PACED, RepairAnswer, RepairOrder, at_this_rate},
    fields::Fields,
    known,
};

/// No error that is looked for is longer.
const LONGEST_ERROR: usize = 250;

/// Older than a century is nothing.
const OLDEST: u64 = 100 * 365 * 24 * 3600;

/// More per second than this is no bound.
const FASTEST: u32 = 1000;

/// A page.
#[derive(Serialize)]
pub(super) struct Page {
    messages: Vec<Parked>,
    next: Option<String>,
}

pub(super) async fn list(who: As<Read>, query: Fields) -> Answered<Page> {
    let query = query.only(&["queue", "error", "older_seconds", "waiting", "limit", "after"])?;
    let older = query.number("older_seconds", 0..=OLDEST)?.map(Duration::from_secs);
    let mut filter = filter(who.console(), query.name("queue")?, query.name("error")?, older)?;
    filter.waiting = query.flag("waiting")?;
    filter.limit = query.limit(LISTED, MOST_LISTED)?;
    filter.after = query.get("after").map(after).transpose()?;
    let messages = who.look().failed(filter.clone()).await?;
    let full = messages.len() == filter.limit as usize;
    let next =
        messages.last().filter(|_| full).map(|last| URL_SAFE_NO_PAD.encode(format!("{}\n{}", last.place, last.id)));
    Ok(Json(Page { messages, next }))
}

/// Where a page ended: its last message, as far as the next one needs to know it.
fn after(text: &str) -> Result<Parked, Problem> {
    let unknown = || Problem::bad("`after` must be what the last page said");
    let plain =
        URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(unknown)?;
    let (place, id) = plain.split_once('\n').ok_or_else(unknown)?;
    let is_time = place.len() <= 40 && place.chars().all(|c| c.is_ascii_digit() || "-:. TZ+".contains(c));
    if !is_time || place.is_empty() || known::plain_id(id).is_err() {
        return Err(unknown());
    }
    Ok(Parked::new(id.to_owned(), "dead", (0, 0), None, place.to_owned(), "[]"))
}

/// Which; a queue that the configuration does not know is a slip.
pub(crate) fn filter(
    console: &Console,
    queue: Option<String>,
    error: Option<String>,
    older: Option<Duration>,
) -> Result<ParkedFilter, Problem> {
    if let Some(queue) = &queue {
        known::queue(console, queue)?;
    }
    if error
        .as_ref()
        .is_some_and(|error| error.is_empty() || error.chars().count() > LONGEST_ERROR || error.contains('\0'))
    {
        return Err(Problem::bad(format!("`error` must have 1 to {LONGEST_ERROR} characters and no NUL")));
    }
    let mut filter = ParkedFilter::default();
    (filter.queue, filter.error, filter.older) = (queue, error, older);
    Ok(filter)
}

pub(super) async fn one(who: As<Read>, Path(id): Path<String>, query: Fields) -> Answered<ShownFailure> {
    query.only(&[])?;
    let id = known::id(who.console(), &id)?;
    let found = who.look().failure(id.clone()).await?;
    found.map(Json).ok_or_else(|| Problem::nowhere(format!("{id} has not failed")))
}

/// Which messages: these, or those that a filter means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Many {
    #[serde(default)]
    ids: Vec<String>,
    #[serde(default)]
    all: bool,
    queue: Option<String>,
    error: Option<String>,
    older_seconds: Option<u64>,
    limit: Option<u32>,
    rate: Option<u32>,
    #[serde(default)]
    dry_run: bool,
    reason: Option<String>,
}

pub(super) async fn retry(who: As<Operate>, body: Body<Many>) -> Answered<RepairAnswer> {
    repair(&who, Repair::Retry, body.value).await
}

pub(super) async fn discard(who: As<Operate>, body: Body<Many>) -> Answered<RepairAnswer> {
    repair(&who, Repair::Discard, body.value).await
}

async fn repair(who: &As<Operate>, verb: Repair, many: Many) -> Answered<RepairAnswer> {
    let filters = many.all || many.queue.is_some() || many.error.is_some() || many.older_seconds.is_some();
    if filters != many.ids.is_empty() {
        return Err(Problem::bad("give either `ids`, or one of `queue`, `error`, `older_seconds` and `all`"));
    }
    if many.older_seconds.is_some_and(|age| age > OLDEST) {
        return Err(Problem::bad(format!("`older_seconds` must be at most {OLDEST}")));
    }
    let most = u32::try_from(MOST_IDS).unwrap_or(u32::MAX);
    let limit = many.limit.unwrap_or(most);
    if !(1..=most).contains(&limit) {
        return Err(Problem::bad(format!("`limit` must be a number from 1 to {most}")));
    }
    if many.rate.is_some_and(|rate| !(1..=FASTEST).contains(&rate)) {
        return Err(Problem::bad(format!("`rate` must be a number from 1 to {FASTEST}")));
    }
    let at_once = at_this_rate(many.rate, most);
    if many.ids.len() > at_once as usize && !many.dry_run {
        let text = format!("at this `rate`, at most {at_once} `ids` at a time: a request works for {LONGEST_PACED} s");
        return Err(Problem::bad(text));
    }
    let age = many.older_seconds.map(Duration::from_secs);
    let mut filter = filter(who.console(), many.queue, many.error, age)?;
    filter.limit = if many.dry_run { limit } else { limit.min(at_once) };
    let ids = if filters { Vec::new() } else { ids(who.console(), &many.ids)? };
    let order = RepairOrder { verb, ids, filter, dry_run: many.dry_run, rate: many.rate };
    Ok(Json(who.act(reason(many.reason)?).repair(order).await?))
}
