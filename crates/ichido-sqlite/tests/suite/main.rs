//! The tests of this crate, on `SQLite`.

mod building;
mod conformance;
mod fixture;
mod guards;
mod mistakes;
mod wakeups;
