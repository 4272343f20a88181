//! The tables of `ichido status`, as lines: what it prints, and what the screen of `--watch` shows. A part is a table with the remarks
//! about it; its first line has the headings.

use ichido::{
    by_hand::Standing,
    inspect::{MOST_COUNTED, ProcessState, QueueCounts, RunningState},
    process::RequestState,
    stat::{self, Histogram, Load},
};

use super::order::Order;
use crate::output;

/// So many of the messages that run are shown; `--json` has all that processes have told.
const MOST_SHOWN: usize = 10;

/// All parts that have something to show.
pub(super) fn parts(view: &Standing, order: &Order) -> Vec<Vec<String>> {
    let overview = &view.overview;
    let all = [
        queues(&overview.queues, order),
        at_brokers(&overview.queues, &view.loads),
        levels(view),
        processes(&overview.processes, order),
        running(&overview.processes),
        output::lines(["REQUEST ID", "LIVE", "FLAGS"], &overview.requests.iter().map(request).collect::<Vec<_>>()),
    ];
    all.into_iter().filter(|part| !part.is_empty()).collect()
}

fn queues(queues: &[QueueCounts], order: &Order) -> Vec<String> {
    let rows: Vec<_> = queues.iter().map(counts).collect();
    let mut lines = output::lines(order.queue_headings().each_ref().map(String::as_str), &rows);
    lines.extend(queues.iter().filter_map(held_groups));
    lines
}

fn levels(view: &Standing) -> Vec<String> {
    let headings =
        ["LAST 5 MIN", "LEVEL", "IN/MIN", "OUT/MIN", "WAIT P50", "P95", "P99", "RUN P50", "P95", "SLOTS", "BUSY"];
    let mut lines = output::lines(headings, &view.loads.iter().map(measured).collect::<Vec<_>>());
    lines.extend(view.loads.iter().filter_map(snoozed));
    lines.extend(view.advice.iter().map(|advice| format!("advice: {}", advice.text)));
    lines
}

fn processes(processes: &[ProcessState], order: &Order) -> Vec<String> {
    let row = |process: &ProcessState| {
        let alive = if process.alive { "alive".to_owned() } else { dead(process) };
        let age = format!("{}s", process.age_seconds);
        [process.id.clone(), process.request_id.clone(), process.host.clone(), process.pid.to_string(), age, alive]
    };
    let rows: Vec<_> = processes.iter().map(row).collect();
    output::lines(order.process_headings().each_ref().map(String::as_str), &rows)
}

/// What a dead process had is rescued by whoever serves its queues.
fn dead(process: &ProcessState) -> String {
    match process.queues.join(", ") {
        none if none.is_empty() => "dead".to_owned(),
        queues => format!("dead, left to a process that serves {queues}"),
    }
}

fn counts(queue: &QueueCounts) -> [String; 6] {
    let cut = |count: i64| u64::try_from(count).is_ok_and(|count| count >= MOST_COUNTED);
    let counted = |count: i64| format!("{count}{}", if cut(count) { "+" } else { "" });
    let oldest = queue.oldest_seconds.map_or("-".into(), |seconds| format!("{}s", seconds.max(0)));
    let [ready, claimed, waiting, failed] = [queue.ready, queue.claimed, queue.waiting, queue.failed].map(counted);
    [queue.queue.clone(), ready, oldest, claimed, waiting, failed]
}

fn held_groups(queue: &QueueCounts) -> Option<String> {
    let (name, held) = (&queue.queue, queue.held_groups);
    (held > 0).then(|| {
        format!(
            "{held} groups of `{name}` wait until their failed message is retried or discarded: ichido failed list --queue {name}"
        )
    })
}

fn snoozed(load: &Load) -> Option<String> {
    let times = load.tally.snoozed;
    let times = (times > 0).then(|| if times == 1 { "once".to_owned() } else { format!("{times} times") })?;
    Some(format!("`{}`: actions snoozed messages {times}", load.queue))
}

/// The queues that a broker keeps: what waits to be published, and what came that did not run.
fn at_brokers(queues: &[QueueCounts], loads: &[Load]) -> Vec<String> {
    let row = |queue: &QueueCounts| {
        let outbox = queue.outbox.as_ref()?;
        let least = if outbox.unpublished >= MOST_COUNTED { "+" } else { "" };
        let oldest = outbox.oldest_seconds.map_or("-".into(), |seconds| format!("{}s", seconds.max(0)));
        let load = loads.iter().find(|load| load.queue == queue.queue);
        let [duplicates, busy] = load.map_or([0, 0], |load| [load.tally.duplicates, load.tally.found_busy]);
        let error = outbox.error.clone().unwrap_or_else(|| "-".into());
        let unpublished = format!("{}{least}", outbox.unpublished);
        Some([queue.queue.clone(), unpublished, oldest, duplicates.to_string(), busy.to_string(), error])
    };
    let rows: Vec<_> = queues.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let heads = ["BROKER QUEUE", "UNPUBLISHED", "OLDEST", "DUPLICATES", "FOUND BUSY", "LAST ERROR"];
    output::lines(heads, &rows)
}

/// What live processes ran at their last heartbeats, the longest first.
fn running(processes: &[ProcessState]) -> Vec<String> {
    let alive = processes.iter().filter(|process| process.alive);
    let mut all: Vec<_> =
        alive.flat_map(|process| process.running.iter().map(move |running| (running, process))).collect();
    all.sort_by_key(|(running, _)| std::cmp::Reverse(running.seconds));
    let row = |(running, process): &(&RunningState, &ProcessState)| {
        let told = process.heartbeat_seconds.map_or("-".into(), |seconds| format!("{seconds}s ago"));
        let (time, host) = (format!("{}s", running.seconds), process.host.clone());
        [running.id.clone(), time, told, process.id.clone(), host, process.pid.to_string()]
    };
    let rows: Vec<_> = all.iter().take(MOST_SHOWN).map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let heads = ["RUNNING", "FOR", "AS OF", "PROCESS", "HOST", "PID"];
    let more = all.len().checked_sub(MOST_SHOWN).filter(|more| *more > 0).map(|more| format!("… and {more} more"));
    output::lines(heads, &rows).into_iter().chain(more).collect()
}

fn measured(load: &Load) -> [String; 11] {
    let summary = load.summary();
    let rate = |rate: f64| if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") };
    let at = |times: &Histogram, per_mille| times.quantile(per_mille).map_or("-".into(), stat::spell);
    let wait = |per_mille| match load.arrived {
        None if load.tally.waiting.count() == 0 => "unknown".into(),
        _ => at(&load.tally.waiting, per_mille),
    };
    let least = if load.backlog.is_cut() { "+" } else { "" };
    let run = |per_mille| at(&load.tally.running, per_mille);
    [
        load.queue.clone(),
        load.lane.as_ref().map_or("-".into(), |lane| lane.level.to_string()),
        summary.in_per_minute.map_or("unknown".into(), |arrive| format!("{}{least}", rate(arrive))),
        rate(summary.out_per_minute),
        wait(500),
        wait(950),
        wait(990),
        run(500),
        run(950),
        load.slots.to_string(),
        load.share().map_or("-".into(), |share| format!("{:.0} %", share * 100.0)),
    ]
}

fn request(request: &RequestState) -> [String; 3] {
    let state = match (request.flags.stopped, request.flags.paused) {
        (true, true) => "stopped, paused",
        (true, false) => "stopped",
        (false, true) => "paused",
        (false, false) => "",
    };
    [request.request_id.clone(), request.processes.to_string(), state.to_owned()]
}
