//! What is wrong, in words, the worst first: the list at the top of the overview, of a queue, of the lanes and of the settings. It is made from
//! counts and measures that are there already; nothing is asked of a database for it.

use ichido::{
    inspect::{Overview, QueueCounts},
    process::RequestState,
    stat::{Advice, Load},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::words::{counted, plural, seconds, whole};

/// An unpublished message that has waited for longer is told.
const UNPUBLISHED: i64 = 30;

/// Something to know or to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Concern {
    /// `bad`, `warn`, `info` or `ok`: the class of its box.
    pub(super) kind: &'static str,
    pub(super) text: String,
    pub(super) more: String,
    /// Where something can be done about it, after the base.
    pub(super) link: String,
    pub(super) action: &'static str,
}

impl Concern {
    pub(super) fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Concern { kind, text: text.into(), more: String::new(), link: String::new(), action: "" }
    }

    fn more(mut self, more: impl Into<String>) -> Self {
        self.more = more.into();
        self
    }

    fn link(mut self, link: impl Into<String>, action: &'static str) -> Self {
        (self.link, self.action) = (link.into(), action);
        self
    }

    /// Without a way to the page that it is on.
    pub(super) fn on(mut self, page: &str) -> Self {
        if self.link == page {
            self.link.clear();
        }
        self
    }

    /// In a word.
    pub(super) fn mark(&self) -> &'static str {
        match self.kind {
            "bad" => "Problem",
            "warn" => "Warning",
            "info" => "Note",
            _ => "All well",
        }
    }
}

/// What is wrong anywhere; that all is well if nothing is.
pub(super) fn of_all(overview: &Overview, advice: &[Advice], loads: &[Load]) -> Vec<Concern> {
    let mut found: Vec<_> = overview.queues.iter().flat_map(of_queue).collect();
    found.extend(overview.requests.iter().filter_map(of_request));
    found.extend(of_processes(overview));
    found.extend(of_advice(advice, loads));
    found.sort_by_key(|concern| ["bad", "warn", "info"].iter().position(|kind| *kind == concern.kind));
    if found.is_empty() {
        let alive = overview.processes.iter().filter(|process| process.alive).count();
        let text = match alive {
            0 => "Nothing has failed and nothing waits. No process is running.".to_owned(),
            alive => format!("Nothing has failed, and {} nothing that waits too long.", has(alive)),
        };
        found.push(Concern::new("ok", text));
    }
    found
}

fn has(alive: usize) -> String {
    format!(
        "{} {}",
        plural(alive, "live process").replace("processs", "processes"),
        if alive == 1 { "has" } else { "have" }
    )
}

/// What is wrong with one queue.
pub(super) fn of_queue(queue: &QueueCounts) -> Vec<Concern> {
    let name = &queue.queue;
    let mut found = Vec::new();
    if queue.failed > 0 {
        let (count, verb) = if queue.failed == 1 {
            ("1 message".into(), "has")
        } else {
            (format!("{} messages", counted(queue.failed)), "have")
        };
        let text =
            format!("{count} in {name} {verb} failed and wait{} for you.", if queue.failed == 1 { "s" } else { "" });
        let held = match queue.held_groups {
            0 => String::new(),
            1 => "One group waits behind them until you retry or discard.".to_owned(),
            more => format!("{} groups wait behind them until you retry or discard.", counted(more)),
        };
        let link = format!("/failed?queue={}", encoded(name));
        found.push(Concern::new("bad", text).more(held).link(link, "See why"));
    }
    if let Some(outbox) = &queue.outbox
        && (outbox.error.is_some() || outbox.oldest_seconds.is_some_and(|oldest| oldest > UNPUBLISHED))
        && outbox.unpublished > 0
    {
        let (count, oldest) =
            (plural(usize::try_from(outbox.unpublished).unwrap_or(usize::MAX), "message"), outbox.oldest_seconds);
        let since = oldest.map_or_else(String::new, |oldest| format!(", the oldest for {}", seconds(oldest)));
        let text = format!("{count} of {name} wait to be published{since}.");
        let why = outbox.error.clone().unwrap_or_else(|| "No relay has published them: is a process running?".into());
        found.push(Concern::new("warn", text).more(why).link("/doctor", "Examine"));
    }
    found
}

fn of_request(request: &RequestState) -> Option<Concern> {
    let id = &request.request_id;
    let text = match (request.flags.stopped, request.flags.paused) {
        (false, false) => return None,
        (true, _) => format!("{id} is stopped: no process serves it until you unstop it."),
        (false, true) => format!("{id} is paused: its processes claim nothing until you resume it."),
    };
    Some(Concern::new("warn", text).link("/processes", "Processes"))
}

