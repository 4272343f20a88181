//! The text that Prometheus scrapes.

use std::{collections::BTreeMap, fmt::Write};

use ichido::{
    by_hand::Standing,
    inspect::QueueCounts,
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
pub(super) fn write(standing: &Standing, totals: &BTreeMap<Of, Tally>) -> String {
    let mut text = Text(String::new());
    text.head(
        "messages_total",
        "counter",
        "Messages, by what happened to them in any process since this console was first asked",
    );
    for (of, tally) in totals {
        for (event, read) in EVENTS {
            text.line("messages_total", &labels(of, Some(("event", event))), read(tally));
        }
    }
    text.times("waiting_seconds", "Time from send to first start", totals, |tally| (&tally.waiting, None));
    text.times("running_seconds", "Time that a run took", totals, |tally| {
        (&tally.running, Some(tally.busy.as_secs_f64()))
    });
    for (name, help, read) in GAUGES {
        text.head(name, "gauge", help);
        for queue in &standing.overview.queues {
            if let Some(value) = read(queue) {
                text.line(name, &labels(&(queue.queue.clone(), level(standing, &queue.queue)), None), value);
            }
        }
    }
    text.head("outbox_unpublished", "gauge", "Messages that are to be published");
    for (queue, outbox) in standing.overview.queues.iter().filter_map(|queue| Some((queue, queue.outbox.as_ref()?))) {
        text.line("outbox_unpublished", &labels(&(queue.queue.clone(), String::new()), None), outbox.unpublished);
    }
    text.head("slots", "gauge", "Workers of all live processes that serve a queue");
    for load in &standing.loads {
        text.line("slots", &labels(&(load.queue.clone(), level(standing, &load.queue)), None), load.slots);
    }
    text.head("processes", "gauge", "Processes, by whether they have sent a heartbeat within their lease");
    for (state, alive) in [("live", true), ("dead", false)] {
        let count = standing.overview.processes.iter().filter(|process| process.alive == alive).count();
        text.line("processes", &format!("{{state=\"{state}\"}}"), count);
    }
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

    fn times(
        &mut self,
        name: &str,
        help: &str,
        totals: &BTreeMap<Of, Tally>,
        read: impl Fn(&Tally) -> (&Histogram, Option<f64>),
    ) {
        self.head(name, "histogram", help);
        for (of, tally) in totals {
            let (histogram, sum) = read(tally);
            for bound in stat::bounds() {
                let le = bound.as_secs_f64().to_string();
                self.line(&format!("{name}_bucket"), &labels(of, Some(("le", &le))), histogram.below(bound));
            }
            self.line(&format!("{name}_bucket"), &labels(of, Some(("le", "+Inf"))), histogram.count());
            self.line(&format!("{name}_count"), &labels(of, None), histogram.count());
            if let Some(sum) = sum {
                self.line(&format!("{name}_sum"), &labels(of, None), sum);
            }
        }
    }
}
