//! Stands in for `brokers` in a binary without the feature `rabbitmq`: no configuration gets here that has a queue at a broker
//! (`features` refuses it), so there are never any. The names are those of `brokers`.
#![allow(clippy::unused_self, clippy::unused_async, clippy::unnecessary_wraps, clippy::needless_pass_by_value)]

use ichido::{Process, Relay, by_hand::Publishing};

use crate::{config::Config, failure::Failure, open::Backend};

/// The brokers of a configuration: none.
#[derive(Clone)]
pub(crate) struct Brokers;

/// A queue that a broker keeps: there is no such thing.
pub(crate) enum Kept {}

impl Brokers {
    pub(crate) fn of(_: &Config) -> Result<Self, Failure> {
        Ok(Brokers)
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kept> {
        std::iter::empty()
    }

    pub(crate) fn only(self, _: impl Fn(&str) -> bool) -> Self {
        self
    }

    pub(crate) fn join<S: Backend>(&self, process: Process<S>) -> Process<S> {
        process
    }

    pub(crate) fn relay<S: Backend>(&self, store: S, config: &Config) -> Relay<S> {
        Relay::new(store).poll(config.process.poll)
    }

    pub(crate) fn publishing<S: Backend>(&self, store: &S, config: &Config) -> Publishing<S> {
        let deadline = config.rabbitmq().map(|(_, queue)| queue.mutex.publish_deadline).max().unwrap_or_default();
        Publishing::new(store.clone(), self.relay(store.clone(), config), deadline)
    }

    pub(crate) async fn declare(&self) -> Result<(), Failure> {
        Ok(())
    }

    pub(crate) async fn refuse_fan_out(&self, _: &[&str]) -> Result<(), Failure> {
        Ok(())
    }

    pub(crate) async fn look(&self, kept: &Kept) -> Result<(String, Vec<String>), Failure> {
        match *kept {}
    }
}

impl Kept {
    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn addresses(&self) -> String {
        match *self {}
    }
}
