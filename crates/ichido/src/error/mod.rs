//! What can go wrong. Stores, clients and processes return [`Error`], a [`std::error::Error`]; actions and handlers return
//! [`ActionError`], which any error becomes by `?`. The loop and the transaction handler ask an error questions to decide who pays for
//! it: the message, the process, or nobody. `said` finds what an error inside another one decides, `text` writes the causes.

mod action_error;
mod markers;
mod said;
#[cfg(test)]
mod tests;
mod text;

use std::{borrow::Cow, error::Error as StdError, fmt, time::Duration};

pub use self::{
    action_error::ActionError,
    markers::{Permanent, RetryAfter, Retryable},
};
pub(crate) use self::{markers::Fault, text::chain};

use self::said::{Said, say};
use crate::Store;

/// An error of any kind, with its sources.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// `std::result::Result` with [`Error`]: what stores, clients and processes return. Actions and handlers return [`crate::Result`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store, a client or a process failed, or a pass through the handler queue.
///
/// Its text is about itself, and [`source`](StdError::source) has what is behind it; `{:#}` writes both on one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The action, a handler or the database failed. Ask [`Error::is_fault`] whose failure it is. Text and source are the cause's own.
    Failed(Cause),
    /// The claim is lost: the message was rescued, changed or deleted in the meantime. Nothing was committed.
    LostClaim,
    /// The message was cancelled while it ran. Nothing was committed.
    Cancelled,
    /// The business transaction ended before its completion: an error was swallowed, or the action ended it. Nothing was committed.
    BrokenTransaction(Cow<'static, str>),
    /// The message cannot be decoded as the action's type.
    Undecodable(String),
    /// The request is refused as it is, for example a message over the limit; the text says why.
    Refused(String),
    /// The action panicked.
    Panic(String),
    /// The action took longer than its pool allows.
    TimedOut(Duration),
    /// Something must be changed by hand before this can run; the text says what.
    Setup(String),
    /// The database does not answer; the text names its address, never the password.
    Unreachable {
        /// Host and port, or the file.
        address: String,
        /// The driver's error.
        source: Cause,
    },
    /// Another live process serves a request id that only one may serve.
    Duplicate {
        /// Which one, and what to do.
        reason: String,
        /// Its last heartbeat; none if it is certainly alive.
        heartbeat: Option<String>,
    },
    /// The process must end with this status (see [`crate::handlers::StatusCode`]).
    Ended {
        /// A status or an exit code.
        status: i32,
        /// Why, in one line.
        reason: String,
    },
}

impl Error {
    /// A failure by this cause. An [`Error`] that is inside it decides, as if there were nothing around it.
    pub fn failed(cause: impl Into<Cause>) -> Self {
        match cause.into().downcast::<Error>() {
            Ok(own) => *own,
            Err(cause) => Error::around(cause),
        }
    }

    /// What is said around an error of ours stays in the text where it has one of its own.
    fn around(cause: Cause) -> Self {
        let own = chain(cause.as_ref()).flat_map(said::said_by).find_map(|said| match said {
            Said::Error(own) => Some(*own),
            _ => None,
        });
        match own {
            None => Error::Failed(cause),
            Some(Error::Unreachable { address, .. }) => Error::Unreachable { address, source: cause },
            Some(Error::Setup(_)) => Error::Setup(text::in_full(cause.as_ref())),
            Some(Error::Refused(_)) => Error::Refused(text::in_full(cause.as_ref())),
            Some(own) => own,
        }
    }

    /// Is the database at fault (gone, deadlock, out of space) and not the message? Such a failure spends no attempt.
    #[must_use]
    pub fn is_fault<S: Store>(&self) -> bool {
        match self {
            Error::Failed(cause) => {
                chain(cause.as_ref()).any(S::is_fault)
                    || self.says(|said| matches!(said, Said::Fault).then_some(())).is_some()
            }
            Error::Unreachable { .. } => true,
            _ => false,
        }
    }

    /// Should the process retry? Yes if the database is at fault, or an error in the chain is [`Retryable`].
    #[must_use]
    pub fn is_retryable<S: Store>(&self) -> bool {
        self.says(|said| matches!(said, Said::Retryable).then_some(())).is_some() || self.is_fault::<S>()
    }

