//! Prometheus metrics of an ichido process: what its [`Probe`] has measured, as the text that Prometheus scrapes. `ichido run --health`
//! answers `/metrics` with it; a program that has a [`Process`](ichido::Process) inside answers with it where it likes:
//!
//! ```
//! # fn metrics(probe: &ichido::process::Probe) -> (&'static str, String) {
//! // in the handler of GET /metrics, with the probe of `process.probe()`:
//! (ichido_metrics::CONTENT_TYPE, ichido_metrics::text(probe))
//! # }
//! ```
//!
//! It asks no database. The names are in `docs/observing.md`.

#![forbid(unsafe_code)]

mod encode;

use ichido::process::Probe;
use prometheus_client::{encoding::text::encode, registry::Registry};

use self::encode::Process;

/// The type of the text: `OpenMetrics`, which Prometheus reads.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the process has measured so far. Without a process that runs, there is nothing to tell but the end of the text.
#[must_use]
pub fn text(probe: &Probe) -> String {
    let mut registry = Registry::with_prefix("ichido");
    if let Some(measures) = probe.measures() {
        registry.register_collector(Box::new(Process(measures)));
    }
    let mut text = String::new();
    // A string takes whatever is written to it.
    let _ = encode(&mut text, &registry);
    text
}
