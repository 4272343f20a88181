//! HTTP without encryption, for a build without the features `tls-…`; an address that asks for it is refused.

use hyper_util::client::legacy::connect::HttpConnector;

pub(crate) const BUILT: bool = false;

pub(crate) type Connector = HttpConnector;

pub(crate) fn connector(http: HttpConnector) -> Connector {
    http
}
