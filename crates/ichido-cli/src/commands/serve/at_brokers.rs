//! What the console asks of the brokers of the configuration: what `ichido send`, `doctor` and `failed discard` ask of them, by the same code.

use axum::http::StatusCode;
use ichido::{BoxFuture, MessageId, by_hand::Examination, store::By};
use ichido_console::{Problem, desk};

use crate::{
    brokers::Brokers,
    commands::doctor::{self, Report},
    config::Config,
    failure::{Failure, UNREACHABLE, USAGE},
    open::Backend,
};

/// The brokers of the configuration, and the store that guards their queues.
pub(super) struct AtBrokers<S> {
    store: S,
    config: Config,
}

impl<S: Backend> AtBrokers<S> {
    pub(super) fn new(store: S, config: Config) -> Self {
        AtBrokers { store, config }
    }

    async fn publish_these(&self, ids: &[MessageId]) -> Result<Option<String>, Failure> {
        let brokers = Brokers::of(&self.config)?.only(|name| ids.iter().any(|id| *id.queue == *name));
        if brokers.is_empty() {
            return Ok(None);
        }
        let is_kept = |id: &&MessageId| brokers.iter().any(|kept| *kept.name() == *id.queue);
        let ids: Vec<_> = ids.iter().filter(is_kept).cloned().collect();
        Ok(brokers.publishing(&self.store, &self.config).publish(&ids).await.map(|left| left.why))
    }
}

impl<S: Backend> desk::Brokers for AtBrokers<S> {
    fn refuse<'a>(&'a self, queues: &'a [String]) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            let names: Vec<&str> = queues.iter().map(String::as_str).collect();
            let brokers = Brokers::of(&self.config).map_err(|failure| problem(&failure))?;
            brokers.refuse_fan_out(&names).await.map_err(|failure| problem(&failure))
        })
    }

    fn publish<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { self.publish_these(ids).await.unwrap_or_else(|failure| Some(failure.text)) })
    }

    fn examine(&self, by: By, fix: bool, found: Examination) -> BoxFuture<'_, Result<Examination, Problem>> {
        Box::pin(async move {
            let mut report = Report::with(|_| Ok(()), found);
            let examined = doctor::examine_brokers(&self.store.by(by), &self.config, fix, &mut report).await;
            examined.map_err(|failure| problem(&failure))?;
            Ok(report.found)
        })
    }

    fn forget<'a>(&'a self, discarded: &'a [MessageId]) -> BoxFuture<'a, Option<String>> {
        Box::pin(doctor::forget(&self.store, &self.config, discarded))
    }
}

fn problem(failure: &Failure) -> Problem {
    match failure.code {
        UNREACHABLE => Problem::later(StatusCode::SERVICE_UNAVAILABLE, 5, &failure.text),
        USAGE => Problem::refused(&failure.text),
        _ => Problem::new(StatusCode::CONFLICT, &failure.text),
    }
}