fn of_processes(overview: &Overview) -> Vec<Concern> {
    let dead = overview.processes.iter().filter(|process| !process.alive);
    let mut found: Vec<_> = dead
        .map(|process| {
            let since = process.heartbeat_seconds.map_or_else(String::new, |since| format!(" for {}", seconds(since)));
            let text = format!(
                "The process {}:{} ({}) has sent no heartbeat{since}.",
                process.host, process.pid, process.request_id
            );
            let more = if process.queues.is_empty() {
                "What it had is rescued.".to_owned()
            } else {
                format!("Others rescue what it had in {}.", process.queues.join(", "))
            };
            Concern::new("warn", text).more(more).link("/processes", "Processes")
        })
        .collect();
    let waits: i64 = overview.queues.iter().map(|queue| queue.ready).sum();
    if waits > 0 && !overview.processes.iter().any(|process| process.alive) {
        let text = format!(
            "{} can be claimed, and no process is running.",
            plural(usize::try_from(waits).unwrap_or(0), "message")
        );
        found.push(
            Concern::new("bad", text).more("Start one with “ichido run ACTION/ID”.").link("/processes", "Processes"),
        );
    }
    found
}

/// Advice, as notes; as warnings where more slots would not help. Each leads to the queue that it is about, or to its lanes.
pub(super) fn of_advice(advice: &[Advice], loads: &[Load]) -> impl Iterator<Item = Concern> {
    advice.iter().map(|advice| {
        let is_tuning = advice.reserve.is_some() || advice.more_slots.is_some();
        let kind = if is_tuning { "info" } else { "warn" };
        let load = loads.iter().find(|load| load.name() == advice.about);
        let queue = load.filter(|load| !is_tuning || load.lane.is_none()).map(|load| queue_page(&load.queue));
        let (link, action) = queue.map_or_else(|| ("/lanes".to_owned(), "Lanes"), |page| (page, "Queue"));
        Concern::new(kind, sentence(&advice.text)).link(link, action)
    })
}

/// Where a queue is.
pub(super) fn queue_page(name: &str) -> String {
    format!("/queue?name={}", encoded(name))
}

/// With a capital letter and a stop.
fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{end}")
}

/// Warnings, or that there are none.
pub(super) fn of_warnings(warnings: &[String]) -> Vec<Concern> {
    let mut found: Vec<_> = warnings.iter().map(|text| Concern::new("warn", sentence(text))).collect();
    if found.is_empty() {
        found.push(Concern::new("ok", "No warning: durability, indexes and encryption are as they should be."));
    }
    found
}

/// For a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// What all of it is about, in a sentence.
pub(super) fn summary(overview: &Overview) -> String {
    let alive = overview.processes.iter().filter(|process| process.alive).count();
    let running: usize = overview.processes.iter().map(|process| process.running.len()).sum();
    let processes = if alive == 1 { "1 live process".to_owned() } else { format!("{} live processes", whole(alive)) };
    let runs = if running == 0 { String::new() } else { format!(", running {}", plural(running, "message")) };
    format!("{}, {processes}{runs}.", plural(overview.queues.len(), "queue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(failed: i64, ready: i64) -> QueueCounts {
        QueueCounts {
            queue: "orders & co".into(),
            ready,
            recent: None,
            claimed: 0,
            waiting: 0,
            failed,
            oldest_seconds: None,
            held_groups: 2,
            outbox: None,
        }
    }

    #[test]
    fn what_has_failed_comes_first_and_leads_to_its_messages() {
        let mut paused = RequestState::new("R1");
        paused.flags.paused = true;
        let overview = Overview::new(vec![queue(2, 0)], Vec::new(), vec![paused]);
        let found = of_all(&overview, &[], &[]);
        assert_eq!(found.iter().map(|concern| concern.kind).collect::<Vec<_>>(), ["bad", "warn"]);
        assert_eq!(found[0].text, "2 messages in orders & co have failed and wait for you.");
        assert_eq!(found[0].link, "/failed?queue=orders%20%26%20co");
        assert!(found[0].more.starts_with("2 groups"));
    }

    #[test]
    fn nothing_wrong_is_said_too() {
        let found = of_all(&Overview::new(vec![queue(0, 0)], Vec::new(), Vec::new()), &[], &[]);
        assert_eq!((found.len(), found[0].kind), (1, "ok"));
    }

    #[test]
    fn a_backlog_without_a_process_is_a_problem() {
        let found = of_all(&Overview::new(vec![queue(0, 5)], Vec::new(), Vec::new()), &[], &[]);
        assert_eq!((found[0].kind, &*found[0].text), ("bad", "5 messages can be claimed, and no process is running."));
    }

    #[test]
    fn advice_leads_to_its_queue() {
        let overview = Overview::new(vec![queue(0, 5)], Vec::new(), Vec::new());
        let loads = ichido::stat::loads_of(&overview, &[]);
        let advice = ichido::stat::advise(&loads);
        let found: Vec<_> = of_advice(&advice, &loads).collect();
        assert_eq!((found.len(), found[0].kind), (1, "warn"), "{found:?}");
        assert_eq!((&*found[0].link, found[0].action), ("/queue?name=orders%20%26%20co", "Queue"));
        let own = found[0].clone().on("/queue?name=orders%20%26%20co");
        assert_eq!(own.link, "", "it is on that page");
    }
}
