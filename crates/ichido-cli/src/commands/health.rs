//! `ichido health`: does a live process serve a request id? For probes of service managers.

use ichido::by_hand::request_state;

use super::flags::served;
use crate::{
    args::Health,
    config::Config,
    failure::{FOUND, Failure},
    open::{Backend, OnStore},
    output,
};

impl OnStore for Health {
    async fn run<S: Backend>(self, store: S, _: &Config) -> Result<u8, Failure> {
        let state = request_state(&store, &self.request_id).await.map_err(|error| Failure::of::<S>(&error))?;
        if self.json {
            output::json(&state)?;
        } else {
            let mut words = vec![served(state.processes, &state.request_id)];
            words.extend(state.flags.stopped.then(|| "stopped".to_owned()));
            words.extend(state.flags.paused.then(|| "paused".to_owned()));
            output::print(&words.join("; "))?;
        }
        Ok(if state.processes > 0 { 0 } else { FOUND })
    }
}
