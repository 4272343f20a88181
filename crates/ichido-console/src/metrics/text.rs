//! The text that Prometheus scrapes.

use std::{collections::BTreeMap, fmt::Write};

use ichido::{
    by_hand::Standing,
    inspect::{ProcessState, QueueCounts},
    stat::{self, Histogram, Tally},
};

use super::counters::Of;

/// Of a message counter: its label and how it is read.
type Event = (&'static str, fn(&Tally) -> u64);

const EVENTS: [Event; 6] = [
    ("started", |tally| tally.started),
    ("done", |tally| tally.done),
    ("retried", |tally| tally.retried),
    ("parked", |tally| tally.retried + tally.failed + tally.snoozed),
    ("failed", |tally| tally.failed),
    ("duplicate", |tally| tally.duplicates),
];

/// Of a gauge of a queue: its name, what it is, and how it is read.
type Gauge = (&'static str, &'static str, fn(&QueueCounts) -> Option<i64>);

const GAUGES: [Gauge; 5] = [
    ("backlog", "Messages that can be claimed", |queue| Some(queue.ready)),
    ("claimed", "Messages that a process has claimed", |queue| Some(queue.claimed)),
    ("waiting", "Messages that wait for a retry or a delay", |queue| Some(queue.waiting)),
    ("failed", "Messages that have failed for good", |queue| Some(queue.failed)),
    ("oldest_seconds", "How long the oldest message that can be claimed has waited", |queue| {
        if queue.ready == 0 { Some(0) } else { queue.oldest_seconds }
    }),
];

/// All of it.
pub(super) fn write(standing: &Standing, mut totals: BTreeMap<Of, Tally>) -> String {
    // A counter that begins with its first message hides that message: a monitor takes what it sees first as the beginning.
    for queue in &standing.overview.queues {
        totals.entry((queue.queue.clone(), level(standing, &queue.queue))).or_default();
    }
    let mut text = Text(String::new());
    text.counted(&totals);
    text.queues(standing);
    text.processes(standing);
    text.0
}

/// The level that a queue is.
fn level(standing: &Standing, queue: &str) -> String {
    let load = standing.loads.iter().find(|load| load.queue == queue);
    load.and_then(|load| load.lane.as_ref()).map_or_else(String::new, |lane| lane.level.to_string())
}

fn labels((queue, level): &Of, more: Option<(&str, &str)>) -> String {
    let more = more.map_or_else(String::new, |(name, value)| format!(",{name}=\"{value}\""));
    format!("{{queue=\"{}\",level=\"{}\"{more}}}", escaped(queue), escaped(level))
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // A string takes whatever is written to it.
        let _ = writeln!(self.0, "# HELP ichido_{name} {help}\n# TYPE ichido_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "ichido_{name}{labels} {value}");
    }

    /// What happened in any process since this console was first asked.
    fn counted(&mut self, totals: &BTreeMap<Of, Tally>) {
        let help = "Messages, by what happened to them in any process since this console was first asked";
        self.head("messages_total", "counter", help);
        for (of, tally) in totals {
            for (event, read) in EVENTS {
                self.line("messages_total", &labels(of, Some(("event", event))), read(tally));
            }
        }
        let within = "the sum is exact to a sixteenth";
        let help = format!("Time from send to first start; {within}");
        self.times("waiting_seconds", &help, totals, |tally| &tally.waiting);
        let help = format!("Time that a run took; {within}");
        self.times("running_seconds", &help, totals, |tally| &tally.running);
    }

    fn times(&mut self, name: &str, help: &str, totals: &BTreeMap<Of, Tally>, read: impl Fn(&Tally) -> &Histogram) {
        self.head(name, "histogram", help);
        for (of, tally) in totals {
            let histogram = read(tally);
            for bound in stat::bounds() {
                let le = bound.as_secs_f64().to_string();
                self.line(&format!("{name}_bucket"), &labels(of, Some(("le", &le))), histogram.below(bound));
            }
            self.line(&format!("{name}_bucket"), &labels(of, Some(("le", "+Inf"))), histogram.count());
            self.line(&format!("{name}_count"), &labels(of, None), histogram.count());
            self.line(&format!("{name}_sum"), &labels(of, None), histogram.sum().as_secs_f64());
        }
    }

    /// What waits in them.
    fn queues(&mut self, standing: &Standing) {
        let of = |queue: &str| labels(&(queue.to_owned(), level(standing, queue)), None);
        let queues = &standing.overview.queues;
        for (name, help, read) in GAUGES {
            self.head(name, "gauge", help);
            for (queue, value) in queues.iter().filter_map(|queue| Some((queue, read(queue)?))) {
                self.line(name, &of(&queue.queue), value);
            }
        }
        self.head("outbox_unpublished", "gauge", "Messages that are to be published");
        for (queue, outbox) in queues.iter().filter_map(|queue| Some((queue, queue.outbox.as_ref()?))) {
            self.line("outbox_unpublished", &of(&queue.queue), outbox.unpublished);
        }
        self.head("slots", "gauge", "Workers of all live processes that serve a queue");
        for load in &standing.loads {
            self.line("slots", &of(&load.queue), load.slots);
        }
    }

    fn processes(&mut self, standing: &Standing) {
        self.head("processes", "gauge", "Processes, by whether they have sent a heartbeat within their lease");
        for (state, alive) in [("live", true), ("dead", false)] {
            let count = standing.overview.processes.iter().filter(|process| process.alive == alive).count();
            self.line("processes", &format!("{{state=\"{state}\"}}"), count);
        }
        self.heartbeats(&standing.overview.processes);
    }

    /// Hosts and numbers of processes repeat themselves; their ids do not.
    fn heartbeats(&mut self, processes: &[ProcessState]) {
        self.head("heartbeat_age_seconds", "gauge", "Time since a process wrote its last heartbeat");
        for process in processes {
            let (id, request_id, host) = (&process.id, escaped(&process.request_id), escaped(&process.host));
            let labels = format!("{{process=\"{id}\",request_id=\"{request_id}\",host=\"{host}\"}}");
            if let Some(age) = process.heartbeat_seconds {
                self.line("heartbeat_age_seconds", &labels, age);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_each_heartbeat_is_told() {
        let process = |id: &str, host: &str, heartbeat_seconds| ProcessState {
            id: id.into(),
            request_id: "Ship".into(),
            host: host.into(),
            pid: 1,
            age_seconds: 60,
            alive: true,
            queues: Vec::new(),
            heartbeat_seconds,
            running: Vec::new(),
        };
        let mut text = Text(String::new());
        text.heartbeats(&[process("a", "box", Some(3)), process("b", "\"x\"", Some(40)), process("c", "new", None)]);
        let lines: Vec<_> = text.0.lines().filter(|line| !line.starts_with('#')).collect();
        let age = "ichido_heartbeat_age_seconds";
        let first = format!(r#"{age}{{process="a",request_id="Ship",host="box"}} 3"#);
        let second = format!(r#"{age}{{process="b",request_id="Ship",host="\"x\""}} 40"#);
        assert_eq!(lines, [first, second]);
    }
}
