//! The seam for databases. A store is the sum of small traits, one per thing that a database keeps; one method is one verb of
//! ARCHITECTURE.md (Words), guarded by claim and state, and obeys the row count. `ichido-sqlite`, `ichido-postgres` and
//! `ichido-mysql` implement them; `ichido-testkit` says what an implementation must do. Nothing here knows SQL, and nothing outside
//! this seam talks to a database.

pub mod adopt;
mod answers;
mod audit;
mod cancelling;
mod database;
mod failure;
mod files;
pub mod inspect;
mod local;
mod message_info;
mod messages;
mod migration;
mod mutexes;
mod outbox;
mod processes;
mod queues;
mod registration;
mod running;
mod send_sql;
mod stats;
mod transactions;
mod verbs;
mod wakeups;

pub use self::{
    answers::{Answered, Answers},
    audit::{Audit, Audited, By},
    cancelling::{Cancellable, Cancelled, Cancelling},
    database::{ConnectionCounts, Database},
    failure::Failure,
    files::{FileSetId, Files},
    local::is_loopback,
    messages::Messages,
    migration::{MigrateOptions, Migration, Version},
    mutexes::Mutexes,
    outbox::Outbox,
    processes::{Polled, Processes, Rescued, WHOLE_DATABASE},
    queues::{MOST_KEYS, Queues},
    registration::{LONGEST_REQUEST_ID, ProcessId, Registration, host, refuse_request_id},
    running::{LONGEST_RUNNING, Running},
    stats::Stats,
    transactions::{SessionId, SessionState, Transactions},
    wakeups::Wakeups,
};

pub(crate) use self::verbs::*;

/// A database that holds the business tables and ichido's own: whatever implements these traits.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Store: Transactions + Queues + Processes + Mutexes + Outbox + Cancelling + Files + Stats + Wakeups {}

impl<S: Transactions + Queues + Processes + Mutexes + Outbox + Cancelling + Files + Stats + Wakeups> Store for S {}
