//! HTTP without encryption, for a build without the features `tls-…`; a URL that asks for it is refused before it comes to that.

use hyper_util::client::legacy::connect::HttpConnector;
use lapin::tcp::OwnedTLSConfig;

/// Can this build encrypt?
pub(crate) const BUILT: bool = false;

pub(crate) type Connector = HttpConnector;

#[allow(clippy::unnecessary_wraps, reason = "as its sibling `tls`")]
pub(crate) fn connector(plain: HttpConnector, _: &OwnedTLSConfig) -> Result<Connector, String> {
    Ok(plain)
}

/// Certificates are of no use here.
pub(crate) fn check(_: &OwnedTLSConfig) -> Result<(), String> {
    Err("this build has no TLS: build it with the feature `tls-rustls-ring` or `tls-rustls-aws-lc`".to_owned())
}
