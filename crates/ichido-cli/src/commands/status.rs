//! `ichido status`: queues, processes and request ids.

use crate::{
    args::Json,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
    output,
};

impl OnStore for Json {
    async fn run<S: Backend>(self, store: S, _: &Config) -> Result<u8, Failure> {
        let overview = store.overview().await.map_err(|error| Failure::of::<S>(&error))?;
        if self.json {
            output::json(&overview)?;
            return Ok(0);
        }
        let queues = overview.queues.iter().map(|queue| {
            let counts = [queue.ready, queue.claimed, queue.waiting, queue.failed].map(|count| count.to_string());
            let [ready, claimed, waiting, failed] = counts;
            [queue.queue.clone(), ready, claimed, waiting, failed]
        });
        output::table(["QUEUE", "READY", "CLAIMED", "WAITING", "FAILED"], &queues.collect::<Vec<_>>())?;
        output::print("")?;
        let processes = overview.processes.iter().map(|process| {
            let alive = if process.alive { "alive" } else { "dead" }.to_owned();
            let age = format!("{}s", process.age_seconds);
            [process.id.clone(), process.request_id.clone(), process.host.clone(), process.pid.to_string(), age, alive]
        });
        output::table(["PROCESS", "REQUEST ID", "HOST", "PID", "AGE", "STATE"], &processes.collect::<Vec<_>>())?;
        output::print("")?;
        let requests = overview.requests.iter().map(|request| {
            let state = match (request.flags.stopped, request.flags.paused) {
                (true, true) => "stopped, paused",
                (true, false) => "stopped",
                (false, true) => "paused",
                (false, false) => "",
            };
            [request.request_id.clone(), request.processes.to_string(), state.to_owned()]
        });
        output::table(["REQUEST ID", "LIVE", "FLAGS"], &requests.collect::<Vec<_>>())?;
        Ok(0)
    }
}
