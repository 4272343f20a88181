//! What a store, a broker and a reader must do, written once and run for each of them. A store is whatever passes
//! [`conformance!`], a reader whatever passes [`reading!`].
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`cases`] | the cases, by topic; each is a sentence about behaviour |
//! | [`fixture`] | what the cases need of a database |
//! | [`faults`] | a real store that fails a verb, loses its reply or holds it up, at the moment that a test chooses |

#![forbid(unsafe_code)]
#![allow(clippy::missing_panics_doc, reason = "a test harness speaks by panicking")]

pub mod cases;
mod eventually;
pub mod faults;
pub mod fixture;

pub use eventually::{LIMIT, Look, eventually};

/// How large a test is: the small size by default, the full one behind `./test --full`.
#[must_use]
pub fn size(small: u32, full: u32) -> u32 {
    if std::env::var_os("ICHIDO_FULL").is_some_and(|value| value == "1") { full } else { small }
}
