//! `ichido stop`, `unstop`, `pause` and `resume`: flags of a request id, in the database. Every process that serves the id
//! follows them within its check interval, wherever it runs, and so does one that starts later.

use ichido::{by_hand, process::Flag};

use super::by;
use crate::{
    args::RequestId,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output,
};

/// A flag, set or taken away.
pub(super) struct SetFlag {
    request_id: String,
    flag: Flag,
    on: bool,
    reason: Option<String>,
}

impl SetFlag {
    pub(super) fn new(request: RequestId, flag: Flag, on: bool) -> Self {
        SetFlag { request_id: request.request_id, flag, on, reason: request.why.reason }
    }

    /// What is so now, and what follows for those who serve the id.
    fn told(&self, changed: bool, live: usize) -> String {
        let id = &self.request_id;
        let already = if changed { "" } else { "already " };
        let who = served(live, "it");
        match (self.flag, self.on) {
            (Flag::Stop, true) => format!("{id} is {already}stopped until `ichido unstop {id}`; {who}"),
            (Flag::Pause, true) => format!("{id} is {already}paused until `ichido resume {id}`; {who}"),
            (Flag::Stop, false) if changed => format!("{id} may start again; {who}"),
            (Flag::Stop, false) => format!("{id} is not stopped; {who}"),
            (Flag::Pause, false) if changed => format!("{id} is resumed; {who}"),
            (Flag::Pause, false) => format!("{id} is not paused; {who}"),
        }
    }
}

impl OnStore for SetFlag {
    async fn run<S: Backend>(self, store: S, _: &Config) -> Result<u8, Failure> {
        let (of, store) = (|error| Failure::of::<S>(&error), by(&store, self.reason.clone()));
        let (changed, state) = by_hand::set_flag(&store, &self.request_id, self.flag, self.on).await.map_err(of)?;
        output::talk(&self.told(changed, state.processes));
        Ok(0)
    }
}

/// How many serve it, in words.
pub(super) fn served(live: usize, what: &str) -> String {
    match live {
        0 => format!("no live process serves {what}"),
        1 => format!("one live process serves {what}"),
        more => format!("{more} live processes serve {what}"),
    }
}
