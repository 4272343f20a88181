//! What the doctor says: a line for each message that is worth one, as it is found, and the counts of each queue. In JSON each line
//! is an object, so that nothing need be kept.

use std::borrow::Cow;

use ichido::broker::Verdict;
use serde::{Serialize, Serializer};

use crate::{failure::Failure, output};

/// What was done about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    text: Cow<'static, str>,
    left: bool,
}

impl Done {
    /// This, and nothing more is to do.
    pub(super) fn did(text: &'static str) -> Self {
        Done { text: text.into(), left: false }
    }

    /// Something is left to do, for this reason.
    pub(super) fn left(why: impl Into<Cow<'static, str>>) -> Self {
        Done { text: why.into(), left: true }
    }

    /// It is not as it was seen, or not ours to change.
    pub(super) fn left_alone() -> Self {
        Self::left("left alone")
    }
}

impl Serialize for Done {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// One message, or what seems to be one.
#[derive(Serialize)]
pub(super) struct Finding {
    pub(super) queue: String,
    pub(super) message: String,
    /// What the row says.
    pub(super) mutex: &'static str,
    #[serde(rename = "dead_letter")]
    pub(super) dead: bool,
    pub(super) in_queue: &'static str,
    pub(super) meaning: String,
    pub(super) verdict: Verdict,
    /// In other words than the verdict's.
    #[serde(skip)]
    pub(super) action: Option<&'static str>,
    /// What was done about it.
    pub(super) done: Option<Done>,
}

impl Finding {
    pub(super) fn of(queue: &str, message: String, meaning: String) -> Self {
        Finding {
            queue: queue.to_owned(),
            message,
            mutex: "no",
            dead: false,
            in_queue: "unknown",
            meaning,
            verdict: Verdict::Investigate,
            action: None,
            done: None,
        }
    }

    /// Is there still something to do?
    fn is_left(&self) -> bool {
        let to_do = !matches!(self.verdict, Verdict::Wait | Verdict::Nothing);
        to_do && self.done.as_ref().is_none_or(|done| done.left)
    }

    fn text(&self) -> String {
        let dead = if self.dead { "yes" } else { "no" };
        let action = self.action.map_or_else(|| self.verdict.to_string(), str::to_owned);
        let done = self.done.as_ref().map(|done| format!(": {}", done.text)).unwrap_or_default();
        let line = format!(
            "{}  mutex {}, DLQ {dead}, queue {}  {}  {action}{done}",
            self.message, self.mutex, self.in_queue, self.meaning
        );
        output::shortened(&line, 400)
    }
}

/// The counts of a queue at a broker.
#[derive(Default, Serialize)]
pub(super) struct Counts {
    pub(super) queue: String,
    pub(super) ready: u64,
    /// None if nobody can tell.
    pub(super) unacknowledged: Option<u64>,
    pub(super) busy: u64,
    pub(super) dead: u64,
    pub(super) unpublished: u64,
    /// Mutex rows: messages that are not done.
    pub(super) rows: u64,
    pub(super) healthy: u64,
}

impl Counts {
    fn text(&self) -> String {
        let Counts { queue, ready, busy, dead, unpublished, rows, healthy, .. } = self;
        let out = self.unacknowledged.map_or("unknown".to_owned(), |out| out.to_string());
        format!(
            "{queue}: {ready} ready, {out} unacknowledged, {busy} busy, {dead} dead-lettered, {unpublished} unpublished; \
             {rows} not done, {healthy} of them healthy"
        )
    }
}

/// What was said so far.
pub(super) struct Report {
    json: bool,
    found: u64,
    /// Findings that somebody must still do something about.
    pub(super) left: u64,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Report { json, found: 0, left: 0 }
    }

    pub(super) fn finding(&mut self, finding: &Finding) -> Result<(), Failure> {
        self.found += 1;
        self.left += u64::from(finding.is_left());
        if self.json { output::json(finding) } else { output::print(&finding.text()) }
    }

    pub(super) fn counts(&mut self, counts: &Counts) -> Result<(), Failure> {
        if self.json { output::json(counts) } else { output::print(&counts.text()) }
    }

    pub(super) fn end(&self) -> Result<(), Failure> {
        if self.found == 0 && !self.json { output::print("no problems found") } else { Ok(()) }
    }
}
