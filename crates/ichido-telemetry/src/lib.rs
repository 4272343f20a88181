//! Traces of ichido over OTLP (HTTP, protobuf): sends, publications, claims and runs of messages as spans, in one trace across
//! processes. `[telemetry] otlp` of the command line uses it; a program of one's own puts the layer beside its log:
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//!
//! # fn main() -> Result<(), ichido_telemetry::Error> {
//! let telemetry = ichido_telemetry::Telemetry::start("http://127.0.0.1:4318", "shop")?;
//! tracing_subscriber::registry().with(telemetry.layer()).init();
//! // … the program; its own spans of the level info and above are in the trace too. At its end, what is not sent yet:
//! telemetry.end();
//! # Ok(()) }
//! ```
//!
//! Only spans leave the program, never log lines: no payload and no error text is in them. A program that has a layer of
//! `tracing-opentelemetry` already needs only [`propagate`].

#![forbid(unsafe_code)]

mod exporter;
mod propagation;
#[cfg(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc"))]
mod tls;
#[cfg(not(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc")))]
#[path = "no_tls.rs"]
mod tls;

use std::{fmt, time::Duration};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use self::exporter::{Exporter, Http};
pub use self::propagation::propagate;

/// How long one request to the collector may take, and the last of them at the end.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why there can be no traces.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Sends spans to a collector until it ends.
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
}

impl Telemetry {
    /// Sends spans from now on to the collector at this address, as this service, and lets sends and messages carry their trace.
    /// `https://` needs a feature `tls-…`, and a certificate that the system trusts, or `SSL_CERT_FILE`.
    ///
    /// # Errors
    /// The address is not one of HTTP, or no thread can be started.
    pub fn start(otlp: &str, service: &str) -> Result<Self, Error> {
        let endpoint = endpoint(otlp)?;
        let http = Http::new().map_err(|error| Error(format!("cannot send traces: {error}")))?;
        let exporter =
            SpanExporter::builder().with_http().with_http_client(http).with_endpoint(endpoint).with_timeout(TIMEOUT);
        let exporter = exporter.build().map_err(|error| Error(format!("cannot send traces to `{otlp}`: {error}")))?;
        let resource = Resource::builder().with_service_name(service.to_owned()).build();
        let provider =
            SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(Exporter::new(exporter)).build();
        propagate();
        Ok(Telemetry { provider })
    }

    /// The layer that makes spans of what happens.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer("ichido"));
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false);
        layer.with_target(false).with_filter(filter_fn(is_traced))
    }

    /// Sends what is not sent yet, for a few seconds at most, and ends.
    pub fn end(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(TIMEOUT) {
            tracing::debug!(%error, "not all spans were sent");
        }
    }
}

/// Spans alone: log lines have payloads. Of ichido those that are made for traces, of the rest of the program those that are worth it.
fn is_traced(about: &Metadata<'_>) -> bool {
    let ours = about.target().starts_with("ichido");
    let libraries = ["sqlx", "hyper", "h2", "lapin", "opentelemetry"];
    let foreign = libraries.iter().any(|library| about.target().starts_with(library));
    let traced = if ours { ichido::trace::is_traced(about) } else { !foreign && *about.level() <= Level::INFO };
    about.is_span() && traced
}

/// The collector's place for spans.
fn endpoint(otlp: &str) -> Result<String, Error> {
    if otlp.contains('@') {
        let text =
            "a collector's address must have no user and no password in it; put them into OTEL_EXPORTER_OTLP_HEADERS";
        return Err(Error(text.into()));
    }
    let (scheme, rest) = otlp.split_once("://").unwrap_or_default();
    if !matches!(scheme, "http" | "https") || rest.is_empty() || rest.starts_with('/') {
        let text = format!("`{otlp}` is not the address of a collector: it is like \"http://127.0.0.1:4318\"");
        return Err(Error(text));
    }
    if scheme == "https" && !tls::BUILT {
        let text = format!(
            "`{otlp}` asks for TLS, which this build does not have: build it with the feature `tls-rustls-ring` or `tls-rustls-aws-lc`"
        );
        return Err(Error(text));
    }
    let bare = rest.trim_end_matches('/');
    Ok(if bare.contains('/') { otlp.to_owned() } else { format!("{scheme}://{bare}/v1/traces") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_to_their_place_unless_another_one_is_named() {
        for (otlp, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector/", "http://collector/v1/traces"),
            ("http://collector/tempo/traces", "http://collector/tempo/traces"),
        ] {
            assert_eq!(endpoint(otlp).unwrap(), expected);
        }
        match endpoint("https://collector/") {
            Ok(encrypted) => assert_eq!((encrypted.as_str(), tls::BUILT), ("https://collector/v1/traces", true)),
            Err(refused) => assert!(!tls::BUILT && refused.to_string().contains("tls-rustls-ring"), "{refused}"),
        }
        for refused in ["ftp://collector", "collector:4318", "http://", "https:///v1", ""] {
            assert!(endpoint(refused).unwrap_err().to_string().contains("http://127.0.0.1:4318"), "{refused}");
        }
        let secret = endpoint("http://me:hunter2@collector").unwrap_err().to_string();
        assert!(secret.contains("OTEL_EXPORTER_OTLP_HEADERS") && !secret.contains("hunter2"), "{secret}");
    }
}
