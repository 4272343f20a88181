//! HTTP without encryption, for a build without the features `tls-…`; `features` refuses a URL that asks for it before it comes to that.

use std::path::Path;

use hyper_util::client::legacy::connect::HttpConnector;
use tokio::net::TcpStream;

pub(crate) type Connector = HttpConnector;

#[allow(clippy::unnecessary_wraps, reason = "as its sibling `tls`")]
pub(crate) fn connector(plain: HttpConnector) -> Result<Connector, String> {
    Ok(plain)
}

/// Nothing can be encrypted: there is none.
#[derive(Clone)]
pub(crate) enum Acceptor {}

impl Acceptor {
    #[allow(clippy::unused_async, dead_code, reason = "as its sibling `tls`")]
    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<TcpStream> {
        let _ = stream;
        match *self {}
    }
}

#[allow(dead_code, reason = "nobody asks without the feature `console`")]
pub(crate) fn acceptor(_: &Path, _: &Path) -> Result<Acceptor, String> {
    Err("this ichido was built without TLS; build it with the feature `tls-rustls-ring`".to_owned())
}
