//! `ichido health`: does a live process serve a request id? For probes of service managers.

use super::flags::{find, served};
use crate::{
    args::Health,
    config::Config,
    failure::{FOUND, Failure},
    open::{Backend, OnStore},
    output,
};

impl OnStore for Health {
    async fn run<S: Backend>(self, store: S, _: &Config) -> Result<u8, Failure> {
        let state = find(&store, &self.request_id).await?;
        if self.json {
            output::json(&state)?;
        } else {
            let flags = [("stopped", state.flags.stopped), ("paused", state.flags.paused)];
            let flags: String = flags.iter().filter(|(_, on)| *on).map(|(name, _)| format!("; {name}")).collect();
            output::print(&format!("{}{flags}", served(state.processes, &state.request_id)))?;
        }
        Ok(if state.processes > 0 { 0 } else { FOUND })
    }
}
