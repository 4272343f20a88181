//! Stands in for `tls` where it was not built: only `http://` can be reached.

use aws_sdk_sqs::config::SharedHttpClient;
use aws_smithy_http_client::Builder;

/// What makes connections.
pub(crate) fn http_client() -> SharedHttpClient {
    Builder::new().build_http()
}
