//! One queue: its counts, the last hour, and its messages state by state, a page at a time.

use askama::Template;
use ichido::{
    BoxFuture,
    by_hand::Standing,
    inspect::{Listed, MessageInfo, QueueCounts},
    stat::{Load, spell},
};

use super::{
    chart::Chart,
    concern::{self, Concern, queue_page},
    message::ActButton,
    overview::Figure,
    visit::{Frame, Visit, rendered},
    words::{NONE, clock, counted, milliseconds, rate, seconds, seconds_or},
};
use crate::{Problem, known};

/// So many messages on a page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    frame: Frame,
    name: String,
    kind: String,
    problems: Vec<Concern>,
    figures: Vec<Figure>,
    charts: Vec<Chart>,
    states: Vec<StateTab>,
    state: &'static str,
    order: &'static str,
    nothing: &'static str,
    messages: Vec<MessageRow>,
    acts: &'static [ActButton],
    shown: Shown,
    notes: Vec<String>,
    /// Where this page begins, if it is not the first.
    after: String,
    next: Option<String>,
}

struct StateTab {
    state: &'static str,
    count: String,
    here: bool,
}

/// The columns that have something in them.
struct Shown {
    due: bool,
    owner: bool,
    error: bool,
}

impl Shown {
    fn of(messages: &[MessageRow]) -> Self {
        let any = |of: fn(&MessageRow) -> &String| messages.iter().any(|message| !of(message).is_empty());
        Shown { due: any(|row| &row.due), owner: any(|row| &row.owner), error: any(|row| &row.error) }
    }
}

/// A message in a list.
struct MessageRow {
    id: String,
    group: Option<String>,
    state: &'static str,
    kind: &'static str,
    age: String,
    attempts: i64,
    due: String,
    owner: String,
    error: String,
}

/// The queue that the query names.
pub(super) fn queue(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let name = visit.field("name");
        let snapshot = visit.snapshot().await?;
        let standing = &snapshot.standing;
        let counts = standing.overview.queues.iter().find(|counts| counts.queue == name);
        let counts =
            counts.ok_or_else(|| Problem::nowhere(format!("there is no queue `{name}` in the configuration")))?;
        let load = standing.loads.iter().find(|load| load.queue == name);
        let state: Listed = visit.fields.parsed("state", "ready, claimed, waiting or failed")?.unwrap_or(Listed::Ready);
        let after = visit.fields.get("after").map(known::place).transpose()?;
        let page = visit.lists().list(vec![name.clone()], vec![state], after, PAGE).await?;
        let messages: Vec<_> = page.messages.iter().map(row).collect();
        Ok(rendered(&QueuePage {
            frame: visit.frame("/queues", &snapshot),
            kind: described(load),
            problems: problems(counts, standing),
            figures: figures(counts, load),
            charts: vec![snapshot.hour.outcomes(&name), snapshot.hour.times(&name, load.and_then(|load| load.target))],
            states: tabs(counts, state),
            state: state.state().as_str(),
            order: order(state),
            nothing: nothing(state),
            acts: acts(state),
            shown: Shown::of(&messages),
            messages,
            notes: page.notes,
            after: visit.field("after"),
            next: page.next.map(|next| next.to_string()),
            name,
        }))
    })
}

/// What is wrong with the queue, and what to tune.
fn problems(counts: &QueueCounts, standing: &Standing) -> Vec<Concern> {
    let name = &counts.queue;
    let is_own = |about: &str| standing.loads.iter().any(|load| load.queue == *name && load.name() == about);
    let advice: Vec<_> = standing.advice.iter().filter(|advice| is_own(&advice.about)).cloned().collect();
    let tuned = concern::of_advice(&advice, &standing.loads).map(|concern| concern.on(&queue_page(name)));
    concern::of_queue(counts).into_iter().chain(tuned).collect()
}

fn described(load: Option<&Load>) -> String {
    let Some(load) = load else { return String::new() };
    let lane = load
        .lane
        .as_ref()
        .map_or_else(String::new, |lane| format!("Level {} of the lane set {}. ", lane.level, lane.lanes));
    let slots = match load.slots {
        0 => format!("No live process has run a message of it in the last {}.", spell(load.span)),
        1 => "One slot works on it.".to_owned(),
        slots => format!("{slots} slots work on it."),
    };
    format!("{lane}{slots}")
}

