//! Databases that no test needs any more. A server drops them when it creates the next one: that takes no client of its own, and a test that
//! has ended need not wait for it.

use std::mem;
use std::sync::{Mutex, PoisonError};

/// The names of a server's databases that are to be dropped.
#[derive(Debug, Default)]
pub(super) struct Unused(Mutex<Vec<String>>);

impl Unused {
    /// Whoever takes them drops them.
    pub(super) fn take(&self) -> Vec<String> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn lend(&'static self, url: &str) -> Lent {
        Lent { unused: self, name: database_name(url).to_owned() }
    }
}

/// A database that a test has for as long as it has this.
#[derive(Debug)]
pub struct Lent {
    unused: &'static Unused,
    name: String,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.unused.0.lock().unwrap_or_else(PoisonError::into_inner).push(mem::take(&mut self.name));
    }
}

/// The name of the database in its URL.
pub(super) fn database_name(url: &str) -> &str {
    let (_, name) = url.rsplit_once('/').expect("a URL of fresh_database");
    name.split_once('?').map_or(name, |(name, _)| name)
}
