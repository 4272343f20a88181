//! Faults of a real store, at the moment that a test chooses. [`FaultyStore`] does what the store inside does, except where its
//! [`Faults`] fail a verb, lose its reply, hold it up or change its answer; and they count, so that a test waits for a verb and not
//! for a time. [`Scene`] puts it together with a [`Dial`](ichido::testing::Dial), a clock that moves when the test says so.

mod scene;
mod store;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use ichido::{Error, error::Result};
use tokio::sync::watch;

use crate::in_time;

pub use self::{
    scene::{HEARTBEAT, LEASE, Order, Running, Scene, one_line, orders},
    store::FaultyStore,
};

/// The verbs of a store that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Begin a business transaction.
    Begin,
    /// Commit it.
    Commit,
    /// Roll it back.
    Rollback,
    /// Look whether a COMMIT arrived.
    Probe,
    /// Decide about files.
    Decide,
    /// Forget about files.
    DeleteFileSets,
    /// Claim messages.
    Claim,
    /// Look whether there is something to claim.
    Look,
    /// Give claims back.
    Release,
    /// Record a failure.
    Park,
    /// Mark a suspect that is about to run.
    Mark,
    /// Return what is due.
    Return,
    /// Forget what is known about messages that are gone.
    Tidy,
    /// Take the lease to do chores.
    TakeChores,
    /// Make a process known.
    Register,
    /// Write a heartbeat.
    Heartbeat,
    /// Poll for what there is to do.
    Poll,
    /// Deregister a process.
    Deregister,
    /// Rescue what dead processes had.
    Rescue,
    /// Look whether queues are drained.
    Drained,
    /// Write what was counted.
    Stats,
    /// Read what is to be published.
    Unsent,
    /// Does the database answer?
    Ping,
}

/// What happens to a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not happen: the database does not answer.
    Unreachable,
    /// It happens, and the reply is lost.
    ReplyLost,
    /// It happens, and the answer is another: nothing was claimed, this process is dead.
    WrongReply,
    /// It does not happen, and the answer is that this process is dead.
    ClaimLost,
    /// It happens, and this process dies before it knows.
    Crash,
    /// It does not happen: there is a bug on the way.
    Panic,
}

/// Decides what happens to the verbs of a store and of its clones.
#[derive(Debug, Default)]
pub struct Faults(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    begun: HashMap<Verb, u32>,
    ended: HashMap<Verb, u32>,
    next: HashMap<Verb, VecDeque<Fault>>,
    held: HashSet<Verb>,
    timeout: Option<Duration>,
}

impl Faults {
    /// The next `times` of this verb have this fault.
    pub fn inject(&self, verb: Verb, fault: Fault, times: usize) {
        self.0.send_modify(|state| state.next.entry(verb).or_default().extend(std::iter::repeat_n(fault, times)));
    }

    /// Holds this verb up before it happens.
    pub fn hold(&self, verb: Verb) {
        self.0.send_modify(|state| state.held.extend([verb]));
    }

    /// Lets it happen.
    pub fn resume(&self, verb: Verb) {
        self.0.send_modify(|state| state.held.retain(|held| *held != verb));
    }

    /// From now on the store says that no statement stays unanswered for longer than this; a verb that is held does all the same.
    pub fn promise(&self, timeout: Duration) {
        self.0.send_modify(|state| state.timeout = Some(timeout));
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.borrow().timeout
    }

    /// How often this verb has begun.
    #[must_use]
    pub fn begun(&self, verb: Verb) -> u32 {
        self.0.borrow().begun.get(&verb).copied().unwrap_or_default()
    }

    /// Resolves when this verb has begun so often.
    pub async fn has_begun(&self, verb: Verb, times: u32) {
        let begun = self.until(|state| state.begun.get(&verb).is_some_and(|begun| *begun >= times));
        in_time(format!("{verb:?} begins {times} times"), begun).await;
    }

    /// Resolves when this verb has come to its end so often.
    pub async fn has_ended(&self, verb: Verb, times: u32) {
        let ended = self.until(|state| state.ended.get(&verb).is_some_and(|ended| *ended >= times));
        in_time(format!("{verb:?} ends {times} times"), ended).await;
    }

    async fn until(&self, reached: impl FnMut(&State) -> bool) {
        self.0.subscribe().wait_for(reached).await.expect("the sender is ours");
    }

    /// Runs a verb, with its next fault.
    async fn apply<T>(&self, verb: Verb, wrong: Option<T>, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut fault = None;
        self.0.send_modify(|state| {
            *state.begun.entry(verb).or_default() += 1;
            fault = state.next.get_mut(&verb).and_then(VecDeque::pop_front);
        });
        match fault {
            Some(Fault::Unreachable) => return Err(silence()),
            Some(Fault::ClaimLost) => return Err(Error::LostClaim),
            Some(Fault::Panic) => panic!("a bug of the test's own in {verb:?}"),
            _ => {}
        }
        self.until(|state| !state.held.contains(&verb)).await;
        let result = work.await;
        self.0.send_modify(|state| *state.ended.entry(verb).or_default() += 1);
        match fault {
            Some(Fault::Crash) => std::process::abort(),
            Some(Fault::WrongReply) => Ok(wrong.expect("a verb that has another answer")),
            Some(_) => Err(silence()),
            None => result,
        }
    }
}

fn silence() -> Error {
    Error::Unreachable { address: "the faulty store".into(), source: "a fault of the test's own".into() }
}
