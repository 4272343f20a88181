//! What actions and handlers return when they fail: a thin coat around [`Error`] that any error can put on by `?`.

use std::{fmt, ops::Deref};

use super::{Cause, Error};

/// Why an action or a handler failed. Any error becomes one with `?`, also those of anyhow and eyre; an [`Error`] inside is found again.
///
/// It is not a [`std::error::Error`] itself, because that would forbid the `?`; it becomes an [`Error`], which is one.
pub struct ActionError(pub Error);

impl<E: Into<Cause>> From<E> for ActionError {
    fn from(error: E) -> Self {
        ActionError(Error::failed(error))
    }
}

impl From<ActionError> for Error {
    fn from(error: ActionError) -> Self {
        error.0
    }
}

impl Deref for ActionError {
    type Target = Error;

    fn deref(&self) -> &Error {
        &self.0
    }
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The error and its causes in words: this is what a `main` that returns it prints.
impl fmt::Debug for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}
