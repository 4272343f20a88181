//! AMQP and HTTP without encryption, for a build without the features `tls-…`; a URL that asks for it is refused before it comes to that.

use std::io;

use hyper_util::client::legacy::connect::HttpConnector;
use lapin::tcp::OwnedTLSConfig;
use tokio::net::TcpStream;

/// Can this build encrypt?
pub(crate) const BUILT: bool = false;

pub(crate) type Connector = HttpConnector;

#[allow(clippy::unnecessary_wraps, reason = "as its sibling `tls`")]
pub(crate) fn connector(plain: HttpConnector, _: &OwnedTLSConfig) -> Result<Connector, String> {
    Ok(plain)
}

#[allow(clippy::unused_async, reason = "as its sibling `tls`")]
pub(crate) async fn encrypt(_: TcpStream, _: &str, _: &OwnedTLSConfig) -> io::Result<TcpStream> {
    Err(io::Error::other(NONE))
}

/// Certificates are of no use here.
pub(crate) fn check(_: &OwnedTLSConfig) -> Result<(), String> {
    Err(NONE.to_owned())
}

const NONE: &str = "this build has no TLS: build it with the feature `tls-rustls-ring` or `tls-rustls-aws-lc`";
