//! What a store, a broker and a reader of ichido must do, written once and run for each of them. A store is whatever passes
//! [`conformance!`], a reader whatever passes [`reading!`], a broker whatever passes [`brokering!`].
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`cases`] | the cases, by suite and topic; each is a sentence about behaviour |
//! | [`connections`] | what a process does with its connections to a server |
//! | [`fixture`] | what the cases need of a database, a broker or a reader's source |
//! | [`faults`] | a real store that fails a verb, loses its reply or holds it up, at the moment that a test chooses |
//! | [`large`] | places in long lists of messages, for tests of what a page reads |
//!
//! Tests wait with [`eventually`] and [`in_time`], which depend on no machine's speed.

#![forbid(unsafe_code)]
#![allow(clippy::missing_panics_doc, reason = "a test harness speaks by panicking")]

pub mod cases;
#[doc(hidden)]
pub mod child;
pub mod connections;
mod eventually;
pub mod faults;
pub mod fixture;
pub mod large;
mod suites;
mod wrapped;

pub use self::{
    eventually::{LIMIT, Look, eventually, in_time},
    suites::run,
};

/// How large a test is: the small size by default, the full one behind `./test --full`.
#[must_use]
pub fn size(small: u32, full: u32) -> u32 {
    if std::env::var_os("ICHIDO_FULL").is_some_and(|value| value == "1") { full } else { small }
}
