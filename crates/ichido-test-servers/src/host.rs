//! A server that a test shares with others, or has for itself and may crash.

use std::ops::Deref;

/// Whose server it is.
#[derive(Debug)]
pub enum Host<T: 'static> {
    /// All tests of the process have it.
    Shared(&'static T),
    /// It ends with its test.
    Own(Box<T>),
}

impl<T> Deref for Host<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Host::Shared(server) => server,
            Host::Own(server) => server,
        }
    }
}
