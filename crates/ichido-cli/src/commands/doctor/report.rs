//! What the doctor says: a line for each message that is worth one, as it is found, and the counts of each queue. In JSON each line
//! is an object, so that nothing need be kept.

use ichido::by_hand::QueueFindings;
use ichido::by_hand::{Examination, Finding};

use crate::{failure::Failure, output};

/// Something that is said.
#[derive(Clone, Copy)]
pub(crate) enum Said<'a> {
    Finding(&'a Finding),
    Counts(&'a QueueFindings),
}

/// What was found so far, and to whom it is said.
pub(crate) struct Report {
    say: fn(Said<'_>) -> Result<(), Failure>,
    pub(crate) found: Examination,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Report::with(if json { in_json } else { in_words }, Examination::default())
    }

    /// One that adds to what was found before.
    pub(crate) fn with(say: fn(Said<'_>) -> Result<(), Failure>, found: Examination) -> Self {
        Report { say, found }
    }

    pub(super) fn finding(&mut self, finding: &Finding) -> Result<(), Failure> {
        self.found.finding(finding);
        (self.say)(Said::Finding(finding))
    }

    pub(super) fn counts(&mut self, counts: &QueueFindings) -> Result<(), Failure> {
        self.found.queues.push(counts.clone());
        (self.say)(Said::Counts(counts))
    }
}

fn in_json(said: Said<'_>) -> Result<(), Failure> {
    match said {
        Said::Finding(finding) => output::json(finding),
        Said::Counts(counts) => output::json(counts),
    }
}

fn in_words(said: Said<'_>) -> Result<(), Failure> {
    match said {
        Said::Finding(finding) => output::print(&text_of(finding)),
        Said::Counts(counts) => output::print(&text_of_counts(counts)),
    }
}

fn text_of(finding: &Finding) -> String {
    let dead = if finding.dead { "yes" } else { "no" };
    let done = finding.done.as_ref().map(|done| format!(": {}", done.text)).unwrap_or_default();
    let line = format!(
        "{}  mutex {}, DLQ {dead}, queue {}  {}  {}{done}",
        finding.message,
        finding.mutex,
        finding.in_queue,
        finding.meaning,
        finding.action()
    );
    output::shortened(&line, 400)
}

fn text_of_counts(counts: &QueueFindings) -> String {
    let QueueFindings { queue, ready, busy, dead, unpublished, rows, healthy, .. } = counts;
    let out = counts.unacknowledged.map_or("unknown".to_owned(), |out| out.to_string());
    format!(
        "{queue}: {ready} ready, {out} unacknowledged, {busy} busy, {dead} dead-lettered, {unpublished} unpublished; \
         {rows} not done, {healthy} of them healthy"
    )
}
