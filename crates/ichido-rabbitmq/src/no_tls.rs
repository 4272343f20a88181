//! HTTP without encryption, for a build without the features `tls-…`; a URL that asks for it is refused before it comes to that.

use hyper_util::client::legacy::connect::HttpConnector;

/// Can this build encrypt?
pub(crate) const BUILT: bool = false;

pub(crate) type Connector = HttpConnector;

#[allow(clippy::unnecessary_wraps, reason = "as its sibling `tls`")]
pub(crate) fn connector(plain: HttpConnector) -> Result<Connector, String> {
    Ok(plain)
}
