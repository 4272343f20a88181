//! What stores tell about request ids, in the same words.

use std::collections::BTreeMap;

use crate::{Error, Flags, LONGEST_REQUEST_ID, ProcessId, RequestState, Result};

/// Puts together who serves each request id (and whether that process is alive) and what operators ask of it.
#[must_use]
pub fn requests(
    served: impl IntoIterator<Item = (String, bool)>,
    flags: impl IntoIterator<Item = (String, Flags)>,
) -> Vec<RequestState> {
    let mut all: BTreeMap<String, RequestState> = BTreeMap::new();
    let new = |id: &String| RequestState::new(id.as_str());
    for (id, _) in served.into_iter().filter(|(_, alive)| *alive) {
        all.entry(id).or_insert_with_key(new).processes += 1;
    }
    for (id, flags) in flags {
        all.entry(id).or_insert_with_key(new).flags = flags;
    }
    all.into_values().collect()
}

/// A request id must be something to type, and something every database can keep.
///
/// # Errors
/// [`Error::Refused`] if it is not.
pub fn refuse_request_id(request_id: &str) -> Result<()> {
    let why = if request_id.trim().is_empty() {
        "is empty"
    } else if request_id.chars().any(char::is_control) {
        "contains a control character"
    } else if request_id.chars().count() > LONGEST_REQUEST_ID {
        "is longer than 255 characters"
    } else {
        return Ok(());
    };
    Err(Error::Refused(format!("the request id {request_id:?} {why}")))
}

/// A live process that serves a request id which another is to serve alone.
#[derive(Debug, Clone)]
pub struct Other {
    /// The request id.
    pub request_id: String,
    /// The process.
    pub id: ProcessId,
    /// Where it runs.
    pub host: String,
    /// Its number there.
    pub pid: i64,
    /// When it gave its last sign of life; none if it is certainly alive.
    pub beat: Option<String>,
}

impl Other {
    /// Why nobody else may start.
    #[must_use]
    pub fn refusal(self) -> Error {
        let Other { request_id, id, host, pid, beat } = self;
        let reason = format!(
            "`{request_id}` is served already, by process {id} (pid {pid} on {host}); `ichido stop {request_id}` ends it, and `process.exempt` admits several"
        );
        Error::Duplicate { reason, beat: beat.map(|beat| format!("{id} {beat}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_served_or_flagged_is_listed_and_the_dead_are_not_counted() {
        let served =
            [("R1", true), ("R1", true), ("R1", false), ("R2", false)].map(|(id, alive)| (id.to_owned(), alive));
        let paused = Flags { stopped: false, paused: true };
        let all = requests(served, [("R3".to_owned(), paused), ("R1".to_owned(), paused)]);
        let all: Vec<_> = all.iter().map(|state| (&*state.request_id, state.processes, state.flags)).collect();
        assert_eq!(all, [("R1", 2, paused), ("R3", 0, paused)]);
    }

    #[test]
    fn a_request_id_that_no_database_can_keep_is_refused() {
        for bad in ["", " ", "a\nb", "a\0b", &"x".repeat(256)] {
            assert!(matches!(refuse_request_id(bad), Err(Error::Refused(_))), "{bad:?}");
        }
        for good in ["R1", "a/b, c", "依頼", &"é".repeat(255)] {
            refuse_request_id(good).unwrap();
        }
    }
}
