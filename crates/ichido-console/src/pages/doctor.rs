//! The doctor: what each message's row, its dead letter and its broker's queue mean together, and the safe thing to do about it. Looking
//! reads dead letters, so it is asked for, never done by itself.

use askama::Template;
use ichido::{
    BoxFuture,
    broker::Verdict,
    by_hand::{Examination, Finding, QueueFindings},
};

use super::{
    concern::Concern,
    visit::{Frame, Visit, rendered},
    words::{grouped, plural, whole},
};
use crate::Problem;

#[derive(Template)]
#[template(path = "doctor.html")]
struct DoctorPage {
    frame: Frame,
    problems: Vec<Concern>,
    table: Vec<State>,
    queues: Vec<BrokerRow>,
    findings: Vec<FindingRow>,
    more: u64,
    fixable: u64,
}

/// A row of the table in docs/contract.md.
struct State {
    row: &'static str,
    dead: &'static str,
    queue: &'static str,
    meaning: &'static str,
    action: &'static str,
    count: String,
}

struct BrokerRow {
    queue: String,
    ready: String,
    unacknowledged: String,
    busy: String,
    dead: String,
    unpublished: String,
    rows: String,
    healthy: String,
}

struct FindingRow {
    message: String,
    mutex: &'static str,
    dead: &'static str,
    in_queue: &'static str,
    meaning: String,
    kind: &'static str,
    action: String,
    done: String,
}

/// The eight states: is there a row, a dead letter, something in the queue?
const TABLE: [(bool, bool, bool, &str, &str); 8] = [
    (true, true, true, "A duplicate; the original waits in the queue or is being processed", "wait"),
    (true, true, false, "It failed, or its only copy is the dead letter", "retry"),
    (true, false, true, "It waits in the queue, or is being processed", "wait"),
    (true, false, false, "Committed and not at the broker: not published yet, or lost", "publish"),
    (false, true, true, "Done; its dead letter is a copy, and the queue may hold another", "investigate"),
    (false, true, false, "Done; its dead letter is a copy", "delete"),
    (false, false, true, "Done, its acknowledgement is on its way", "nothing"),
    (false, false, false, "Done, or never sent", "nothing"),
];

/// What the doctor finds now.
pub(super) fn doctor(visit: &Visit) -> BoxFuture<'_, Result<String, Problem>> {
    Box::pin(async move {
        let snapshot = visit.snapshot().await?;
        let found = visit.look().examine().await?;
        let fixable =
            found.findings.iter().filter(|finding| finding.is_left() && finding.verdict != Verdict::Investigate);
        Ok(rendered(&DoctorPage {
            frame: visit.frame("/doctor", &snapshot),
            problems: vec![concern(&found)],
            table: table(&found.findings),
            queues: found.queues.iter().map(broker).collect(),
            fixable: fixable.count() as u64,
            more: found.found.saturating_sub(found.findings.len() as u64),
            findings: found.findings.iter().map(row).collect(),
        }))
    })
}

fn concern(found: &Examination) -> Concern {
    let count = |number: u64| plural(usize::try_from(number).unwrap_or(usize::MAX), "message");
    match (found.found, found.left) {
        (0, _) => Concern::new("ok", "Every message is where it should be."),
        (found, 0) => Concern::new("info", format!("{} on the way: nothing is to be done about them.", count(found))),
        (_, 1) => Concern::new("bad", "1 message cannot go on by itself."),
        (_, left) => Concern::new("bad", format!("{} cannot go on by themselves.", count(left))),
    }
}

fn table(findings: &[Finding]) -> Vec<State> {
    let yes = |there: bool| if there { "yes" } else { "no" };
    let state = |(row, dead, queue, meaning, action): (bool, bool, bool, &'static str, &'static str)| {
        let alike = |finding: &&Finding| {
            (finding.mutex != "no") == row
                && finding.dead == dead
                && matches!(finding.in_queue, "yes" | "not empty") == queue
        };
        // What is well is not found, so it is not counted; and the states are those of messages at brokers, not of rows in your tables.
        let count = findings.iter().filter(|finding| finding.in_queue != "unknown").filter(alike).count();
        State { row: yes(row), dead: yes(dead), queue: yes(queue), meaning, action, count: grouped(whole(count)) }
    };
    TABLE.into_iter().map(state).collect()
}

fn broker(found: &QueueFindings) -> BrokerRow {
    let count = |number: u64| grouped(whole(number));
    BrokerRow {
        queue: found.queue.clone(),
        ready: count(found.ready),
        unacknowledged: found.unacknowledged.map_or_else(|| "unknown".into(), count),
        busy: count(found.busy),
        dead: count(found.dead),
        unpublished: count(found.unpublished),
        rows: count(found.rows),
        healthy: count(found.healthy),
    }
}

fn row(finding: &Finding) -> FindingRow {
    FindingRow {
        message: finding.message.clone(),
        mutex: finding.mutex,
        dead: if finding.dead { "yes" } else { "no" },
        in_queue: finding.in_queue,
        meaning: finding.meaning.clone(),
        kind: match finding.verdict {
            Verdict::Nothing => "",
            Verdict::Wait => "info",
            Verdict::Investigate => "bad",
            _ => "warn",
        },
        action: finding.action(),
        done: finding.done.as_ref().map_or_else(String::new, |done| done.text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_table_is_in_none_of_the_states() {
        let mut finding = Finding::of("orders", "orders/1".into(), "new, but owned by nobody".into());
        finding.mutex = "owned";
        assert!(table(&[finding]).into_iter().all(|state| state.count == "0"), "no broker has it");
    }

    #[test]
    fn one_message_is_told_in_the_singular() {
        let mut found = Examination::default();
        (found.found, found.left) = (1, 1);
        assert_eq!(concern(&found).text, "1 message cannot go on by itself.");
    }

    #[test]
    fn a_finding_is_counted_in_its_state_alone() {
        let mut finding = Finding::of("orders", "orders/1".into(), "its only copy is in the DLQ".into());
        (finding.mutex, finding.dead, finding.in_queue) = ("free", true, "no");
        let counts: Vec<_> = table(&[finding]).into_iter().map(|state| state.count).collect();
        assert_eq!(counts, ["0", "1", "0", "0", "0", "0", "0", "0"]);
    }
}
