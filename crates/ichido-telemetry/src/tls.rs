//! Encrypted connections to a collector, by rustls with ring or aws-lc (ring if both are built in). `no_tls` stands in where neither is.

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
#[cfg(all(feature = "tls-rustls-aws-lc", not(feature = "tls-rustls-ring")))]
use rustls::crypto::aws_lc_rs::default_provider;
#[cfg(feature = "tls-rustls-ring")]
use rustls::crypto::ring::default_provider;

/// Can this build encrypt?
pub(crate) const BUILT: bool = true;

pub(crate) type Connector = HttpsConnector<HttpConnector>;

/// Trusts the certificates that the system trusts (or those in `SSL_CERT_FILE`); a system that has none trusts Mozilla's.
pub(crate) fn connector() -> std::io::Result<Connector> {
    let builder = HttpsConnectorBuilder::new;
    let trusting = match builder().with_provider_and_native_roots(default_provider()) {
        Ok(trusting) => trusting,
        Err(_) => builder().with_provider_and_webpki_roots(default_provider()).map_err(std::io::Error::other)?,
    };
    Ok(trusting.https_or_http().enable_http1().build())
}
