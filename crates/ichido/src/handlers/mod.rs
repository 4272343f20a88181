//! The built-in handlers, one file each, in the order of the minimal handler queue (docs/contract.md), and in `chain` the queue that
//! they are links of. A handler talks to the context and to the store's verbs.

mod availability;
pub(crate) mod chain;
mod concurrency;
mod connection;
mod context;
mod context_clear;
mod dispatch;
mod each;
mod elapsed;
mod files;
mod global_error;
mod process_stop;
mod rate_limit;
mod read;
mod repeat;
mod retry;
mod single;
mod status_code;
mod transaction;

pub use self::{
    availability::Availability,
    chain::{
        About, Entry, Handler, HandlerQueue, Need, Next, Options, Placement, Registry, Rest, Scope, nearest, suggestion,
    },
    concurrency::Concurrency,
    connection::Connection,
    context::SetContext,
    context_clear::ContextClear,
    dispatch::Dispatch,
    each::Each,
    elapsed::Elapsed,
    files::Files,
    global_error::GlobalError,
    process_stop::ProcessStop,
    rate_limit::RateLimit,
    read::Read,
    repeat::Loop,
    retry::{Limit, Retry},
    single::Single,
    status_code::{StatusCode, exit_code},
    transaction::Transaction,
};

use crate::{Store, process::Settings};

/// The handler that starts the workers; what comes after it is in worker scope.
pub(crate) const CONCURRENCY: &str = "concurrency";

/// The handler that finds the actions; what comes before it is the same for all of them.
pub(crate) const DISPATCH: &str = "dispatch";

/// The business code, which stands at the end of every queue.
#[must_use]
pub fn action() -> About {
    About::new("action", "the business code", "", "").only(Scope::Worker).after(
        Scope::Worker,
        "transaction",
        "nothing would ever be completed",
    )
}

/// The minimal handler queue: the fourteen handlers of docs/contract.md, in order.
pub(crate) fn minimal<S: Store>(retry: Retry, dispatch: Dispatch<S>, settings: &Settings) -> HandlerQueue<S> {
    HandlerQueue::empty()
        .then(StatusCode)
        .then(ContextClear)
        .then(GlobalError)
        .then(SetContext::default())
        .then(retry)
        .then(Connection)
        .then(Transaction)
        .then(dispatch)
        .then(Concurrency::new(settings.grace))
        .then(Connection)
        .then(Loop)
        .then(ProcessStop::every(settings.check_every))
        .then(Read)
        .then(Transaction)
}
