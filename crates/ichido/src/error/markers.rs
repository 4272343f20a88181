//! Errors that decide what becomes of a message or of the process. They are found anywhere in a chain of causes; each has the text and
//! the sources of its own cause.

use std::{error::Error as StdError, fmt, time::Duration};

use super::{
    Cause,
    said::{Said, say},
};

/// A failure that no retry can mend: the message is parked at once, whatever attempts it has left.
///
/// ```
/// # use ichido::{Permanent, Result};
/// # fn pay(card: &str) -> Result<()> {
/// if card.is_empty() {
///     return Err(Permanent("the order has no card".into()).into());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Permanent(pub Cause);

/// A failure of a message that says when to try again, as a busy server does: the message waits that long in the place of its
/// backoff. It spends an attempt like any other failure.
#[derive(Debug)]
pub struct RetryAfter {
    /// How long.
    pub after: Duration,
    /// What went wrong.
    pub cause: Cause,
}

/// An error of a handler outside any message after which the process shall try again, as after a database fault: the `retry`
/// handler finds it anywhere in the chain of causes. For a message in hand it is a failure like any other.
#[derive(Debug)]
pub struct Retryable(pub Cause);

/// The database is at fault, whatever the error says to others.
#[derive(Debug)]
pub(crate) struct Fault(pub(crate) Cause);

impl Permanent {
    /// A failure by this cause.
    pub fn new(cause: impl Into<Cause>) -> Self {
        Permanent(cause.into())
    }
}

impl RetryAfter {
    /// A failure by this cause, to be retried after this time.
    pub fn new(after: Duration, cause: impl Into<Cause>) -> Self {
        RetryAfter { after, cause: cause.into() }
    }
}

macro_rules! markers {
    ($($marker:ident: $cause:tt, $said:expr;)*) => {$(
        impl fmt::Display for $marker {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                say(|| Some($said(self)));
                self.$cause.fmt(f)
            }
        }

        impl StdError for $marker {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                self.$cause.source()
            }
        }
    )*};
}

markers! {
    Permanent: 0, |_| Said::Permanent;
    RetryAfter: cause, |marker: &RetryAfter| Said::RetryAfter(marker.after);
    Retryable: 0, |_| Said::Retryable;
    Fault: 0, |_| Said::Fault;
}

/// The cause of a marker: its type is not among the sources, because its text would be written twice.
pub(super) fn inside<'a>(link: &'a (dyn StdError + 'static)) -> Option<&'a Cause> {
    let permanent = link.downcast_ref().map(|Permanent(cause)| cause);
    let retry_after = || link.downcast_ref().map(|RetryAfter { cause, .. }| cause);
    let retryable = || link.downcast_ref().map(|Retryable(cause)| cause);
    let fault = || link.downcast_ref().map(|Fault(cause)| cause);
    permanent.or_else(retry_after).or_else(retryable).or_else(fault)
}
