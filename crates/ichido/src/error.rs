//! What can go wrong on the way through the handler queue. Handlers, actions and stores return [`Error`];
//! the loop and the transaction handler ask it questions to decide who pays for it: the message, the process, or nobody.

use std::{borrow::Cow, error::Error as StdError, fmt, time::Duration};

use crate::Store;

/// An error of any kind, with its sources.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// `std::result::Result` with ichido's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a pass through the handler queue, or a store, failed.
///
/// Any error becomes one with `?`. It does not implement [`std::error::Error`] itself, because that would forbid the `?`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The action, a handler or the database failed. Ask [`Error::is_fault`] whose failure it is.
    Failed(Cause),
    /// The claim is lost: the message was rescued, changed or deleted in the meantime. Nothing was committed.
    LostClaim,
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

// `Error` must not implement `std::error::Error`, or this would overlap `From<T> for T`.
impl<E: Into<Cause>> From<E> for Error {
    fn from(error: E) -> Self {
        Error::Failed(error.into())
    }
}

impl Error {
    /// Is the database at fault (gone, deadlock, out of space) and not the message? Such a failure spends no attempt.
    #[must_use]
    pub fn is_fault<S: Store>(&self) -> bool {
        match self {
            Error::Failed(cause) => chain(cause.as_ref()).any(|link| link.is::<Fault>() || S::is_fault(link)),
            Error::Unreachable { .. } => true,
            _ => false,
        }
    }

    /// Should the process retry? Yes if the database is at fault, or an error in the chain is [`Retryable`].
    #[must_use]
    pub fn is_retryable<S: Store>(&self) -> bool {
        let marked = match self {
            Error::Failed(cause) => chain(cause.as_ref()).any(<dyn StdError>::is::<Retryable>),
            _ => false,
        };
        marked || self.is_fault::<S>()
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
        matches!(self, Error::LostClaim) || self.is_fault::<S>()
    }

    /// How long the message must wait, if the failure says so ([`RetryAfter`]).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let Error::Failed(cause) = self else { return None };
        chain(cause.as_ref()).find_map(|link| link.downcast_ref::<RetryAfter>()).map(|said| said.after)
    }

    /// Can this message never succeed as it is, so that retrying is pointless?
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        matches!(self, Error::BrokenTransaction(_) | Error::Undecodable(_) | Error::Refused(_))
    }
}

/// The database is at fault, whatever the error says to others.
#[derive(Debug)]
pub(crate) struct Fault(pub(crate) Cause);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Fault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.0.as_ref())
    }
}

/// An error of a handler outside any message after which the process shall try again, as after a database fault: the `retry`
/// handler finds it anywhere in the chain of causes. For a message in hand it is a failure like any other.
#[derive(Debug)]
pub struct Retryable(pub Cause);

impl fmt::Display for Retryable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Retryable {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.0.as_ref())
    }
}

/// A failure of a message that says when to try again, as a busy server does: the message waits that long in the place of its
/// backoff. It spends an attempt like any other failure.
#[derive(Debug)]
pub struct RetryAfter {
    /// How long.
    pub after: Duration,
    /// What went wrong.
    pub cause: Cause,
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl StdError for RetryAfter {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.cause.as_ref())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Failed(cause) => write_chain(f, cause.as_ref()),
            Error::LostClaim => f.write_str("claim lost: the message was rescued, changed or deleted in the meantime"),
            Error::BrokenTransaction(how) => write!(f, "transaction broken: {how}"),
            Error::Undecodable(why) => write!(f, "cannot read the message: {why}"),
            Error::Panic(text) => write!(f, "panic: {text}"),
            Error::TimedOut(limit) => write!(f, "timed out after {limit:?}"),
            Error::Setup(text) | Error::Refused(text) => f.write_str(text),
            Error::Unreachable { address, source } => {
                write!(f, "the database at {address} does not answer: ")?;
                write_chain(f, source.as_ref())
            }
            Error::Ended { reason, .. } | Error::Duplicate { reason, .. } => f.write_str(reason),
        }
    }
}

pub(crate) fn chain<'a>(cause: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(cause), |cause: &&'a (dyn StdError + 'static)| (*cause).source())
}

/// Writes an error and its sources on one line; many errors repeat their source's text, which is then left out.
fn write_chain(f: &mut fmt::Formatter<'_>, cause: &(dyn StdError + 'static)) -> fmt::Result {
    let mut written = String::new();
    for link in chain(cause) {
        let text = link.to_string();
        if !written.contains(&text) {
            let separator = if written.is_empty() { "" } else { ": " };
            write!(f, "{separator}{text}")?;
            written.push_str(&text);
        }
    }
    Ok(())
}
