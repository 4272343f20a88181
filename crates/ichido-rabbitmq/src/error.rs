//! What can go wrong between ichido and the broker. Whoever gets an [`Error`] asks it whether trying again helps. No text
//! holds a password: addresses are told as host and port, and lapin's errors know nothing of a URL.

use std::fmt;

use lapin::ErrorKind;

/// `std::result::Result` with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done at the broker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Something must be changed by hand before this can work; the text says what.
    Setup(String),
    /// There is no such thing at the broker.
    Missing(String),
    /// Somebody else is at it; later it works.
    Busy(String),
    /// No address of the broker answers.
    Unreachable {
        /// Host and port of each.
        addresses: String,
        /// What the last of them said.
        source: lapin::Error,
    },
    /// The broker refused something, or the connection was lost meanwhile.
    Broker {
        /// What was being done.
        doing: String,
        /// What was said.
        source: lapin::Error,
    },
    /// The management API does not answer, or not well.
    Management {
        /// What was being done.
        doing: String,
        /// What was said, and where.
        why: String,
    },
}

impl Error {
    /// Will trying again later help, without anybody changing anything?
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Setup(_) | Error::Missing(_) => false,
            Error::Busy(_) | Error::Unreachable { .. } | Error::Management { .. } => true,
            Error::Broker { source, .. } => !is_refusal(source),
        }
    }

    pub(crate) fn broker(doing: impl Into<String>) -> impl FnOnce(lapin::Error) -> Self {
        let doing = doing.into();
        |source| Error::Broker { doing, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setup(text) | Error::Missing(text) | Error::Busy(text) => f.write_str(text),
            Error::Unreachable { addresses, source } => {
                write!(f, "the broker at {addresses} does not answer: {source}")
            }
            Error::Broker { doing, source } => write!(f, "{doing}: {source}"),
            Error::Management { doing, why } => write!(f, "{doing}: {why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Setup(_) | Error::Missing(_) | Error::Busy(_) | Error::Management { .. } => None,
            Error::Unreachable { source, .. } | Error::Broker { source, .. } => Some(source),
        }
    }
}

/// The broker's reply code, if it is the broker that said no.
pub(crate) fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// Does the broker say no to what was asked, and would again? 311 content too large, 403 access refused, 404 not found,
/// 405 locked, 406 precondition failed, 530 not allowed. Everything else is an outage: 320 is a node that goes down.
pub(crate) fn is_refusal(error: &lapin::Error) -> bool {
    matches!(code(error), Some(311 | 403..=406 | 530))
}
