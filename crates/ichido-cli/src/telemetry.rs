//! Traces over OTLP, with the feature `telemetry` and `[telemetry] otlp`: the layer beside the log, and what is sent at the end. `logging`
//! asks for the layer, `lib` ends it.

use std::sync::OnceLock;

use tracing_subscriber::{Layer, Registry};

use crate::{config::Telemetry, failure::Failure};

static TELEMETRY: OnceLock<ichido_telemetry::Telemetry> = OnceLock::new();

/// The layer that makes spans; none if there is no collector.
pub(crate) fn layer(telemetry: &Telemetry) -> Result<Option<Box<dyn Layer<Registry> + Send + Sync>>, Failure> {
    let Some(otlp) = &telemetry.otlp else { return Ok(None) };
    let started = ichido_telemetry::Telemetry::start(otlp, &telemetry.service);
    let started = started.map_err(|error| Failure::usage(format!("telemetry.otlp: {error}")))?;
    let layer = started.layer().boxed();
    Ok(TELEMETRY.set(started).is_ok().then_some(layer))
}

/// Sends what is not sent yet.
pub(crate) fn end() {
    if let Some(telemetry) = TELEMETRY.get() {
        telemetry.end();
    }
}
