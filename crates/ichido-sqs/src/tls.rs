//! How connections to the service are encrypted: by rustls, with the same cryptography as the rest of the program.

use aws_sdk_sqs::config::SharedHttpClient;
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};

#[cfg(feature = "tls-rustls-aws-lc")]
const MODE: CryptoMode = CryptoMode::AwsLc;
#[cfg(not(feature = "tls-rustls-aws-lc"))]
const MODE: CryptoMode = CryptoMode::Ring;

/// What makes connections, encrypted or not.
pub(crate) fn http_client() -> SharedHttpClient {
    Builder::new().tls_provider(Provider::Rustls(MODE)).build_https()
}
