//! The tests of this crate, on `SQLite`.

mod bell;
mod conformance;
mod fixture;
mod guards;
mod mistakes;
