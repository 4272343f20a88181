//! ichido on SQLite: one [`Store`](ichido::Store), on sqlx, with SQLite built in. The files have the same names as in
//! `ichido-postgres`, so that a diff of the two folders shows the dialects.
//!
//! SQLite has one writer. Every transaction of ichido's takes its turn (`turn`) and begins with `BEGIN IMMEDIATE`; an open
//! business transaction holds up all others, so keep actions short. A process is alive while it holds the lock on its lock
//! file (`alive`), because an open transaction would hold up every heartbeat in a table.
//!
//! | file | what it does |
//! | --- | --- |
//! | `builder` | describes the store before it is built |
//! | `connect` | one connection that writes, a few that read |
//! | `turn`, `alive` | locks on files beside the database: whose turn it is to write, and who is alive |
//! | `schema`, `migrations/` | ichido's own tables and their version |
//! | `migrate` | from one version of them to the next, while others are at work |
//! | `catalog` | looks at a queue's table and refuses what cannot work |
//! | `statements` | every statement about a queue's rows, built once per queue |
//! | `transaction` | begin, complete, commit, roll back; the guard that lets nobody else commit |
//! | `sending` | send: at once, later, once per key |
//! | `messages` | claim, release |
//! | `mutex`, `inbox`, `outbox` | what guards the messages of brokers; what is to be published |
//! | `groups` | one at a time and in order within a group |
//! | `inspect` | what operators see of what only this store knows |
//! | `sql` | how SQLite writes and runs the statements of `ichido-sql`, which has all other verbs |
//! | `adopt` | looks at a table that may become a queue |
//! | `sql_action` | the built-in action `sql` |
//! | `fault` | is the database at fault, or the message? |
//! | `quote` | identifiers and literals |

#![forbid(unsafe_code)]

mod adopt;
mod alive;
mod builder;
mod catalog;
mod connect;
mod fault;
mod groups;
mod inbox;
mod inspect;
mod locks;
mod messages;
mod migrate;
mod mutex;
mod outbox;
mod plain;
mod quote;
mod schema;
mod sending;
mod sql;
mod sql_action;
mod statements;
mod transaction;
mod turn;
mod value;

pub use self::{builder::SqliteBuilder, connect::Sqlite, schema::VERSION, transaction::Tx};
/// The driver, as it is used here: actions get its connections, and the builder takes its options.
pub use sqlx;
