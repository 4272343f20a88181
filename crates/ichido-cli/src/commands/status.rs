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
            let oldest = queue.oldest_seconds.map_or("-".into(), |seconds| format!("{}s", seconds.max(0)));
            [queue.queue.clone(), ready, oldest, claimed, waiting, failed]
        });
        let heads = ["QUEUE", "READY", "OLDEST", "CLAIMED", "WAITING", "FAILED"];
        output::table(heads, &queues.collect::<Vec<_>>())?;
        for queue in overview.queues.iter().filter(|queue| queue.held_groups > 0) {
            let (name, held) = (&queue.queue, queue.held_groups);
            output::print(&format!(
                "{held} groups of `{name}` wait until their failed message is retried or discarded: ichido failed list --queue {name}"
            ))?;
        }
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
