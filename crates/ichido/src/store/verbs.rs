//! How the core calls a store: one function per verb, each in a span of its own, so that a trace shows what a message waited for. The
//! traits say what a verb means. Nobody in the core calls a store's method but through here.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tracing::Instrument as _;

use crate::{
    Delivery, Key, Message, MessageId, NewMessage,
    action::Terms,
    broker::{Circulating, Found, Guard, Publication, Unsent},
    error::Result,
    process::Retention,
    stat::{Backlog, Stat},
    store::{
        Cancelled, Cancelling, Database, Failure, FileSetId, Files, Mutexes, Outbox, Polled, ProcessId, Processes,
        Queues, Registration, Rescued, Running, SessionId, SessionState, Stats, Transactions, Wakeups,
    },
};

/// Verbs in a business transaction: an error there may be the message's.
macro_rules! business {
    ($($of:ident: $verb:ident($($name:ident: $type:ty),*) -> $result:ty;)*) => {$(
        pub(crate) async fn $verb<S: $of>(store: &S, $($name: $type),*) -> Result<$result> {
            store.$verb($($name),*).instrument(tracing::debug_span!(stringify!($verb))).await
        }
    )*};
}

/// All others: an error there is never a message's.
macro_rules! verbs {
    ($($of:ident: $verb:ident($($name:ident: $type:ty),*) -> $result:ty;)*) => {$(
        pub(crate) async fn $verb<S: $of>(store: &S, $($name: $type),*) -> Result<$result> {
            let done = store.$verb($($name),*).instrument(tracing::debug_span!(stringify!($verb))).await;
            done.map_err(|error| error.of_own_statement(S::is_own_fault))
        }
    )*};
}

business! {
    Transactions: begin_on(terms: Terms) -> S::Tx;
    Transactions: complete(tx: &mut S::Tx, done: &[Delivery]) -> ();
    Transactions: fail(tx: &mut S::Tx, delivery: &Delivery, failure: &Failure) -> ();
    Transactions: commit(tx: S::Tx) -> ();
    Transactions: rollback(tx: S::Tx) -> ();
    Wakeups: commit_and_notify(tx: S::Tx, queues: &[Arc<str>]) -> ();
    Queues: send(connection: &mut S::Connection, queue: &str, messages: &[NewMessage]) -> Vec<MessageId>;
    Mutexes: lock(tx: &mut S::Tx, delivery: &Delivery) -> Found;
    Mutexes: begin_locked(terms: Terms, delivery: &Delivery) -> (S::Tx, Found);
    Outbox: publish(connection: &mut S::Connection, queue: &str, messages: &[Publication]) -> Vec<String>;
    Files: note_files(tx: &mut S::Tx, set: FileSetId) -> ();
}

verbs! {
    Database: prepare() -> ();
    Database: ping() -> ();
    Transactions: session_state(session: &SessionId) -> SessionState;
    Transactions: is_claimed(delivery: &Delivery) -> bool;
    Queues: claim(process: ProcessId, queue: &str, count: usize) -> Vec<Delivery>;
    Queues: claimed(process: ProcessId, queue: &str) -> Vec<Delivery>;
    Queues: release(deliveries: &[Delivery]) -> ();
    Queues: park(delivery: &Delivery, failure: &Failure) -> bool;
    Queues: return_due(by: &Registration) -> u64;
    Queues: tidy(queue: &str, after: &str) -> Option<String>;
    Processes: take_chore_lease(process: ProcessId, queue: &str, lasts: Duration) -> Option<String>;
    Processes: keep_chore_lease(process: ProcessId, queue: &str, lasts: Duration, tidied: &str) -> bool;
    Processes: release_chore_lease(process: ProcessId, queue: &str) -> ();
    Queues: undrained(queues: &[Arc<str>]) -> Option<Arc<str>>;
    Queues: claimable(queues: &[Arc<str>]) -> Vec<bool>;
    Queues: next_due(queues: &[Arc<str>]) -> Vec<Option<Duration>>;
    Queues: backlog(queue: &str, most: u64) -> Option<u64>;
    Processes: register(process: &Registration) -> ();
    Processes: heartbeat(process: ProcessId, running: &[Running]) -> bool;
    Processes: mark_running(process: ProcessId, suspect: Option<&MessageId>) -> ();
    Processes: deregister(process: ProcessId) -> ();
    Processes: quit(process: ProcessId, request_id: &str) -> ();
    Processes: poll(by: &Registration) -> Polled;
    Processes: rescue(by: &Registration) -> Rescued;
    Processes: prune_dead(by: &Registration) -> u64;
    Mutexes: guard(queue: &str) -> Guard;
    Mutexes: claim_these(process: ProcessId, queue: &str, messages: &[Message]) -> Vec<Found>;
    Outbox: unsent(queue: &str, most: usize) -> Vec<Unsent>;
    Outbox: any_unsent(queues: &BTreeSet<Arc<str>>) -> bool;
    Outbox: take_relay_lease(relay: ProcessId, queue: &str) -> bool;
    Outbox: release_relay_lease(relay: ProcessId, queue: &str) -> ();
    Outbox: note_published(queue: &str, published: &[&Unsent]) -> ();
    Outbox: note_unpublished(queue: &str, unsent: &Unsent, error: &str, wait: Duration) -> ();
    Outbox: keep(message: &Message) -> bool;
    Outbox: any_circulating(queue: &str) -> bool;
    Outbox: circulating(queue: &str, age: Duration, most: usize) -> Circulating;
    Outbox: publish_again(queue: &str, keys: &[Key], most: usize) -> u64;
    Cancelling: cancel(id: &MessageId) -> Cancelled;
    Cancelling: finish_cancel(delivery: &Delivery) -> bool;
    Files: decide_files(set: FileSetId) -> bool;
    Files: delete_file_sets(stage: ProcessId, number: Option<i64>) -> ();
    Stats: note_longest(queue: &str, time: Duration) -> ();
    Stats: note_stats(process: ProcessId, minute: i64, stats: &[Stat]) -> ();
    Stats: count(queue: &str) -> Option<Backlog>;
    Stats: prune(retention: Retention) -> bool;
    Wakeups: notify(queue: &str) -> ();
}
