//! `ichido relay`: publishes what was sent to queues of brokers, and runs no action. For hosts that only send, and for the time in
//! which no process runs.

use ichido::CancellationToken;

use super::run::stop_on_signals;
use crate::{
    brokers::Brokers,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
};

/// The command.
pub(crate) struct Relay;

impl OnStore for Relay {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let brokers = Brokers::of(config)?;
        if brokers.is_empty() {
            let way_out = "add `rabbitmq = { url = …, queue = … }` or `sqs = { queue = … }` to one";
            return Err(Failure::usage(format!(
                "nothing to relay: no queue in the configuration uses a broker; {way_out}"
            )));
        }
        let stop = CancellationToken::new();
        stop_on_signals(stop.clone(), "finishing what is being published")?;
        store.prepare().await.map_err(|error| Failure::of::<S>(&error))?;
        for warning in crate::warnings::about_brokers(config) {
            tracing::warn!("{warning}");
        }
        brokers.declare().await?;
        for kept in brokers.iter() {
            tracing::info!("relaying `{}` to {}", kept.name(), kept.place().addresses());
        }
        brokers.relay(store, config).run(stop).await;
        Ok(0)
    }
}
