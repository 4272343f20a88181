//! No traces, for a build without the feature `telemetry`; `features` refuses a configuration that asks for them.

use tracing_subscriber::{Layer, Registry};

use crate::{config::Telemetry, failure::Failure};

#[allow(clippy::unnecessary_wraps, reason = "as its sibling `telemetry`")]
pub(crate) fn layer(_: &Telemetry) -> Result<Option<Box<dyn Layer<Registry> + Send + Sync>>, Failure> {
    Ok(None)
}

pub(crate) fn end() {}
