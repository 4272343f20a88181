//! What a store must do, written once and run for each of them; and the servers and faults to do it with. A backend is
//! whatever passes [`conformance!`].
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`cases`] | the cases, by theme; each is a sentence about behaviour |
//! | [`fixture`] | what the cases need of a database |
//! | [`meddling`] | a real store with somebody in its way, at the moment that a test chooses |
//! | [`servers`] | private servers that the tests start and stop |
//! | [`proxy`] | a TCP proxy that cuts connections at the worst moments |

#![forbid(unsafe_code)]
#![allow(clippy::missing_panics_doc, reason = "a test harness speaks by panicking")]

pub mod cases;
pub mod fixture;
pub mod meddling;
pub mod proxy;
pub mod servers;

/// How large a test is: the small size by default, the full one behind `./test --full`.
#[must_use]
pub fn size(small: u32, full: u32) -> u32 {
    if std::env::var_os("ICHIDO_FULL").is_some_and(|value| value == "1") { full } else { small }
}
