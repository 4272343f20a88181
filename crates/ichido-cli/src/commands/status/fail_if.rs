//! The limits of `status --fail-if`: conditions that a monitor gives, such as `failed>0,oldest>5m`, held against what `status` found.
//! Each is asked of every queue, but `processes` of the whole.

use std::{fmt, str::FromStr};

use ichido::inspect::{MOST_COUNTED, Overview, QueueCounts};
use serde::Serialize;

use crate::config::parse_duration;

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    /// As it was written.
    text: String,
    measure: Measure,
    above: bool,
    bound: u64,
}

/// What is held against a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Backlog,
    Claimed,
    Waiting,
    Failed,
    /// In seconds.
    Oldest,
    Unpublished,
    /// Of all request ids together.
    Processes,
}

const MEASURES: [(&str, Measure); 7] = [
    ("backlog", Measure::Backlog),
    ("claimed", Measure::Claimed),
    ("waiting", Measure::Waiting),
    ("failed", Measure::Failed),
    ("oldest", Measure::Oldest),
    ("unpublished", Measure::Unpublished),
    ("processes", Measure::Processes),
];

/// A condition that holds.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Exceeded {
    /// As it was written.
    limit: String,
    /// Where it holds; none where it is about all processes.
    queue: Option<String>,
    /// What was found; of `oldest` in seconds.
    value: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exceeded { limit, queue, value } = self;
        match queue {
            Some(queue) => write!(f, "{limit}: {value} in the queue `{queue}`"),
            None => write!(f, "{limit}: {value}"),
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let at = text.find(['>', '<']).ok_or_else(|| {
            format!("`{text}` is no condition; write it like failed>0, oldest>5m, backlog>1000 or processes<2")
        })?;
        let (name, bound) = (text[..at].trim(), text[at + 1..].trim());
        let Some((_, measure)) = MEASURES.into_iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = MEASURES.iter().map(|(name, _)| *name).collect();
            let hint = ichido::handlers::suggestion(name, known.iter().copied());
            return Err(format!("`{name}` is not measured{hint}; known are {}", known.join(", ")));
        };
        let limit = Limit { text: text.to_owned(), measure, above: text[at..].starts_with('>'), bound: 0 };
        limit.with_bound(bound)
    }
}

impl Limit {
    fn with_bound(mut self, bound: &str) -> Result<Self, String> {
        self.bound = match self.measure {
            Measure::Oldest => parse_duration(bound)?.as_secs(),
            _ => bound.parse().map_err(|_| format!("`{}`: `{bound}` is not a whole number", self.text))?,
        };
        let counted = matches!(self.measure, Measure::Backlog | Measure::Claimed | Measure::Unpublished);
        if counted && self.bound >= MOST_COUNTED {
            return Err(format!("`{}` can never hold: no more than {MOST_COUNTED} messages are counted", self.text));
        }
        Ok(self)
    }

    fn holds(&self, value: u64) -> bool {
        if self.above { value > self.bound } else { value < self.bound }
    }

    fn exceeded(&self, queue: Option<&str>, value: u64) -> Option<Exceeded> {
        let queue = queue.map(str::to_owned);
        self.holds(value).then(|| Exceeded { limit: self.text.clone(), queue, value })
    }
}

/// The conditions that hold.
pub(super) fn exceeded(limits: &[Limit], overview: &Overview) -> Vec<Exceeded> {
    let of = |limit: &Limit| match limit.measure {
        Measure::Processes => {
            let alive = overview.processes.iter().filter(|process| process.alive).count();
            limit.exceeded(None, alive as u64).into_iter().collect::<Vec<_>>()
        }
        measure => {
            let each = overview.queues.iter().filter_map(|queue| Some((queue, value(measure, queue)?)));
            each.filter_map(|(queue, value)| limit.exceeded(Some(&queue.queue), value)).collect()
        }
    };
    limits.iter().flat_map(of).collect()
}

/// None where the queue has nothing of the kind.
fn value(measure: Measure, queue: &QueueCounts) -> Option<u64> {
    let unpublished = queue.outbox.as_ref().map(|outbox| outbox.unpublished);
    let count = |count: i64| Some(u64::try_from(count).unwrap_or_default());
    match measure {
        // What a mutex guards is in both places until it is published.
        Measure::Backlog => count(queue.ready).max(unpublished),
        Measure::Claimed => count(queue.claimed),
        Measure::Waiting => count(queue.waiting),
        Measure::Failed => count(queue.failed),
        Measure::Oldest => {
            let published = queue.outbox.as_ref().and_then(|outbox| outbox.oldest_seconds);
            queue.oldest_seconds.max(published).and_then(count)
        }
        Measure::Unpublished => unpublished,
        Measure::Processes => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<Limit>().expect_err(text)
    }

    fn overview(ready: i64, failed: i64, oldest_seconds: Option<i64>) -> Overview {
        let queue = QueueCounts {
            queue: "orders".into(),
            ready,
            recent: None,
            claimed: 0,
            waiting: 0,
            failed,
            oldest_seconds,
            held_groups: 0,
            outbox: None,
        };
        Overview::new(vec![queue], Vec::new(), Vec::new())
    }

    fn holds(text: &str, overview: &Overview) -> bool {
        !exceeded(&[text.parse().unwrap()], overview).is_empty()
    }

    #[test]
    fn a_condition_holds_beyond_its_bound_only() {
        let found = overview(1000, 0, Some(300));
        assert!(holds("backlog>999", &found) && !holds("backlog>1000", &found));
        assert!(holds("oldest > 4m59s", &found) && !holds("oldest>5m", &found));
        assert!(!holds("failed>0", &found) && holds("failed<1", &found));
        assert!(holds("processes<1", &found));
        assert!(!holds("oldest>0s", &overview(0, 0, None)), "nothing waits");
        assert!(!holds("unpublished<5", &found), "no broker keeps this queue");
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_a_way_out() {
        assert!(refused("faild>0").contains("did you mean `failed`"), "{}", refused("faild>0"));
        assert!(refused("failed").contains("like failed>0"));
        assert!(refused("failed>many").contains("not a whole number"));
        assert!(refused("oldest>5").contains('5'));
        assert!(refused("backlog>100000").contains("can never hold"));
    }
}
