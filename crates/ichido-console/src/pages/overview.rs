//! The overview and the list of queues: problems first, then counters, charts, and a line per queue.

use askama::Template;
use ichido::{
    BoxFuture,
    inspect::QueueCounts,
    stat::{Load, WINDOW, spell},
};

use super::{
    chart::Chart,
    concern::{self, Concern},
    hour::{Hour, Named},
    snapshot::Snapshot,
    visit::{Frame, Visit, rendered},
    words::{NONE, counted, milliseconds, rate, seconds_or},
};
use crate::Problem;

/// A chart with more lines than this cannot be read: those with the most to tell are drawn.
const MOST_LINES: usize = 6;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    sentence: String,
    problems: Vec<Concern>,
    figures: Vec<Figure>,
    charts: Vec<Chart>,
    queues: Vec<QueueRow>,
    span: String,
}

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    frame: Frame,
    sentence: String,
    queues: Vec<QueueRow>,
    outboxes: Vec<OutboxRow>,
    span: String,
}

/// A number and what it counts.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) more: String,
    pub(super) kind: &'static str,
}

impl Figure {
    pub(super) fn new(name: &'static str, value: impl Into<String>, more: impl Into<String>) -> Self {
        Figure { name, value: value.into(), more: more.into(), kind: "" }
    }

    pub(super) fn bad_if(mut self, bad: bool) -> Self {
        self.kind = if bad { "bad" } else { self.kind };
        self
    }
}

/// A queue in a list.
struct QueueRow {
    name: String,
    level: Option<String>,
    ready: String,
    oldest: String,
    claimed: String,
    waiting: String,
    failed: String,
    has_failed: bool,
    arrive: String,
    leave: String,
    wait: String,
    spark: Option<String>,
}

struct OutboxRow {
    queue: String,
    unpublished: String,
    oldest: String,
    error: String,
}

/// The overview.
pub(super) fn overview(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let snapshot = visit.snapshot().await?;
        let standing = &snapshot.standing;
        let named = busiest(&standing.loads);
        Ok(rendered(&OverviewPage {
            frame: visit.frame("/", &snapshot),
            sentence: concern::summary(&standing.overview),
            problems: concern::of_all(&standing.overview, &standing.advice, &standing.loads),
            figures: figures(&snapshot),
            charts: [snapshot.hour.throughput(&named), snapshot.hour.waits(&named)]
                .map(|chart| of_busiest(chart, named.len(), standing.loads.len()))
                .into(),
            queues: rows(&snapshot),
            span: spell(WINDOW),
        }))
    })
}

/// All queues.
pub(super) fn queues(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let snapshot = visit.snapshot().await?;
        let overview = &snapshot.standing.overview;
        Ok(rendered(&QueuesPage {
            frame: visit.frame("/queues", &snapshot),
            sentence:
                "What waits, what runs and what has failed. Counts end at 100,000, so that nobody scans a backlog."
                    .into(),
            queues: rows(&snapshot),
            outboxes: overview.queues.iter().filter_map(outbox).collect(),
            span: spell(WINDOW),
        }))
    })
}

/// Those that had the most to do, in the order of the configuration.
fn busiest(loads: &[Load]) -> Vec<Named> {
    let mut busy: Vec<_> = loads.iter().map(|load| load.tally.started).collect();
    busy.sort_unstable_by(|one, other| other.cmp(one));
    let least = busy.get(MOST_LINES - 1).copied().unwrap_or_default();
    let drawn = loads.iter().filter(|load| load.tally.started >= least).take(MOST_LINES);
    drawn.map(|load| Named { queue: load.queue.clone(), name: load.name().to_owned(), target: load.target }).collect()
}

/// Says so where not all queues are drawn: nobody may take it for the whole.
fn of_busiest(chart: Chart, drawn: usize, all: usize) -> Chart {
    if drawn == all {
        return chart;
    }
    let note = format!("{}; the {drawn} busiest of {all} queues", chart.note);
    chart.note(note)
}

fn figures(snapshot: &Snapshot) -> Vec<Figure> {
    let queues = &snapshot.standing.overview.queues;
    let sum = |of: fn(&QueueCounts) -> i64| queues.iter().map(of).sum::<i64>();
    let oldest = queues.iter().filter_map(|queue| queue.oldest_seconds).max();
    let failed = sum(|queue| queue.failed);
    let leave: f64 = snapshot.standing.measured.iter().map(|measured| measured.out_per_minute).sum();
    let slots: u32 = slots(&snapshot.standing.loads);
    vec![
        Figure::new("Ready", counted(sum(|queue| queue.ready)), format!("oldest {}", seconds_or(oldest))),
        Figure::new("In flight", counted(sum(|queue| queue.claimed)), format!("on {slots} slots")),
        Figure::new("Waiting", counted(sum(|queue| queue.waiting)), "for a retry or a due time"),
        Figure::new("Failed", counted(failed), "for an operator").bad_if(failed > 0),
        Figure::new("Completed", rate(Some(leave)), "per minute"),
    ]
}

/// Levels of a lane set share their slots.
fn slots(loads: &[Load]) -> u32 {
    let mut seen: Vec<&str> = Vec::new();
    let mut sum = 0;
    for load in loads {
        match &load.lane {
            Some(lane) if !load.own_slots => {
                if !seen.contains(&&*lane.lanes) {
                    seen.push(&lane.lanes);
                    sum += load.slots;
                }
            }
            _ => sum += load.slots,
        }
    }
    sum
}

fn rows(snapshot: &Snapshot) -> Vec<QueueRow> {
    let standing = &snapshot.standing;
    let load = |name: &str| standing.loads.iter().find(|load| load.queue == name);
    standing.overview.queues.iter().map(|counts| row(counts, load(&counts.queue), &snapshot.hour)).collect()
}

fn row(counts: &QueueCounts, load: Option<&Load>, hour: &Hour) -> QueueRow {
    let measured = load.map(Load::summary);
    let measured = measured.as_ref();
    QueueRow {
        name: counts.queue.clone(),
        level: load.and_then(|load| load.lane.as_ref()).map(|lane| format!("{} of {}", lane.level, lane.lanes)),
        ready: counted(counts.ready),
        oldest: seconds_or(counts.oldest_seconds),
        claimed: counted(counts.claimed),
        waiting: counted(counts.waiting),
        failed: counted(counts.failed),
        has_failed: counts.failed > 0,
        arrive: measured.map_or_else(|| NONE.into(), |measured| rate(measured.in_per_minute)),
        leave: measured.map_or_else(|| NONE.into(), |measured| rate(Some(measured.out_per_minute))),
        wait: milliseconds(measured.and_then(|measured| measured.waiting_ms).map(|waits| waits.p95)),
        spark: hour.spark(&counts.queue),
    }
}

fn outbox(counts: &QueueCounts) -> Option<OutboxRow> {
    let outbox = counts.outbox.as_ref()?;
    let unpublished = counted(i64::try_from(outbox.unpublished).unwrap_or(i64::MAX));
    let error = outbox.error.clone().unwrap_or_default();
    Some(OutboxRow { queue: counts.queue.clone(), unpublished, oldest: seconds_or(outbox.oldest_seconds), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_of_some_queues_says_so() {
        let chart = || Chart::default().note("by queue, last hour");
        assert_eq!(of_busiest(chart(), 6, 6).note, "by queue, last hour");
        assert_eq!(of_busiest(chart(), 6, 9).note, "by queue, last hour; the 6 busiest of 9 queues");
    }
}
