//! The failed messages: by error, filtered, a page at a time; and what would happen if all of them were retried or discarded, before it is done.

use std::collections::BTreeMap;

use askama::Template;
use ichido::{
    BoxFuture,
    inspect::{Parked, ParkedFilter, ParkedState},
};

use super::{
    concern::encoded,
    queue::kind,
    visit::{Frame, Visit, rendered},
    words::{clock, counted, grouped, listed, plural, whole},
};
use crate::{Console, Problem, api, desk::Searched, fields::Fields, known};

/// So many messages on a page.
const PAGE: usize = 100;

/// Error groups are made of so many messages.
const GROUPED: usize = 1000;

/// So many groups are shown.
const MOST_GROUPS: usize = 12;

/// So many are retried or discarded at once.
pub(super) const AT_ONCE: u32 = 10_000;

#[derive(Template)]
#[template(path = "failed.html")]
struct FailedPage {
    frame: Frame,
    sentence: String,
    queues: Vec<String>,
    asked: Which,
    groups: Vec<Group>,
    groups_note: String,
    messages: Vec<Row>,
    /// Where this page begins, if it is not the first.
    after: String,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "failed_all.html")]
struct AllPage {
    frame: Frame,
    verb: &'static Verb,
    count: String,
    filter: String,
    asked: Which,
    groups: Vec<Group>,
}

/// What is done to all of them.
pub(super) struct Verb {
    pub(super) path: &'static str,
    name: &'static str,
    what: &'static str,
    danger: bool,
}

const VERBS: [Verb; 2] = [
    Verb {
        path: "retry",
        name: "Retry",
        what: "They run again, as attempt one. Fix the cause of the failures first.",
        danger: false,
    },
    Verb { path: "discard", name: "Discard", what: "They never run again. A record of each is kept.", danger: true },
];

/// Which failed messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Which {
    pub(super) queue: String,
    pub(super) error: String,
    pub(super) older: String,
    pub(super) waiting: bool,
}

impl Which {
    pub(super) fn of(fields: &Fields) -> Self {
        let field = |name: &str| fields.get(name).unwrap_or_default().to_owned();
        Which {
            queue: field("queue"),
            error: field("error"),
            older: field("older"),
            waiting: !field("waiting").is_empty(),
        }
    }

    fn is_all(&self) -> bool {
        *self == Which::default()
    }

    /// As a query.
    pub(super) fn query(&self) -> String {
        let waiting = if self.waiting { "yes" } else { "" };
        let fields = [("queue", &*self.queue), ("error", &*self.error), ("older", &*self.older), ("waiting", waiting)];
        let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
    }

    /// As stores understand it.
    pub(super) fn filter(&self, console: &Console, fields: &Fields, limit: u32) -> Result<ParkedFilter, Problem> {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let mut filter = api::filter(console, given(&self.queue), given(&self.error), fields.duration("older")?)?;
        (filter.waiting, filter.limit) = (self.waiting, limit);
        Ok(filter)
    }

    fn told(&self) -> String {
        let mut told =
            vec![if self.queue.is_empty() { "all queues".to_owned() } else { format!("the queue {}", self.queue) }];
        if !self.error.is_empty() {
            told.push(format!("errors that contain “{}”", self.error));
        }
        if !self.older.is_empty() {
            told.push(format!("failed at least {} ago", self.older));
        }
        told.join(", ")
    }
}

/// Messages that failed alike.
struct Group {
    count: String,
    shape: String,
    queues: String,
    query: String,
}

struct Row {
    id: String,
    state: &'static str,
    kind: &'static str,
    failed: bool,
    attempts: i64,
    since: String,
    error: String,
}

/// Failed messages, as the query asks.
pub(super) fn failed(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let asked = Which::of(&visit.fields);
        let snapshot = visit.snapshot().await?;
        let mut filter = asked.filter(&visit.console, &visit.fields, u32::try_from(GROUPED).unwrap_or(u32::MAX) + 1)?;
        if let Some(after) = visit.fields.get("after") {
            let mut last = ParkedFilter::default();
            (last.id, last.waiting) = (Some(known::plain_id(after)?), true);
            filter.after = visit.lists().failed(last).await?.into_iter().next();
        }
        let Searched { messages: found, until } = visit.lists().search(filter).await?;
        let is_bound = found.len() > GROUPED || until.is_some();
        let next = (found.len() > PAGE).then(|| found[PAGE - 1].id.clone()).or(until.clone());
        let next =
            next.map(|last| format!("{}&after={}", asked.query(), encoded(&last)).trim_start_matches('&').to_owned());
        let all: i64 = snapshot.standing.overview.queues.iter().map(|queue| queue.failed).sum();
        Ok(rendered(&FailedPage {
            frame: visit.frame("/failed", &snapshot),
            sentence: sentence(all),
            queues: visit.console.queues().to_vec(),
            groups: groups(&found[..found.len().min(GROUPED)], &asked, is_bound),
            groups_note: groups_note(is_bound, until.is_some()),
            messages: found.iter().take(PAGE).map(row).collect(),
            after: visit.field("after"),
            next,
            asked,
        }))
    })
}

