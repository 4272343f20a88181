//! The tests of this crate, on a private MariaDB.

mod conformance;
mod connecting;
mod encrypted;
mod fixture;
mod guards;
mod large;
mod large_messages;
mod locks;
mod races;
mod rotating;
mod silence;