    /// Is such an error among the causes?
    pub(crate) fn is_by(&self, is: fn(&(dyn StdError + 'static)) -> bool) -> bool {
        matches!(self, Error::Failed(cause) if chain(cause.as_ref()).any(is))
    }

    /// An error of a statement of ichido's own, some of which are faults there.
    pub(crate) fn of_own_statement(self, is_fault: fn(&(dyn StdError + 'static)) -> bool) -> Self {
        match self {
            Error::Failed(cause) if chain(cause.as_ref()).any(is_fault) => Error::Failed(Fault(cause).into()),
            error => error,
        }
    }

    /// Will trying again later help, without anybody changing anything?
    #[must_use]
    pub fn is_transient<S: Store>(&self) -> bool {
        matches!(self, Error::LostClaim | Error::Cancelled) || self.is_fault::<S>()
    }

    /// How long the message must wait, if the failure says so ([`RetryAfter`]).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.says(|said| match said {
            Said::RetryAfter(after) => Some(after),
            _ => None,
        })
    }

    /// Can this message never succeed as it is, so that retrying is pointless? Some errors say so ([`Permanent`]).
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        matches!(self, Error::BrokenTransaction(_) | Error::Undecodable(_) | Error::Refused(_))
            || self.says(|said| matches!(said, Said::Permanent).then_some(())).is_some()
    }

    /// The error and all that is behind it on one line, for a log: the same as `{:#}`.
    #[must_use]
    pub fn in_full(&self) -> impl fmt::Display {
        text::in_full(self)
    }

    /// What an error in the chain of causes has to say.
    fn says<T>(&self, about: impl Fn(Said) -> Option<T>) -> Option<T> {
        let Error::Failed(cause) = self else { return None };
        chain(cause.as_ref()).flat_map(said::said_by).find_map(about)
    }

    /// A copy for whoever finds this error inside another one; a mere failure decides nothing.
    fn decision(&self) -> Option<Said> {
        Some(Said::Error(Box::new(match self {
            Error::Failed(_) => return None,
            Error::LostClaim => Error::LostClaim,
            Error::Cancelled => Error::Cancelled,
            Error::BrokenTransaction(how) => Error::BrokenTransaction(how.clone()),
            Error::Undecodable(why) => Error::Undecodable(why.clone()),
            Error::Refused(text) => Error::Refused(text.clone()),
            Error::Panic(text) => Error::Panic(text.clone()),
            Error::TimedOut(limit) => Error::TimedOut(*limit),
            Error::Setup(text) => Error::Setup(text.clone()),
            Error::Unreachable { address, .. } => Error::Unreachable { address: address.clone(), source: "".into() },
            Error::Duplicate { reason, heartbeat } => {
                Error::Duplicate { reason: reason.clone(), heartbeat: heartbeat.clone() }
            }
            Error::Ended { status, reason } => Error::Ended { status: *status, reason: reason.clone() },
        })))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        say(|| self.decision());
        if f.alternate() {
            return f.write_str(&text::in_full(self));
        }
        match self {
            Error::Failed(cause) => f.write_str(&text::of(cause.as_ref(), "")),
            Error::LostClaim => f.write_str("claim lost: the message was rescued, changed or deleted in the meantime"),
            Error::Cancelled => f.write_str("cancelled while it ran"),
            Error::BrokenTransaction(how) => write!(f, "transaction broken: {how}"),
            Error::Undecodable(why) => write!(f, "cannot read the message: {why}"),
            Error::Panic(text) => write!(f, "panic: {text}"),
            Error::TimedOut(limit) => write!(f, "timed out after {limit:?}"),
            Error::Setup(text) | Error::Refused(text) => f.write_str(text),
            Error::Unreachable { address, source } if text::is_from_server(source.as_ref()) => {
                write!(f, "the database at {address} refuses the connection")
            }
            Error::Unreachable { address, .. } => write!(f, "the database at {address} does not answer"),
            Error::Ended { reason, .. } | Error::Duplicate { reason, .. } => f.write_str(reason),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Failed(cause) => cause.source(),
            Error::Unreachable { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

/// One of each: a blanket one would overlap `From<T> for T`. For all others there is [`Error::failed`].
macro_rules! failures {
    ($($type:ty),*) => {$(
        impl From<$type> for Error {
            fn from(cause: $type) -> Self {
                Error::failed(cause)
            }
        }
    )*};
}

failures!(
    Cause,
    String,
    &str,
    std::io::Error,
    std::num::TryFromIntError,
    serde_json::Error,
    tokio::sync::AcquireError,
    uuid::Error
);

#[cfg(feature = "sqlx")]
failures!(sqlx::Error);
