//! Encrypted connections for HTTP, by rustls with ring or aws-lc (ring if both are built in). `no_tls` stands in where neither is.

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
#[cfg(all(feature = "tls-rustls-aws-lc", not(feature = "tls-rustls-ring")))]
use rustls::crypto::aws_lc_rs::default_provider;
#[cfg(feature = "tls-rustls-ring")]
use rustls::crypto::ring::default_provider;

pub(crate) type Connector = HttpsConnector<HttpConnector>;

/// The certificates that the system trusts (or those in `SSL_CERT_FILE`); a system that has none trusts Mozilla's.
///
/// # Errors
/// Why TLS cannot be used.
pub(crate) fn connector(mut plain: HttpConnector) -> Result<Connector, String> {
    let system = HttpsConnectorBuilder::new().with_provider_and_native_roots(default_provider());
    let trusting = system.or_else(|_| {
        HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(default_provider())
            .map_err(|error| format!("cannot set up TLS: {error}"))
    })?;
    plain.enforce_http(false);
    Ok(trusting.https_or_http().enable_http1().wrap_connector(plain))
}
