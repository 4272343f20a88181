//! The tests of this crate, on `SQLite`.

mod conformance;
mod fixture;
mod guards;
mod mistakes;
mod wakeups;
