//! What can go wrong between ichido and SQS. Whoever gets an [`Error`] asks it whether trying again helps. No text holds a key: the SDK's
//! errors know nothing of credentials.

use std::fmt;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};

/// `std::result::Result` with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done at the service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Something must be changed by hand before this can work; the text says what.
    Setup(String),
    /// There is no such queue.
    Missing(String),
    /// Somebody else is at it; later it works.
    Busy(String),
    /// The service does not answer.
    Unreachable {
        /// Where it should be.
        address: String,
        /// What was said last.
        why: String,
    },
    /// The service refused something.
    Refused {
        /// What was being done.
        doing: String,
        /// The service's name for it.
        code: String,
        /// What was said.
        why: String,
    },
}

/// What the service says no to, and would again: who we are, what we may do, and what we ask for.
const FINAL: [&str; 12] = [
    "AccessDenied",
    "AuthFailure",
    "InvalidAddress",
    "InvalidAttribute",
    "InvalidClientTokenId",
    "InvalidParameterValue",
    "InvalidSecurity",
    "KMS.AccessDenied",
    "QueueNameExists",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
    "UnsupportedOperation",
];

impl Error {
    /// Will trying again later help, without anybody changing anything?
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Setup(_) | Error::Missing(_) => false,
            Error::Busy(_) | Error::Unreachable { .. } => true,
            Error::Refused { code, .. } => !FINAL.iter().any(|known| code.contains(known)),
        }
    }

    /// What the SDK says about a call.
    pub(crate) fn of<E>(doing: &str, address: &str, error: &SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let Some(said) = error.as_service_error() else {
            return Error::Unreachable { address: address.to_owned(), why: in_full(error) };
        };
        let code = said.code().unwrap_or("an unnamed error").to_owned();
        let why = said.message().map_or_else(|| in_full(error), str::to_owned);
        if is_missing(&code) {
            return Error::Missing(format!("{doing}: the queue does not exist"));
        }
        Error::Refused { doing: doing.to_owned(), code, why }
    }

    pub(crate) fn is_code(&self, part: &str) -> bool {
        matches!(self, Error::Refused { code, .. } if code.contains(part))
    }
}

/// The names that there are for it, in the newer protocol and the older one.
fn is_missing(code: &str) -> bool {
    code.contains("NonExistentQueue") || code.contains("QueueDoesNotExist")
}

/// With its causes: the SDK's own text is only what kind of error it is.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = next.source();
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setup(text) | Error::Missing(text) | Error::Busy(text) => f.write_str(text),
            Error::Unreachable { address, why } => write!(f, "SQS at {address} does not answer: {why}"),
            Error::Refused { doing, code, why } => write!(f, "{doing}: {why} ({code})"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_throttled_is_tried_again_and_what_is_forbidden_is_not() {
        let refused = |code: &str| Error::Refused { doing: String::new(), code: code.to_owned(), why: String::new() };
        for code in ["RequestThrottled", "ServiceUnavailable", "AWS.SimpleQueueService.QueueDeletedRecently"] {
            assert!(refused(code).is_transient(), "{code}");
        }
        for code in ["AccessDenied", "AccessDeniedException", "UnrecognizedClientException"] {
            assert!(!refused(code).is_transient(), "{code}");
        }
    }
}
