//! Stands in for `demo` in a binary without the feature `sqlite`: the story is told on a SQLite database.
#![allow(clippy::unused_async)]

use crate::{args::Demo, failure::Failure, features};

pub(crate) async fn run(_: Demo) -> Result<u8, Failure> {
    Err(features::no_demo())
}
