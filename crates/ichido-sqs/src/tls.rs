//! Encrypted connections to the service by rustls with ring or aws-lc (aws-lc if both are built in). `no_tls` stands in where neither is.

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
#[cfg(feature = "tls-rustls-aws-lc")]
use rustls::crypto::aws_lc_rs::default_provider;
#[cfg(not(feature = "tls-rustls-aws-lc"))]
use rustls::crypto::ring::default_provider;

/// Can this build encrypt?
pub(crate) const BUILT: bool = true;

pub(crate) type Connector = HttpsConnector<HttpConnector>;

/// Trusts the certificates that the system trusts (or those in `SSL_CERT_FILE`); a system that has none trusts Mozilla's.
pub(crate) fn connector(mut http: HttpConnector) -> Connector {
    let system = HttpsConnectorBuilder::new().with_provider_and_native_roots(default_provider());
    let trusting = system.unwrap_or_else(|_| {
        let builder = HttpsConnectorBuilder::new().with_provider_and_webpki_roots(default_provider());
        builder.expect("rustls' own providers know its protocol versions")
    });
    http.enforce_http(false);
    trusting.https_or_http().enable_http1().wrap_connector(http)
}
