//! HTTP without encryption, for a build without the features `tls-…`; `features` refuses a URL that asks for it before it comes to that.

use hyper_util::client::legacy::connect::HttpConnector;

pub(crate) type Connector = HttpConnector;

#[allow(clippy::unnecessary_wraps, reason = "as its sibling `tls`")]
pub(crate) fn connector(plain: HttpConnector) -> Result<Connector, String> {
    Ok(plain)
}
