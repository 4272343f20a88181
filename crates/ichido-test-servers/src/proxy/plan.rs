//! Which COMMIT, or which step of a message, is cut, and how many have been: the
//! test replaces the plan, each connection asks it at each step and reports the
//! cut when both of its sockets are closed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Where a connection is cut: the first two for databases, the others for RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The COMMIT does not reach the server: nothing is committed.
    BeforeCommit,
    /// The server has answered the COMMIT; the client does not learn it.
    AfterCommit,
    /// The message does not reach the broker.
    BeforePublish,
    /// The broker has the message; the client learns nothing any more.
    AfterPublish,
    /// The broker has confirmed (or refused) a message; the client does not learn it.
    BeforeConfirm,
    /// The client has learned it; that was the last that it heard.
    AfterConfirm,
    /// The broker has handed out a message that does not reach the client.
    BeforeDeliver,
    /// The client has it, and nothing that it says any more reaches the broker.
    AfterDeliver,
    /// The client's acknowledgement (or refusal) does not reach the broker.
    BeforeAck,
    /// The broker has it, and the client learns nothing any more.
    AfterAck,
}

/// What a cut is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Commit,
    Publish,
    Confirm,
    Deliver,
    Ack,
}

/// On which side of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

impl Step {
    pub(super) fn name(self) -> &'static str {
        match self {
            Step::Commit => "commit",
            Step::Publish => "publish",
            Step::Confirm => "confirm",
            Step::Deliver => "deliver",
            Step::Ack => "ack",
        }
    }
}

impl Cut {
    fn place(self) -> (Side, Step) {
        match self {
            Cut::BeforeCommit => (Side::Before, Step::Commit),
            Cut::AfterCommit => (Side::After, Step::Commit),
            Cut::BeforePublish => (Side::Before, Step::Publish),
            Cut::AfterPublish => (Side::After, Step::Publish),
            Cut::BeforeConfirm => (Side::Before, Step::Confirm),
            Cut::AfterConfirm => (Side::After, Step::Confirm),
            Cut::BeforeDeliver => (Side::Before, Step::Deliver),
            Cut::AfterDeliver => (Side::After, Step::Deliver),
            Cut::BeforeAck => (Side::Before, Step::Ack),
            Cut::AfterAck => (Side::After, Step::Ack),
        }
    }
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

/// One call of `cut`.
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
    /// Counts a step, if the plan is about such, and says whether and how it is to be cut.
    pub(super) fn meets(&self, step: Step) -> Option<Side> {
        let (side, about) = self.cut.place();
        if step != about {
            return None;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = seen.saturating_add(1);
        let due = seen.is_multiple_of(self.every) && *seen / self.every <= self.times;
        due.then_some(side)
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
        assert_eq!(plans.current().meets(Step::Commit), None);
        plans.replace(Cut::AfterCommit, 3, 2);
        let plan = plans.current();
        let cut: Vec<u32> = (1..=12).filter(|_| plan.meets(Step::Commit) == Some(Side::After)).collect();
        assert_eq!(cut, [3, 6]);
    }

    #[test]
    fn other_steps_do_not_count() {
        let plans = Plans::default();
        plans.replace(Cut::BeforeAck, 2, 1);
        let plan = plans.current();
        let seen =
            [Step::Publish, Step::Ack, Step::Deliver, Step::Confirm, Step::Commit, Step::Ack].map(|s| plan.meets(s));
        assert_eq!(seen, [None, None, None, None, None, Some(Side::Before)]);
    }
}
