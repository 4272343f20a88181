//! ichido on PostgreSQL: one [`Store`](ichido::Store), on sqlx. The files have the same names as in `ichido-sqlite`, so that
//! a diff of the two folders shows the dialects.
//!
//! | file | what it does |
//! | --- | --- |
//! | `builder` | describes the store before it is built |
//! | `connect` | the store: connections for business transactions, and for ichido's own work |
//! | `hosts` | the servers that the URL names |
//! | `connector` | opens connections, and ends sessions that nobody can reach |
//! | `session` | a connection that one has after the other |
//! | `pooler` | ichido's own statements, also behind a transaction pooler such as pgbouncer |
//! | `schema`, `migrations/` | ichido's own tables and their version |
//! | `migrate` | from one version of them to the next, while others are at work |
//! | `catalog` | looks at a queue's table and refuses what cannot work |
//! | `statements` | every statement about a queue's rows, built once per queue |
//! | `transaction` | begin, complete, commit, roll back |
//! | `sending` | send: at once, later, once per key |
//! | `messages` | claim, release |
//! | `mutex`, `inbox`, `outbox` | what guards the messages of brokers; what is to be published |
//! | `groups` | one at a time and in order within a group |
//! | `notify` | wakes other hosts |
//! | `inspect` | what operators see of what only this store knows |
//! | `sql` | how PostgreSQL writes and runs the statements of `ichido-sql`, which has all other verbs |
//! | `adopt` | looks at a table that may become a queue |
//! | `sql_action` | the built-in action `sql` |
//! | `fault` | is the database at fault, or the message? |
//! | `quote` | identifiers and literals |

#![forbid(unsafe_code)]

mod adopt;
mod builder;
mod catalog;
mod connect;
mod connector;
mod fault;
mod groups;
mod hosts;
mod inbox;
mod inspect;
mod messages;
mod migrate;
mod mutex;
mod notify;
mod outbox;
mod plain;
mod pooler;
mod quote;
mod schema;
mod sending;
mod session;
mod sql;
mod sql_action;
mod sql_places;
mod statements;
mod transaction;
mod walk;

pub use self::{builder::PostgresBuilder, connect::Postgres, schema::VERSION, transaction::Tx};
/// The driver, as it is used here: actions get its connections, and the builder takes its options.
pub use sqlx;
