//! ichido runs the work that arrives in a database table or a broker and makes its effects in your database happen
//! exactly once: across workers, processes, hosts, crashes and duplicate deliveries.
//!
//! A message waits in a [`Queue`]. A [`Reader`] claims it and hands it out as a [`Delivery`]. The [`HandlerQueue`], a list
//! of [`Handler`]s, carries it to your [`Action`], which writes through [`Context::tx`]. The `transaction` handler then moves
//! the message from unprocessed to done **in the same transaction** and commits: both happen, or neither does.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`message`](Message), [`delivery`](Delivery), [`outcome`](Outcome) | what was sent, one handing-over of it, what became of it |
//! | [`handlers`], [`Handler`], [`Next`] | the links of the chain, and the rest of it |
//! | [`Registry`], [`Entry`] | handlers by name, with options, from a configuration |
//! | [`Action`], [`ActionFn`], [`BatchAction`], [`Context`] | your code, its callbacks, and what it knows |
//! | [`Process`], [`Pool`], [`Client`] | how to run actions, and how to send |
//! | [`Reader`], [`QueueReader`] | hand out deliveries; the seam for readers of your own |
//! | [`Store`], [`Inspect`], [`Operate`] | the seam for databases |
//! | [`lanes`] | priority by service level: levels, policies, and whose turn it is |
//! | [`stat`] | what is measured, and what to tune |
//! | [`adopt`] | from a table that is there to a queue |
//! | [`sql`], [`Whole`] | the built-in action that needs no Rust; messages passed on as JSON |
//! | [`testing`] | for your own tests: run an action, drain a process, move the clock, crash |

#![forbid(unsafe_code)]

mod about;
mod action;
pub mod adopt;
pub mod backend;
mod batch;
mod batch_action;
mod bell;
mod broker;
mod broker_reader;
mod callbacks;
mod client;
mod clock;
mod context;
mod delivery;
mod doctor;
mod draining;
mod error;
mod files;
mod flags;
mod guard;
mod handler;
pub mod handlers;
mod inspect;
mod journal;
mod lane_reader;
pub mod lanes;
mod life;
mod limited;
mod masks;
mod message;
mod migration;
mod nearest;
mod new_message;
mod order;
mod outcome;
mod panics;
mod path;
mod patience;
mod pool;
mod process;
mod progress;
mod publishing;
mod queue;
mod queue_reader;
mod reader;
mod reconciler;
mod registry;
mod relay;
mod request;
mod retry;
mod slot;
pub mod sql;
pub mod stat;
mod store;
mod terms;
pub mod testing;
mod upkeep;
mod whole;

/// A boxed future that can be sent to another thread.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub use tokio_util::sync::CancellationToken;

pub use self::{
    about::{About, Need, Scope},
    action::{Action, ActionFn, Payload},
    batch_action::BatchAction,
    bell::Bell,
    broker::{Broker, Outgoing, Received, RowName, SENT_AT, Settlement, Source, Unpublished},
    callbacks::Failed,
    client::{Client, Sender},
    clock::{Clock, SystemClock},
    context::Context,
    delivery::{Claim, Delivery, Mark},
    doctor::{InQueue, Judgement, MutexRow, Mutexes, Orphan, RawRow, RowState, Sighting, Verdict},
    error::{Cause, Error, Result, RetryAfter, Retryable},
    flags::{Flag, Flags, RequestState},
    guard::{Found, Guard, Outbox, Publication, Standing, Unsent},
    handler::{Handler, HandlerQueue, Next, Rest},
    inspect::{
        DIED_RUNNING, HISTORY, Inspect, Operate, Overview, Parked, ParkedFilter, ParkedState, PastFailure,
        ProcessState, QueueCounts, Statement, history, shape,
    },
    journal::{ANALYSIS, MONITOR},
    masks::{Hidden, MASK, Masks},
    message::{FieldKind, Headers, Key, Kinds, Message, MessageId},
    migration::{MigrateOptions, Migration, Version},
    nearest::{nearest, suggestion},
    new_message::{Due, NewMessage},
    outcome::Outcome,
    panics::quiet_panics,
    path::{Paths, Pattern},
    pool::{CONCURRENCY, MOST_READ_AHEAD, Pool, Retention, Settings},
    process::{HandlerQueues, Process},
    publishing::Publisher,
    queue::{ClaimBy, GuardBy, Guarded, OnBusy, OnDone, Order, PAYLOAD_LIMIT, Place, Queue, Status, Table},
    queue_reader::QueueReader,
    reader::{Reader, Turn},
    reconciler::{Circulating, Depths},
    registry::{Entry, Options, Placement, Registry},
    relay::{Flushed, Relay},
    request::{Identity, Request},
    retry::RetryPolicy,
    store::{Around, Failure, FileSetId, LONGEST_REQUEST_ID, ProcessId, Registration, Rescued, Store, host},
    terms::{CommitOn, Isolation, Terms},
    whole::Whole,
};
