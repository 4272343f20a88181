//! Stands in for `exam` in a binary without the feature `rabbitmq`, where there is no queue at a broker to examine.
#![allow(clippy::unused_self, clippy::unused_async)]

use ichido::{MessageId, by_hand::Publishing};

use super::report::Report;
use crate::{brokers::Kept, config::Config, failure::Failure, open::Backend};

/// There are no dead letters.
pub(crate) async fn forget<S>(_: &S, _: &Config, _: &[MessageId]) -> Option<String> {
    None
}

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
