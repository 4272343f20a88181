//! Encrypted connections for HTTP, those that are made and those that are accepted, by rustls with ring or aws-lc (ring if both are built in). `no_tls` stands in where neither is.

use std::{path::Path, sync::Arc};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
#[cfg(all(feature = "tls-rustls-aws-lc", not(feature = "tls-rustls-ring")))]
use rustls::crypto::aws_lc_rs::default_provider;
#[cfg(feature = "tls-rustls-ring")]
use rustls::crypto::ring::default_provider;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

pub(crate) use tokio_rustls::TlsAcceptor as Acceptor;

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

/// Accepts connections with this certificate, from files in PEM.
///
/// # Errors
/// Why these files cannot be used.
#[allow(dead_code, reason = "nobody asks without the feature `console`")]
pub(crate) fn acceptor(cert: &Path, key: &Path) -> Result<Acceptor, String> {
    let why = |file: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| why(cert, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| why(key, &error))?;
    let versions =
        ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| format!("cannot set up TLS: {error}"))?;
    let config = versions.with_no_client_auth().with_single_cert(chain, secret).map_err(|error| why(cert, &error))?;
    Ok(Acceptor::from(Arc::new(config)))
}