/// What would be changed.
pub(super) fn all(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let mut asked = Which::of(&visit.fields);
        asked.waiting = false;
        let verb = verb(visit.fields.get("verb"))?;
        let snapshot = visit.snapshot().await?;
        let found = visit.look().failed(asked.filter(&visit.console, &visit.fields, AT_ONCE)?).await?;
        let is_bound = found.len() >= AT_ONCE as usize;
        let first = if is_bound { "the first " } else { "" };
        Ok(rendered(&AllPage {
            frame: visit.frame("/failed", &snapshot),
            verb,
            count: format!("{first}{}", plural(found.len(), "message")),
            filter: asked.told(),
            groups: groups(&found, &asked, false),
            asked,
        }))
    })
}

/// The verb that is named.
pub(super) fn verb(name: Option<&str>) -> Result<&'static Verb, Problem> {
    let known = VERBS.iter().find(|verb| Some(verb.path) == name);
    known.ok_or_else(|| Problem::bad("`verb` must be retry or discard"))
}

fn groups_note(is_bound: bool, is_searched: bool) -> String {
    match (is_bound, is_searched) {
        (_, true) => "of those that were searched; the next page goes on".into(),
        (true, false) => format!("of the first {}", grouped(whole(GROUPED))),
        (false, false) => String::new(),
    }
}

fn sentence(all: i64) -> String {
    match all {
        0 => "No message waits for you.".into(),
        1 => "One message waits for you: fix the cause, then retry it, or discard it.".into(),
        all => format!("{} messages wait for you: fix the cause, then retry them, or discard them.", counted(all)),
    }
}

fn groups(found: &[Parked], asked: &Which, is_bound: bool) -> Vec<Group> {
    let mut shapes: BTreeMap<&str, (usize, Vec<String>, &str)> = BTreeMap::new();
    for parked in found.iter().filter(|parked| !parked.error.is_empty()) {
        let (count, queues, _) = shapes.entry(&parked.shape).or_insert((0, Vec::new(), &parked.error));
        *count += 1;
        let queue = parked.id.split('/').next().unwrap_or_default();
        if !queues.iter().any(|known| known == queue) {
            queues.push(queue.to_owned());
        }
    }
    let mut shapes: Vec<_> = shapes.into_iter().collect();
    shapes.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    let group = |(shape, (count, queues, example)): (&str, (usize, Vec<String>, &str))| Group {
        count: format!("{}{}", if is_bound { "≥ " } else { "" }, grouped(whole(count))),
        shape: shape.chars().take(300).collect(),
        queues: listed(&queues, 3),
        query: Which { error: constant(shape, example), ..asked.clone() }.query(),
    };
    shapes.into_iter().take(MOST_GROUPS).map(group).collect()
}

/// The longest part that all errors of this shape have in common: what a filter can look for.
fn constant(shape: &str, example: &str) -> String {
    let longest = shape.split('…').map(|part| part.lines().next().unwrap_or_default()).max_by_key(|part| part.len());
    let text = longest.filter(|part| example.contains(part)).unwrap_or_default();
    text.chars().take(200).collect()
}

fn row(parked: &Parked) -> Row {
    let error = match parked.snoozed {
        0 => parked.error.clone(),
        1 => "snoozed".into(),
        times => format!("snoozed {times} times"),
    };
    let state = if parked.state == ParkedState::Dead { "failed" } else { parked.state.as_str() };
    Row {
        id: parked.id.clone(),
        state,
        kind: kind(state),
        failed: parked.state == ParkedState::Dead,
        attempts: parked.attempts,
        since: clock(&parked.parked_at),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_up_to_a_bound_is_told_so() {
        assert!(sentence(99_999).starts_with("99,999 messages wait"));
        assert!(sentence(100_000).starts_with("≥ 100,000 messages wait"));
    }

    #[test]
    fn a_group_leads_to_its_messages() {
        assert_eq!(constant("customer … has no address", "customer 42 has no address"), " has no address");
        assert_eq!(constant("…", "42"), "");
        let which = Which { queue: "a b".into(), error: "50 %".into(), ..Which::default() };
        assert_eq!(which.query(), "queue=a%20b&error=50%20%25");
        assert!(!which.is_all() && Which::default().is_all());
    }
}
