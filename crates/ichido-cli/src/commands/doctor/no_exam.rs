//! Stands in for `exam` in a binary without the feature `rabbitmq`, where there is no queue at a broker to examine.
#![allow(clippy::unused_self, clippy::unused_async)]

use ichido::MessageId;

use super::report::Report;
use crate::{brokers::Kept, commands::publishing::Publishing, config::Config, failure::Failure, open::Backend};

/// There are no dead letters.
pub(in crate::commands) async fn forget<S>(_: &S, _: &Config, _: &[MessageId]) {}

pub(super) enum Exam {}

impl Exam {
    pub(super) async fn of<S: Backend>(
        _: &S,
        kept: &Kept,
        _: Option<Publishing<S>>,
        _: &mut Report,
    ) -> Result<Self, Failure> {
        match *kept {}
    }

    pub(super) async fn run(self) -> Result<(), Failure> {
        match self {}
    }
}
