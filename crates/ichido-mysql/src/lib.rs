//! ichido on MariaDB 10.6+ and MySQL 8: one [`Store`](ichido::Store), on sqlx. The files have the same names as in its
//! siblings, so that a diff of two folders shows the dialects.
//!
//! | file | what it does |
//! | --- | --- |
//! | `connect` | pools: one for business transactions, one for ichido's own work |
//! | `schema`, `migrations/` | ichido's own tables and their version |
//! | `migrate` | from one version of them to the next, while others are at work |
//! | `catalog` | looks at a queue's table and refuses what cannot work |
//! | `statements` | every statement about a queue's rows, built once per queue |
//! | `transaction` | begin, complete, commit, roll back |
//! | `sending` | send: at once, later, once per key |
//! | `messages` | claim, release |
//! | `mutex`, `inbox`, `outbox` | what guards the messages of brokers; what is to be published |
//! | `groups` | one at a time and in order within a group |
//! | `parked` | park, return, retry, discard |
//! | `processes` | register, sign of life, leave, rescue |
//! | `flags` | request ids: who serves them, what operators ask of them |
//! | `inspect` | what operators see |
//! | `doctor` | mutex rows as the doctor wants them, and rows that belong to nobody |
//! | `adopt` | looks at a table that may become a queue |
//! | `sql_action` | the built-in action `sql` |
//! | `fault` | is the database at fault, or the message? |
//! | `quote` | identifiers and literals |

#![forbid(unsafe_code)]

mod adopt;
mod catalog;
mod connect;
mod doctor;
mod fault;
mod files;
mod flags;
mod groups;
mod inbox;
mod inspect;
mod messages;
mod migrate;
mod mutex;
mod outbox;
mod parked;
mod processes;
mod quote;
mod schema;
mod sending;
mod sql_action;
mod statements;
mod stats;
mod transaction;

pub use self::{connect::MySql, schema::VERSION, transaction::Tx};
