//! `ichido messages`: messages in whatever state they are, one file per verb.

mod cancel;

use crate::{
    args::Messages,
    config::Config,
    failure::Failure,
    open::{Backend, OnStore},
};

impl OnStore for Messages {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        match self {
            Messages::Cancel(cancel) => cancel::run(&store, config, cancel).await,
        }
    }
}
