//! The console of ichido: pages that show a fleet and repair it, an HTTP API for programs, and metrics, as one axum [`Router`](axum::Router).
//! `ichido serve` serves it; a program mounts it in a server of its own:
//!
//! ```
//! # fn mount(store: ichido_sqlite::Sqlite) -> ichido::error::Result<axum::Router> {
//! use ichido_console::{Console, Role, Token};
//!
//! let console = Console::builder(store)
//!     .queues(["orders"])
//!     .token(Token::new("anna", Role::Admin, "a secret of at least 32 characters")?)
//!     .base("/ichido")
//!     .build();
//! Ok(axum::Router::new().merge(console.router()))
//! # }
//! ```
//!
//! Without tokens it answers only this host itself, by the names `localhost`, `127.0.0.1` and `[::1]`, and must then know from where a request
//! comes: serve the router with `into_make_service_with_connect_info::<SocketAddr>()`, or set [`access::Peer`].
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`desk`] | all that pages and API may ask of a store, and do: one object for every kind of store |
//! | [`access`] | who asks: roles as types ([`As`](access::As)), tokens, the signed cookie, forms that nobody else can send |
//! | [`routes`] | routes, each with the role that its handler asks for |
//! | [`api`] | `/api/v1` |
//! | [`pages`] | what people see |

#![forbid(unsafe_code)]

pub mod access;
pub mod api;
mod console;
pub mod desk;
pub mod fields;
mod headers;
mod known;
mod metrics;
pub mod pages;
mod problem;
pub mod routes;

pub use self::{
    access::{Role, Token, Who},
    console::{Builder, Chain, ChainLink, Console, Settings},
    desk::Brokers,
    problem::Problem,
};
