//! What stores tell about request ids, in the same words.

use std::collections::BTreeMap;

use ichido::{
    Error,
    process::{Flags, RequestState},
    store::ProcessId,
};

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
    /// When it sent its last heartbeat; none if it is certainly alive.
    pub heartbeat: Option<String>,
}

impl Other {
    /// Why nobody else may start.
    #[must_use]
    pub fn refusal(self) -> Error {
        let Other { request_id, id, host, pid, heartbeat } = self;
        let reason = format!(
            "`{request_id}` is already served by process {id} (pid {pid} on {host}); stop it with `ichido stop \
             {request_id}`, or allow several with `process.exempt`"
        );
        Error::Duplicate { reason, heartbeat: heartbeat.map(|at| format!("{id} {at}")) }
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
}
