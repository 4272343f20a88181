//! The cases, by suite and topic. Each public asynchronous function is a case, and `build.rs` sees to it that the macro of its suite
//! makes a test of it.
//!
//! | suite | what passes it | macro |
//! | --- | --- | --- |
//! | [`store`] | a store | [`conformance!`](crate::conformance) |
//! | [`locks`], [`races`] | a store of a database with row locks | [`locking!`](crate::locking) |
//! | [`silence`] | a store whose server falls silent | [`silencing!`](crate::silencing) |
//! | [`crash`] | a store whose processes die | [`crashing!`](crate::crashing) |
//! | [`reader`] | a reader | [`reading!`](crate::reading) |
//! | [`broker`] | a broker, together with a store | [`brokering!`](crate::brokering) |
//! | [`sizes`] | our own stores, with this version's handlers | `sizing!` |
//! | [`exchange`] | a broker with exchanges and limits | [`exchanging!`](crate::exchanging) |

#![allow(missing_docs, reason = "the name of a case is a sentence about what it shows")]

pub mod broker;
mod broker_rows;
pub mod crash;
pub mod exchange;
pub mod locks;
pub mod races;
pub mod reader;
pub mod silence;
pub mod sizes;
pub mod store;
