//! The failure of a message: why it is put aside and for how long, which is what `park` and `fail` write down (also of one that was only snoozed); the record that is kept
//! of it, which operators see; and the history of those before it. A run that fails is a [`Failure`] from the moment it is judged
//! (`process/record.rs`) until it is a row; nothing else says what becomes of the message.

use std::{fmt, time::Duration};

use serde::Serialize;

/// The code of what has not failed.
const SNOOZE: &str = "snooze";

/// Why a message is parked, and for how long.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Failure {
    /// What an operator reads.
    pub error: String,
    /// Runs that failed by themselves, this one included if it did.
    pub failures: u32,
    /// When it runs again; none: it has failed for good.
    pub retry_after: Option<Duration>,
    /// What kind of failure it is, for the monitor.
    pub(crate) code: &'static str,
}

impl Failure {
    /// A permanent failure.
    pub fn dead(error: impl Into<String>, failures: u32) -> Self {
        Failure { error: error.into(), failures, retry_after: None, code: "error" }
    }

    /// No failure: the action wants to run the message later.
    #[must_use]
    pub fn snoozed(failures: u32, after: Duration) -> Self {
        Failure { error: "the action snoozed it".into(), failures, retry_after: Some(after), code: SNOOZE }
    }

    /// Nothing has failed: no attempt is spent, and the history has nothing to say about it.
    #[must_use]
    pub fn is_snooze(&self) -> bool {
        self.code == SNOOZE
    }

    /// A failure that is retried after this time.
    pub fn waiting(error: impl Into<String>, failures: u32, retry_after: Duration) -> Self {
        Failure { error: error.into(), failures, retry_after: Some(retry_after), code: "error" }
    }
}

/// One parked message: the record of its last failure.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Parked {
    /// Its id, `orders/42`.
    pub id: String,
    /// `waiting`, `released`, `dead` or `discarded`.
    pub state: ParkedState,
    /// Runs that failed by themselves.
    pub attempts: i64,
    /// How often it was snoozed since it last failed, or was sent.
    pub snoozed: i64,
    /// When it runs again, by the database's clock.
    pub due_at: Option<String>,
    /// The last error.
    pub error: String,
    /// The last error without what differs from message to message: numbers, ids, quoted values.
    pub shape: String,
    /// When it was last parked, by the database's clock.
    pub parked_at: String,
    /// The last failures, newest last.
    pub history: Vec<PastFailure>,
    /// Its place among the others: the time by which they are ordered, to the last digit.
    #[serde(skip)]
    pub place: String,
}

impl Parked {
    /// A parked message as a store read it; `history` is the JSON that the store keeps.
    #[must_use]
    pub fn new(
        id: String,
        state: &str,
        (attempts, snoozed): (i64, i64),
        due_at: Option<String>,
        parked_at: String,
        history: &str,
    ) -> Self {
        let history: Vec<PastFailure> = serde_json::from_str(history).unwrap_or_default();
        let error = history.last().map(|failure| failure.error.clone()).unwrap_or_default();
        let shape = shape(&error);
        let place = parked_at.clone();
        Parked {
            id,
            state: ParkedState::read(state),
            attempts,
            snoozed,
            due_at,
            error,
            shape,
            parked_at,
            history,
            place,
        }
    }

    /// With its exact place among others.
    #[must_use]
    pub fn at(mut self, place: String) -> Self {
        self.place = place;
        self
    }
}

/// What a parked message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParkedState {
    /// For its due time.
    Waiting,
    /// For nothing: it is back in circulation, and its history is kept.
    Released,
    /// For an operator: it has failed, and is called so wherever it is shown.
    #[serde(rename = "failed")]
    Dead,
    /// For nothing: an operator discarded it.
    Discarded,
}

