//! Which COMMIT is cut, and how many have been: the test replaces the plan,
//! each connection asks it at each COMMIT and reports the cut when both of its
//! sockets are closed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// On which side of a COMMIT the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The COMMIT does not reach the server: nothing is committed.
    BeforeCommit,
    /// The server has answered the COMMIT; the client does not learn it.
    AfterCommit,
}

/// The plan in force.
#[derive(Debug, Default)]
pub(super) struct Plans(Mutex<Arc<Plan>>);

impl Plans {
    pub(super) fn replace(&self, cut: Cut, every: u32, times: u32) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(Plan { cut, every: every.max(1), times, ..Plan::default() });
    }

    pub(super) fn current(&self) -> Arc<Plan> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One call of `cut_commits`.
#[derive(Debug)]
pub(super) struct Plan {
    cut: Cut,
    every: u32,
    times: u32,
    seen: Mutex<u32>,
    done: watch::Sender<u32>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { cut: Cut::BeforeCommit, every: 1, times: 0, seen: Mutex::new(0), done: watch::Sender::new(0) }
    }
}

impl Plan {
    /// Counts a COMMIT and says whether and how it is to be cut.
    pub(super) fn commit(&self) -> Option<Cut> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = seen.saturating_add(1);
        let due = seen.is_multiple_of(self.every) && *seen / self.every <= self.times;
        due.then_some(self.cut)
    }

    /// Reports that a cut has happened.
    pub(super) fn was_cut(&self) {
        self.done.send_modify(|done| *done += 1);
    }

    pub(super) fn done(&self) -> u32 {
        *self.done.borrow()
    }

    pub(super) async fn all_done(&self) {
        let mut done = self.done.subscribe();
        done.wait_for(|done| *done >= self.times).await.expect("the sender is ours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_twice() {
        let plans = Plans::default();
        assert_eq!(plans.current().commit(), None);
        plans.replace(Cut::AfterCommit, 3, 2);
        let plan = plans.current();
        let cut: Vec<u32> = (1..=12).filter(|_| plan.commit().is_some()).collect();
        assert_eq!(cut, [3, 6]);
    }
}
