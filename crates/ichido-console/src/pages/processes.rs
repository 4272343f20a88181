//! Request ids with their flags, and processes with what they run now.

use std::collections::BTreeMap;

use askama::Template;
use ichido::{
    BoxFuture,
    inspect::ProcessState,
    process::{Flag, RequestState},
};

use super::{
    concern,
    message::ActButton,
    visit::{Frame, Visit, rendered},
    words::{NONE, listed, seconds, seconds_or},
};
use crate::Problem;

/// So many running messages are shown of a process.
const MOST_RUNNING: usize = 5;

#[derive(Template)]
#[template(path = "processes.html")]
struct ProcessesPage {
    frame: Frame,
    sentence: String,
    requests: Vec<RequestRow>,
    any: [ActButton; 4],
    processes: Vec<ProcessRow>,
}

struct RequestRow {
    id: String,
    badges: Vec<Badge>,
    processes: usize,
    acts: Vec<ActButton>,
}

struct Badge {
    kind: &'static str,
    text: &'static str,
}

struct ProcessRow {
    id: String,
    place: String,
    kind: &'static str,
    state: &'static str,
    request_id: String,
    heartbeat: String,
    age: String,
    slots: String,
    queues: String,
    running: Vec<RunningRow>,
    more: usize,
}

struct RunningRow {
    id: String,
    /// Its queue is one of this console's: it has a page.
    known: bool,
    time: String,
}

/// The verbs of flags, as they are in an address.
pub(super) const FLAGS: [(&str, Flag, bool); 4] = [
    ("stop", Flag::Stop, true),
    ("unstop", Flag::Stop, false),
    ("pause", Flag::Pause, true),
    ("resume", Flag::Pause, false),
];

const STOP: ActButton = ActButton {
    verb: "stop",
    name: "Stop",
    what: "Its processes finish what they run, release the rest and end; new ones do not start until you unstop it",
    danger: true,
};
const UNSTOP: ActButton =
    ActButton { verb: "unstop", name: "Unstop", what: "New processes may start again", danger: false };
const PAUSE: ActButton =
    ActButton { verb: "pause", name: "Pause", what: "Its processes claim nothing until you resume it", danger: false };
const RESUME: ActButton =
    ActButton { verb: "resume", name: "Resume", what: "Its processes claim again", danger: false };

/// All of them.
pub(super) fn processes(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let snapshot = visit.snapshot().await?;
        let overview = &snapshot.standing.overview;
        Ok(rendered(&ProcessesPage {
            frame: visit.frame("/processes", &snapshot),
            sentence: concern::summary(overview),
            requests: overview.requests.iter().map(request).collect(),
            any: [PAUSE, RESUME, STOP, UNSTOP],
            processes: overview
                .processes
                .iter()
                .map(|one| process(one, snapshot.hour.slots(&one.id), visit.console.queues()))
                .collect(),
        }))
    })
}

fn request(request: &RequestState) -> RequestRow {
    let flags = request.flags;
    let mut badges = Vec::new();
    if flags.stopped {
        badges.push(Badge { kind: "bad", text: "stopped" });
    }
    if flags.paused {
        badges.push(Badge { kind: "warn", text: "paused" });
    }
    if badges.is_empty() {
        badges.push(if request.processes > 0 {
            Badge { kind: "ok", text: "running" }
        } else {
            Badge { kind: "", text: "not served" }
        });
    }
    let acts = vec![if flags.paused { RESUME } else { PAUSE }, if flags.stopped { UNSTOP } else { STOP }];
    RequestRow { id: request.request_id.clone(), badges, processes: request.processes, acts }
}

fn process(process: &ProcessState, slots: Option<u32>, queues: &[String]) -> ProcessRow {
    let running = process.running.iter().take(MOST_RUNNING).map(|running| RunningRow {
        id: running.id.clone(),
        known: has_page(&running.id, queues),
        time: seconds(i64::try_from(running.seconds).unwrap_or(i64::MAX)),
    });
    ProcessRow {
        id: process.id.clone(),
        place: format!("{}:{}", process.host, process.pid),
        kind: if process.alive { "ok" } else { "bad" },
        state: if process.alive { "alive" } else { "dead" },
        request_id: process.request_id.clone(),
        heartbeat: process.heartbeat_seconds.map_or_else(|| "none yet".into(), |age| format!("{} ago", seconds(age))),
        age: seconds_or(Some(process.age_seconds)),
        slots: slots.map_or_else(|| NONE.into(), |slots| slots.to_string()),
        queues: listed(&process.queues, 6),
        running: running.collect(),
        more: process.running.len().saturating_sub(MOST_RUNNING),
    }
}

/// Is the message in a queue of this console's configuration? Processes may serve others too.
fn has_page(id: &str, queues: &[String]) -> bool {
    id.split_once('/').is_some_and(|(queue, _)| queues.iter().any(|known| known == queue))
}

/// What holds now, in a sentence.
pub(super) fn told(verb: &str, changed: bool, now: &RequestState) -> String {
    let id = &now.request_id;
    let serve = match now.processes {
        0 => "no live process serves it".to_owned(),
        1 => "one live process serves it".to_owned(),
        more => format!("{more} live processes serve it"),
    };
    let state: BTreeMap<&str, &str> =
        [("stop", "stopped"), ("unstop", "allowed to start again"), ("pause", "paused"), ("resume", "resumed")].into();
    let state = state.get(verb).copied().unwrap_or("changed");
    let already = if changed { "" } else { "already " };
    format!("{id} is {already}{state}; {serve}. Processes follow within their check interval.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_known_queues_have_a_page() {
        let queues = ["orders".to_owned()];
        assert!(has_page("orders/1", &queues) && has_page("orders/a/b", &queues));
        assert!(!has_page("mail/1", &queues) && !has_page("orders", &queues));
    }
}