impl ParkedState {
    /// As it is written in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ParkedState::Waiting => "waiting",
            ParkedState::Released => "released",
            ParkedState::Dead => "dead",
            ParkedState::Discarded => "discarded",
        }
    }

    /// Reads what [`ParkedState::as_str`] wrote; anything else is taken for dead, so that somebody looks at it.
    #[must_use]
    pub fn read(text: &str) -> Self {
        match text {
            "waiting" => ParkedState::Waiting,
            "released" => ParkedState::Released,
            "discarded" => ParkedState::Discarded,
            _ => ParkedState::Dead,
        }
    }
}

/// As it is shown.
impl fmt::Display for ParkedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == ParkedState::Dead { "failed" } else { self.as_str() })
    }
}

/// One failure of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct PastFailure {
    /// Which run it was.
    pub attempt: u32,
    /// When, by the database's clock.
    pub at: String,
    /// What it said.
    pub error: String,
}

/// How many failures are kept per message.
pub const HISTORY: usize = 10;

/// Of a long error text this many bytes are kept.
const LONGEST_ERROR: usize = 4096;

/// The error of a message that ran alone when its process died.
pub const DIED_RUNNING: &str = "its process died while running it";

/// A message's history with one more failure, in the JSON that stores keep.
#[must_use]
pub fn history(past: Option<&str>, attempt: u32, at: String, error: &str) -> String {
    let mut history: Vec<PastFailure> = past.and_then(|past| serde_json::from_str(past).ok()).unwrap_or_default();
    let error: String = error.chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect();
    let end = error.floor_char_boundary(LONGEST_ERROR);
    history.push(PastFailure { attempt, at, error: error[..end].to_owned() });
    let kept = history.len().saturating_sub(HISTORY);
    serde_json::to_string(&history[kept..]).unwrap_or_default()
}

/// What many errors have in common: numbers, ids and what stands in quotes become `…`.
#[must_use]
pub fn shape(error: &str) -> String {
    let mut shape = String::with_capacity(error.len());
    let mut quote = None;
    for word in error.split_inclusive(|c: char| !c.is_alphanumeric() && c != '-') {
        let (body, end) = match word.char_indices().next_back() {
            Some((at, last)) if !last.is_alphanumeric() && last != '-' => (&word[..at], Some(last)),
            _ => (word, None),
        };
        let differs = body.chars().any(|c| c.is_ascii_digit());
        if quote.is_none() {
            shape.push_str(if differs { "…" } else { body });
        }
        match (quote, end) {
            (Some(open), Some(end)) if end == open => {
                shape.push('…');
                shape.push(end);
                quote = None;
            }
            (None, Some(end @ ('\'' | '"' | '`'))) if body.is_empty() || end != '\'' => {
                shape.push(end);
                quote = Some(end);
            }
            (None, Some(end)) => shape.push(end),
            _ => {}
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_kind_have_one_shape() {
        let one = shape("duplicate entry '42' for key \"order_7\" at line 664");
        assert_eq!(one, "duplicate entry '…' for key \"…\" at line …");
        assert_eq!(one, shape("duplicate entry 'it is 7' for key \"x\" at line 1"));
        assert_eq!(shape("customer 01a1ddd9-86cd-77ec is gone"), "customer … is gone");
        assert_eq!(shape("it's not there"), "it's not there");
        assert_ne!(shape("timeout"), shape("no such customer"));
    }

    #[test]
    fn the_history_keeps_the_last_ten_failures_and_nothing_a_database_refuses() {
        let mut kept = String::new();
        for attempt in 1..=12 {
            kept = history(Some(&kept), attempt, "now".into(), &format!("a\0b {}", "é".repeat(4000)));
        }
        let read: Vec<PastFailure> = serde_json::from_str(&kept).unwrap();
        assert_eq!(read.iter().map(|failure| failure.attempt).collect::<Vec<_>>(), (3..=12).collect::<Vec<_>>());
        assert!(read.iter().all(|failure| failure.error.len() <= LONGEST_ERROR && !failure.error.contains('\0')));
    }
}
