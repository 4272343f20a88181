//! The tests of this crate, on a private `PostgreSQL`.

mod conformance;
mod dropping;
mod fixture;
mod guards;
mod large;
mod notify;
mod pooler;
mod races;
mod sessions;
