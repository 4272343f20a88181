//! `ichido status`: queues, processes, what they run and request ids, what was measured in the last minutes, and what to tune.

use std::time::Duration;

use ichido::{
    inspect::{MOST_COUNTED, Overview, ProcessState, QueueCounts, RunningState},
    lanes::Policy,
    process::RequestState,
    stat::{self, Advice, Histogram, Lane, Load, Summary, WINDOW},
};
use serde::Serialize;

use crate::{
    args::Status,
    config::{Config, LaneSet},
    failure::Failure,
    open::{Backend, OnStore},
    output,
};

/// How often `--watch` looks again.
const AGAIN: Duration = Duration::from_secs(2);

/// So many of the messages that run are shown; `--json` has all that processes have told.
const MOST_SHOWN: usize = 10;

impl OnStore for Status {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        loop {
            let view = View::of(&store, config).await.map_err(|error| Failure::of::<S>(&error))?;
            let text = (!self.json).then(|| view.text());
            if !output::refresh(text.as_deref(), &view, self.watch)? || !self.watch {
                return Ok(0);
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                _ = tokio::signal::ctrl_c() => return Ok(0),
            }
        }
    }
}

/// All that is shown.
#[derive(Serialize)]
struct View {
    #[serde(flatten)]
    overview: Overview,
    measured: Vec<Summary>,
    advice: Vec<Advice>,
    #[serde(skip)]
    loads: Vec<Load>,
}

impl View {
    async fn of<S: Backend>(store: &S, config: &Config) -> ichido::error::Result<Self> {
        let overview = store.overview().await?;
        let mut loads = stat::loads_of(&overview, &store.stats(WINDOW).await?);
        for load in &mut loads {
            name_level(load, config);
        }
        let measured = loads.iter().map(Load::summary).collect();
        Ok(View { measured, advice: stat::advise(&loads), overview, loads })
    }

    fn text(&self) -> String {
        let mut lines = output::lines(
            ["QUEUE", "READY", "OLDEST", "CLAIMED", "WAITING", "FAILED"],
            &self.overview.queues.iter().map(counts).collect::<Vec<_>>(),
        );
        lines.extend(self.overview.queues.iter().filter_map(held_groups));
        lines.extend(at_brokers(&self.overview.queues, &self.loads));
        lines.push(String::new());
        let heads =
            ["LAST 5 MIN", "LEVEL", "IN/MIN", "OUT/MIN", "WAIT P50", "P95", "P99", "RUN P50", "P95", "SLOTS", "BUSY"];
        lines.extend(output::lines(heads, &self.loads.iter().map(measured).collect::<Vec<_>>()));
        lines.extend(self.advice.iter().map(|advice| format!("advice: {}", advice.text)));
        lines.push(String::new());
        let processes = self.overview.processes.iter().map(|process| {
            let alive = if process.alive { "alive".to_owned() } else { dead(process) };
            let age = format!("{}s", process.age_seconds);
            [process.id.clone(), process.request_id.clone(), process.host.clone(), process.pid.to_string(), age, alive]
        });
        let heads = ["PROCESS", "REQUEST ID", "HOST", "PID", "AGE", "STATE"];
        lines.extend(output::lines(heads, &processes.collect::<Vec<_>>()));
        lines.extend(running(&self.overview.processes));
        lines.push(String::new());
        let requests: Vec<_> = self.overview.requests.iter().map(request).collect();
        lines.extend(output::lines(["REQUEST ID", "LIVE", "FLAGS"], &requests));
        lines.join("\n")
    }
}

/// The configuration knows which level a queue is, also before a message of it has run; and only it knows the target.
fn name_level(load: &mut Load, config: &Config) {
    for LaneSet { set, tuning, .. } in config.lanes.values() {
        let levels = (0..).zip(set.levels.iter().zip(tuning));
        for (rank, (level, tuning)) in levels.filter(|(_, (level, _))| *level.queue == *load.queue) {
            load.lane = Some(Lane { lanes: set.name.clone(), level: level.name.clone(), rank });
            load.target = tuning.target;
            load.own_slots = set.policy == Policy::Dedicated { borrow: false };
        }
    }
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
    let [ready, claimed] = [queue.ready, queue.claimed].map(counted);
    [queue.queue.clone(), ready, oldest, claimed, queue.waiting.to_string(), queue.failed.to_string()]
}

fn held_groups(queue: &QueueCounts) -> Option<String> {
    let (name, held) = (&queue.queue, queue.held_groups);
    (held > 0).then(|| {
        format!(
            "{held} groups of `{name}` wait until their failed message is retried or discarded: ichido failed list --queue {name}"
        )
    })
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
    [String::new()].into_iter().chain(output::lines(heads, &rows)).collect()
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
    [String::new()].into_iter().chain(output::lines(heads, &rows)).chain(more).collect()
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
