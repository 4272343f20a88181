//! The tests of this crate, on a private `PostgreSQL`.

mod conformance;
mod connecting;
mod dropped_passes;
mod encrypted;
mod fixture;
mod guards;
mod idle;
mod large;
mod large_messages;
mod notify;
mod pooler;
mod races;
mod rotating;
mod sessions;
mod silence;
mod waiting;
