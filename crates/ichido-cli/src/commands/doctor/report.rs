//! What the doctor says: a line for each message that is worth one, as it is found, and the counts of each queue. In JSON each line
//! is an object, so that nothing need be kept.

use ichido::by_hand::{Examination, Finding, QueueFindings};

use crate::{failure::Failure, output};

/// What is said, and how.
pub(crate) struct Report {
    how: How,
    /// What was found so far.
    pub(crate) found: Examination,
}

enum How {
    Text,
    Json,
    /// Nothing is printed: somebody shows it otherwise.
    Kept,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Report { how: if json { How::Json } else { How::Text }, found: Examination::default() }
    }

    /// One that is added to what was found before, and not printed.
    pub(crate) fn kept(found: Examination) -> Self {
        Report { how: How::Kept, found }
    }

    pub(super) fn finding(&mut self, finding: &Finding) -> Result<(), Failure> {
        self.found.finding(finding);
        match self.how {
            How::Text => output::print(&text_of(finding)),
            How::Json => output::json(finding),
            How::Kept => Ok(()),
        }
    }

    #[cfg(feature = "rabbitmq")]
    pub(super) fn counts(&mut self, counts: &QueueFindings) -> Result<(), Failure> {
        match self.how {
            How::Text => output::print(&text_of_counts(counts)),
            How::Json => output::json(counts),
            How::Kept => {
                self.found.queues.push(counts.clone());
                Ok(())
            }
        }
    }

    pub(super) fn end(&self) -> Result<(), Failure> {
        let nothing = self.found.found == 0 && matches!(self.how, How::Text);
        if nothing { output::print("no problems found") } else { Ok(()) }
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

#[cfg(feature = "rabbitmq")]
fn text_of_counts(counts: &QueueFindings) -> String {
    let QueueFindings { queue, ready, busy, dead, unpublished, rows, healthy, .. } = counts;
    let out = counts.unacknowledged.map_or("unknown".to_owned(), |out| out.to_string());
    format!(
        "{queue}: {ready} ready, {out} unacknowledged, {busy} busy, {dead} dead-lettered, {unpublished} unpublished; \
         {rows} not done, {healthy} of them healthy"
    )
}
