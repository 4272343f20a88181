//! Stands in for `serve` in a binary without the feature `console`.

use super::With;
use crate::{
    args::Serve,
    config::Config,
    failure::Failure,
    features,
    open::{Backend, OnStore},
};

impl OnStore for With<Serve> {
    async fn run<S: Backend>(self, _: S, _: &Config) -> Result<u8, Failure> {
        Err(features::no_console())
    }
}
