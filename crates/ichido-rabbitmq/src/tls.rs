//! Encrypted connections by rustls with ring or aws-lc (ring if both are built in), for AMQP and for HTTP, and whether the certificates that
//! we were given can be used. The driver could encrypt AMQP itself, with some thirty crates for certificates in PKCS #12. `no_tls` stands in
//! where neither is built in.

use std::{io, sync::Arc};

use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
#[cfg(all(feature = "tls-rustls-aws-lc", not(feature = "tls-rustls-ring")))]
use rustls::crypto::aws_lc_rs::default_provider;
#[cfg(feature = "tls-rustls-ring")]
use rustls::crypto::ring::default_provider;
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier,
    client::WantsClientCert,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Can this build encrypt?
pub(crate) const BUILT: bool = true;

pub(crate) type Connector = HttpsConnector<HttpConnector>;

/// Connects with these certificates.
///
/// # Errors
/// Why TLS cannot be used.
pub(crate) fn connector(mut plain: HttpConnector, tls: &OwnedTLSConfig) -> Result<Connector, String> {
    plain.enforce_http(false);
    let builder = HttpsConnectorBuilder::new().with_tls_config(config(tls)?);
    Ok(builder.https_or_http().enable_http1().wrap_connector(plain))
}

/// Encrypts a connection, and verifies that whoever answers is this host.
///
/// # Errors
/// If TLS cannot be used, or the other side is somebody else.
pub(crate) async fn encrypt(tcp: TcpStream, host: &str, tls: &OwnedTLSConfig) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let config = config(tls).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await
}

/// Can these certificates be used?
///
/// # Errors
/// Why not.
pub(crate) fn check(tls: &OwnedTLSConfig) -> Result<(), String> {
    config(tls).map(drop)
}

/// Trusts the authorities that were given. Without any, those that the system trusts (or those in `SSL_CERT_FILE`); a system that has none
/// trusts Mozilla's.
fn config(tls: &OwnedTLSConfig) -> Result<ClientConfig, String> {
    let trusting = match &tls.cert_chain {
        Some(pem) => builder()?.with_root_certificates(roots(pem)?),
        None => match builder()?.with_native_roots() {
            Ok(trusting) => trusting,
            Err(_) => builder()?.with_webpki_roots(),
        },
    };
    identified(trusting, tls.identity.as_ref())
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    let builder =
        ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
    builder.map_err(|error| format!("cannot set up TLS: {error}"))
}

fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem.as_bytes())? {
        roots.add(certificate).map_err(|error| format!("a certificate cannot be trusted: {error}"))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| format!("not PEM: {error}"))?;
    if found.is_empty() { Err("there is no certificate in it; it must be in PEM".to_owned()) } else { Ok(found) }
}

fn identified(
    trusting: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: Option<&OwnedIdentity>,
) -> Result<ClientConfig, String> {
    match identity {
        None => Ok(trusting.with_no_client_auth()),
        Some(OwnedIdentity::PKCS8 { pem, key }) => {
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key cannot be read: {error}"))?;
            let config = trusting.with_client_auth_cert(certificates(pem)?, key);
            config.map_err(|error| format!("the certificate and the key cannot be used together: {error}"))
        }
        Some(OwnedIdentity::PKCS12 { .. }) => Err("certificates must be in PEM".to_owned()),
    }
}
