//! ichido runs the work that arrives in a database table or a broker and makes its effects in your database happen
//! exactly once: across workers, processes, hosts, crashes and duplicate deliveries.
//!
//! A message waits in a [`Queue`]. A [`Reader`] claims it and hands it out as a [`Delivery`]. The [`HandlerQueue`], a list
//! of [`Handler`]s, carries it to your [`Action`], which writes through [`Context::tx`]. The `transaction` handler then moves
//! the message from unprocessed to done **in the same transaction** and commits: both happen, or neither does.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`message`] | what is sent and delivered, the queues, typed ones ([`QueueOf`], [`KindOf`]), and the [`Client`] that sends |
//! | [`action`] | your code, [`Action`] and [`BatchAction`], one for each of many [`Kinds`], its [`Context`] and callbacks; [`sql`], the built-in action that needs no Rust |
//! | [`handlers`] | the links of the chain, the chain itself, and a [`Registry`] of handlers by name |
//! | [`process`] | how actions are run: [`Process`], [`Pool`] |
//! | [`readers`] | where deliveries come from, [`Reader`] for sources of your own; [`lanes`], priority by service level |
//! | [`broker`] | the seam for brokers, [`Relay`], the doctor |
//! | [`store`] | the seam for databases; [`inspect`], what operators ask and do; [`adopt`], from a table that is there to a queue |
//! | [`by_hand`] | what operators do, the same for the command line and the console |
//! | [`error`] | what can go wrong, and who pays for it |
//! | [`observe`] | the journal, [`Masks`], and [`stat`]: what is measured, and what to tune |
//! | [`testing`] | for your own tests: run an action, drain a process, move the clock, crash |

#![forbid(unsafe_code)]

pub mod action;
pub mod broker;
pub mod by_hand;
pub mod error;
pub mod handlers;
pub mod message;
pub mod observe;
pub mod process;
pub mod readers;
pub mod store;
pub mod testing;

/// A boxed future that can be sent to another thread.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// `std::result::Result` with [`ActionError`]: what actions and handlers return. Everything else returns [`error::Result`].
pub type Result<T, E = ActionError> = std::result::Result<T, E>;

pub use tokio_util::sync::CancellationToken;

pub use self::{
    action::{Action, ActionFn, BatchAction, Context, Kinds, Payload, RetryPolicy, sql},
    broker::{Publisher, Relay},
    error::{ActionError, Cause, Error, Permanent, RetryAfter, Retryable},
    handlers::{Handler, HandlerQueue, Next, Registry},
    message::{
        Client, Delivery, Due, Guarded, Headers, Key, KindOf, Message, MessageId, NewMessage, Outcome, Queue, QueueOf,
        Sender, Status, Table,
    },
    observe::{Masks, stat, trace},
    process::{Pool, Process},
    readers::{Reader, lanes},
    store::{
        Failure, Messages, Store, adopt, inspect,
        inspect::{Inspect, Operate},
    },
};
