//! HTTP without encryption, for a build without the features `tls-…`; a collector's address that asks for it is refused.

use hyper_util::client::legacy::connect::HttpConnector;

pub(crate) const BUILT: bool = false;

pub(crate) type Connector = HttpConnector;

#[allow(clippy::unnecessary_wraps, reason = "as its sibling `tls`")]
pub(crate) fn connector() -> std::io::Result<Connector> {
    Ok(HttpConnector::new())
}
