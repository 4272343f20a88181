//! Stands in for `exam` in a binary without the feature `rabbitmq`, where there is no queue at a broker to examine.
#![allow(clippy::unused_self, clippy::unused_async)]

use super::report::Report;
use crate::{brokers::Kept, failure::Failure};

pub(super) enum Exam {}

impl Exam {
    pub(super) async fn of<S>(_: &S, kept: &Kept, _: bool, _: &mut Report) -> Result<Self, Failure> {
        match *kept {}
    }

    pub(super) async fn run(self) -> Result<bool, Failure> {
        match self {}
    }
}
