//! Somebody in the way of a real store. [`Meddled`] does what the store inside does, except where its [`Meddler`] fails a verb,
//! loses its reply, holds it up or lies; and it counts, so that a test waits for a verb and not for a time. [`Scene`] puts it
//! together with a [`Dial`](ichido::testing::Dial), a clock by which the chores wake when the test says so.

mod scene;
mod store;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use ichido::{Error, Result};
use tokio::sync::watch;

pub use self::{
    scene::{LEASE, Order, Running, Scene, THIRD, one_line, orders},
    store::Meddled,
};

/// Nobody waits longer than this for something that does not happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// What can be meddled with.
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
    Forget,
    /// Claim messages.
    Claim,
    /// Give claims back.
    Release,
    /// Record a failure.
    Park,
    /// Mark a suspect that is about to run.
    Mark,
    /// Return what is due.
    Return,
    /// Make a process known.
    Register,
    /// A sign of life.
    Beat,
    /// Look what there is to do.
    Look,
    /// Take leave.
    Leave,
    /// Rescue what dead processes had.
    Rescue,
    /// Look whether queues are drained.
    Drained,
    /// Write what was counted.
    Stats,
    /// Does the database answer?
    Ping,
}

/// What befalls a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// It does not happen: the database does not answer.
    Before,
    /// It happens, and the reply is lost.
    After,
    /// It happens, and the answer is another: nothing was claimed, this process is dead.
    Lie,
    /// It does not happen, and the answer is that this process is dead.
    Lost,
    /// It happens, and this process dies before it knows.
    Death,
}

/// Decides what befalls the verbs of a store and of its clones.
#[derive(Debug, Default)]
pub struct Meddler(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    begun: HashMap<Verb, u32>,
    ended: HashMap<Verb, u32>,
    harms: HashMap<Verb, VecDeque<Harm>>,
    held: HashSet<Verb>,
}

impl Meddler {
    /// The next `times` of this verb come to harm.
    pub fn harm(&self, verb: Verb, harm: Harm, times: usize) {
        self.0.send_modify(|state| state.harms.entry(verb).or_default().extend(std::iter::repeat_n(harm, times)));
    }

    /// Holds this verb up before it happens.
    pub fn hold(&self, verb: Verb) {
        self.0.send_modify(|state| state.held.extend([verb]));
    }

    /// Lets it happen.
    pub fn let_go(&self, verb: Verb) {
        self.0.send_modify(|state| state.held.retain(|held| *held != verb));
    }

    /// How often this verb has begun.
    #[must_use]
    pub fn begun(&self, verb: Verb) -> u32 {
        self.0.borrow().begun.get(&verb).copied().unwrap_or_default()
    }

    /// Resolves when this verb has begun so often.
    pub async fn has_begun(&self, verb: Verb, times: u32) {
        let begun = self.until(|state| state.begun.get(&verb).is_some_and(|begun| *begun >= times));
        in_time(begun, &format!("{verb:?} did not begin {times} times")).await;
    }

    /// Resolves when this verb has come to its end so often.
    pub async fn has_ended(&self, verb: Verb, times: u32) {
        let ended = self.until(|state| state.ended.get(&verb).is_some_and(|ended| *ended >= times));
        in_time(ended, &format!("{verb:?} did not come to its end {times} times")).await;
    }

    async fn until(&self, reached: impl FnMut(&State) -> bool) {
        self.0.subscribe().wait_for(reached).await.expect("the sender is ours");
    }

    /// Runs a verb, and what befalls it.
    async fn meddle<T>(&self, verb: Verb, lie: Option<T>, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut harm = None;
        self.0.send_modify(|state| {
            *state.begun.entry(verb).or_default() += 1;
            harm = state.harms.get_mut(&verb).and_then(VecDeque::pop_front);
        });
        match harm {
            Some(Harm::Before) => return Err(silence()),
            Some(Harm::Lost) => return Err(Error::LostClaim),
            _ => {}
        }
        self.until(|state| !state.held.contains(&verb)).await;
        let result = work.await;
        self.0.send_modify(|state| *state.ended.entry(verb).or_default() += 1);
        match harm {
            Some(Harm::Death) => std::process::abort(),
            Some(Harm::Lie) => Ok(lie.expect("a verb that has another answer")),
            Some(_) => Err(silence()),
            None => result,
        }
    }
}

/// What does not happen fails its test, and says what it was.
async fn in_time<T>(event: impl Future<Output = T>, otherwise: &str) -> T {
    tokio::time::timeout(PATIENCE, event).await.unwrap_or_else(|_| panic!("{otherwise}"))
}

fn silence() -> Error {
    Error::Unreachable { address: "the meddled store".into(), source: "somebody is in its way".into() }
}