fn figures(counts: &QueueCounts, load: Option<&Load>) -> Vec<Figure> {
    let measured = load.map(Load::summary);
    let measured = measured.as_ref();
    let running = measured.and_then(|measured| measured.running_ms);
    let mut figures = vec![
        Figure::new("Ready", counted(counts.ready), format!("oldest {}", seconds_or(counts.oldest_seconds))),
        Figure::new("In flight", counted(counts.claimed), "claimed by a process"),
        Figure::new("Waiting", counted(counts.waiting), "for a retry or a due time"),
        Figure::new("Failed", counted(counts.failed), "for an operator").bad_if(counts.failed > 0),
        Figure::new("In", measured.map_or_else(|| NONE.into(), |one| rate(one.in_per_minute)), "per minute"),
        Figure::new("Out", measured.map_or_else(|| NONE.into(), |one| rate(Some(one.out_per_minute))), "per minute"),
        Figure::new(
            "A run takes",
            milliseconds(running.map(|times| times.p50)),
            format!("p95 {}", milliseconds(running.map(|times| times.p95))),
        ),
    ];
    if let Some(outbox) = &counts.outbox {
        let unpublished = counted(i64::try_from(outbox.unpublished).unwrap_or(i64::MAX));
        figures.push(Figure::new("Unpublished", unpublished, format!("oldest {}", seconds_or(outbox.oldest_seconds))));
    }
    figures
}

fn tabs(counts: &QueueCounts, here: Listed) -> Vec<StateTab> {
    let tab = |state: Listed| {
        let count = match state {
            Listed::Ready => counts.ready,
            Listed::Claimed => counts.claimed,
            Listed::Waiting => counts.waiting,
            Listed::Failed => counts.failed,
        };
        StateTab { state: state.state().as_str(), count: counted(count), here: state == here }
    };
    Listed::ALL.into_iter().map(tab).collect()
}

fn order(state: Listed) -> &'static str {
    match state {
        Listed::Ready => "In the order in which they are claimed",
        Listed::Claimed => "By process",
        Listed::Waiting => "By due time",
        Listed::Failed => "By the time of the failure",
    }
}

const CANCEL: ActButton =
    ActButton { verb: "cancel", name: "Cancel", what: "They never run again; what runs is rolled back", danger: true };

/// What can be done to those that are ticked.
fn acts(state: Listed) -> &'static [ActButton] {
    const RUN_NOW: ActButton =
        ActButton { verb: "run-now", name: "Run now", what: "They do not wait for their due time", danger: false };
    const RETRY: ActButton =
        ActButton { verb: "retry", name: "Retry", what: "They run again, as attempt one", danger: false };
    const DISCARD: ActButton =
        ActButton { verb: "discard", name: "Discard", what: "They never run again; a record is kept", danger: true };
    match state {
        Listed::Ready | Listed::Claimed => &[CANCEL],
        Listed::Waiting => &[RUN_NOW, CANCEL],
        Listed::Failed => &[RETRY, DISCARD],
    }
}

fn nothing(state: Listed) -> &'static str {
    match state {
        Listed::Ready => "Everything that was sent is done, runs, or waits for something.",
        Listed::Claimed => "No process has one now.",
        Listed::Waiting => "Nothing was delayed, and nothing waits for a retry.",
        Listed::Failed => "Messages that have spent their attempts would be here.",
    }
}

/// The class of a state's badge.
pub(super) fn kind(state: &str) -> &'static str {
    match state {
        "failed" | "dead" | "orphan" => "bad",
        "waiting" => "warn",
        "claimed" => "info",
        "done" => "ok",
        _ => "",
    }
}

fn row(message: &MessageInfo) -> MessageRow {
    let owner = message.owner.as_ref().map(|owner| {
        let runs = owner
            .running_seconds
            .map(|runs| format!(", runs for {}", seconds(i64::try_from(runs).unwrap_or(i64::MAX))));
        format!("{}{}{}", owner.place(), if owner.alive { "" } else { " (dead)" }, runs.unwrap_or_default())
    });
    MessageRow {
        id: message.id.clone(),
        group: message.group.clone(),
        state: message.state.as_str(),
        kind: kind(message.state.as_str()),
        age: seconds_or(message.age_seconds),
        attempts: message.attempts,
        due: message.due_at.as_deref().map(clock).unwrap_or_default(),
        owner: owner.unwrap_or_default(),
        error: message.error.clone().unwrap_or_default(),
    }
}
