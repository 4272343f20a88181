//! What the doctor finds: one [`Finding`] for each message that is worth one, and the counts of each queue at a broker. Rows of tables that belong
//! to nobody are found here; `ichido doctor` examines the brokers beside them.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use crate::{
    MessageId, Operate,
    broker::{Orphan, Verdict},
    error::Result,
};

/// What was done about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// In words.
    pub text: Cow<'static, str>,
    /// Something is left to do.
    pub left: bool,
}

impl Done {
    /// This, and nothing more is to do.
    #[must_use]
    pub fn did(text: &'static str) -> Self {
        Done { text: text.into(), left: false }
    }

    /// Something is left to do, for this reason.
    pub fn left(why: impl Into<Cow<'static, str>>) -> Self {
        Done { text: why.into(), left: true }
    }

    /// It is not as it was seen, or not ours to change.
    #[must_use]
    pub fn left_alone() -> Self {
        Self::left("left alone")
    }
}

impl Serialize for Done {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// One message, or what seems to be one.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Its queue.
    pub queue: String,
    /// Its id.
    pub message: String,
    /// What the row says.
    pub mutex: &'static str,
    /// Has it a dead letter?
    #[serde(rename = "dead_letter")]
    pub dead: bool,
    /// Is it in its queue at the broker?
    pub in_queue: &'static str,
    /// What that means.
    pub meaning: String,
    /// What to do.
    pub verdict: Verdict,
    /// In other words than the verdict's.
    #[serde(skip)]
    pub action: Option<&'static str>,
    /// What was done about it.
    pub done: Option<Done>,
}

impl Finding {
    /// Something that must be looked into.
    #[must_use]
    pub fn of(queue: &str, message: String, meaning: String) -> Self {
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
    #[must_use]
    pub fn is_left(&self) -> bool {
        let to_do = !matches!(self.verdict, Verdict::Wait | Verdict::Nothing);
        to_do && self.done.as_ref().is_none_or(|done| done.left)
    }

    /// What to do, in words.
    #[must_use]
    pub fn action(&self) -> String {
        self.action.map_or_else(|| self.verdict.to_string(), str::to_owned)
    }
}

/// The counts of a queue at a broker.
#[derive(Debug, Clone, Default, Serialize)]
pub struct QueueFindings {
    /// The queue.
    pub queue: String,
    /// Ready at the broker.
    pub ready: u64,
    /// Handed out and not acknowledged; none if nobody can tell.
    pub unacknowledged: Option<u64>,
    /// Waiting for a copy that is being processed.
    pub busy: u64,
    /// Dead letters.
    pub dead: u64,
    /// Not published yet.
    pub unpublished: u64,
    /// Mutex rows: messages that are not done.
    pub rows: u64,
    /// Those of them with which nothing is wrong.
    pub healthy: u64,
}

/// All that the doctor found.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Examination {
    /// Messages with which something is wrong.
    pub findings: Vec<Finding>,
    /// The queues at brokers.
    pub queues: Vec<QueueFindings>,
    /// How many findings there were, also those that were left off.
    pub found: u64,
    /// Those that somebody must still do something about.
    pub left: u64,
    /// Those about which something was done, and nothing is left to do.
    pub done: u64,
}

/// So many findings are kept.
const MOST_FINDINGS: usize = 1000;

impl Examination {
    /// Adds a finding; past a bound it is counted only.
    pub fn finding(&mut self, finding: &Finding) {
        self.found += 1;
        self.left += u64::from(finding.is_left());
        self.done += u64::from(finding.done.as_ref().is_some_and(|done| !done.left));
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding.clone());
        }
    }
}

/// The rows of a queue that are new and owned by no process; with `fix`, they are released and the workers woken.
///
/// # Errors
/// The database fails.
pub async fn orphans<S: Operate>(store: &S, queue: &str, fix: bool) -> Result<Vec<Finding>> {
    let (mut found, mut freed) = (Vec::new(), false);
    for orphan in store.orphans(queue).await? {
        let done = match fix {
            true if store.release_orphan(queue, &orphan).await? => {
                freed = true;
                Some(Done::did("released"))
            }
            true => Some(Done::left_alone()),
            false => None,
        };
        found.push(of_orphan(queue, &orphan, done));
    }
    if freed {
        store.wake_ups().tell(store, queue).await;
    }
    Ok(found)
}

fn of_orphan(queue: &str, orphan: &Orphan, done: Option<Done>) -> Finding {
    let meaning = match &orphan.owner {
        _ if orphan.is_aside() => "parked, but there is no record of it".to_owned(),
        owner => format!("new, but owned by {owner}, which is not a known process"),
    };
    let message = MessageId { queue: queue.into(), key: orphan.key.clone() }.to_string();
    Finding {
        mutex: "owned",
        verdict: Verdict::Retry,
        action: Some("release"),
        done,
        ..Finding::of(queue, message, meaning)
    }
}
