//! `/metrics` of `ichido run --health`, with the feature `metrics`: what the process has measured, as Prometheus scrapes it. `probes`
//! answers with it.

use ichido::process::Probe;

/// The type of the text, and the text.
#[expect(clippy::unnecessary_wraps, reason = "as its sibling `no_metrics`")]
pub(crate) fn scraped(probe: &Probe) -> Result<(&'static str, String), &'static str> {
    Ok((ichido_metrics::CONTENT_TYPE, ichido_metrics::text(probe)))
}
