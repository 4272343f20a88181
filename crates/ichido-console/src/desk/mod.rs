//! All that pages and API may ask of a database, and do to it: [`Look`] for whoever may read, [`Act`] for whoever may change something, and then
//! in their name. They are objects, so that pages and API are compiled once and not for every kind of store; `on_store` implements them once for
//! all stores, by the verbs that the command line uses (`ichido::by_hand`).

mod on_store;
mod orders;
mod repairs;
mod search;

use std::{sync::Arc, time::Duration};

use ichido::{
    BoxFuture, Due, MessageId,
    by_hand::{Examination, Moved, ShownFailure, ShownMessage, Standing},
    inspect::{Cursor, Listed, MessagePage, Parked, ParkedFilter, QueueCounts},
    process::{Flag, RequestState},
    stat::StatRow,
    store::By,
};

pub use self::orders::{
    AuditPage, CancelLine, CancelOrder, Idempotency, LeftAlone, RepairAnswer, RepairOrder, Searched, SendOrder,
    SentAnswer, Which,
};
pub(crate) use self::{
    on_store::OnStore,
    orders::{LONGEST_PACED, USED, at_this_rate},
};
use crate::Problem;

/// What a desk answers, when the database has.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Problem>>;

/// What may be read. Nothing here scans a queue's table: counts are bounded, lists have pages.
pub trait Look: Send + Sync {
    /// Does the database answer?
    fn ping(&self) -> Answer<'_, ()>;

    /// Queues, processes, request ids, what was measured in the last minutes, and advice.
    fn standing(&self) -> Answer<'_, Standing> {
        self.standing_beside(Vec::new())
    }

    /// The same, but what these queues hold is known already, and not counted again.
    fn standing_beside(&self, known: Vec<QueueCounts>) -> Answer<'_, Standing>;

    /// What processes have counted, by minute: at most the last day.
    fn stats(&self, last: Duration) -> Answer<'_, Vec<StatRow>>;

    /// How every request id is doing.
    fn requests(&self) -> Answer<'_, Vec<RequestState>>;

    /// Some messages of these queues in these states.
    fn list(
        &self,
        queues: Vec<String>,
        states: Vec<Listed>,
        after: Option<Cursor>,
        limit: usize,
    ) -> Answer<'_, MessagePage>;

    /// One message, masked; none if there is none.
    fn message(&self, id: MessageId) -> Answer<'_, Option<ShownMessage>>;

    /// Messages that failed, or wait for a retry; their errors are masked.
    fn failed(&self, filter: ParkedFilter) -> Answer<'_, Vec<Parked>>;

    /// The same for a page: where an error is looked for, only some are searched, and it is said where to go on.
    fn search(&self, filter: ParkedFilter) -> Answer<'_, Searched>;

    /// One of them, with its payload, masked; none if it has not failed.
    fn failure(&self, id: MessageId) -> Answer<'_, Option<ShownFailure>>;

    /// What was changed by hand, the newest first, after the entry with this number.
    fn audit(&self, queue: Option<String>, after: Option<i64>, limit: u32) -> Answer<'_, AuditPage>;

    /// What an operator should know about the database.
    fn warnings(&self, lease: Duration) -> Answer<'_, Vec<String>>;

    /// The doctor looks, and changes nothing.
    fn examine(&self) -> Answer<'_, Examination>;
}

/// What may be changed, in somebody's name. It goes on to its end even if whoever asked has left.
pub trait Act: Look {
    /// Sends messages, all or none.
    fn send(&self, order: SendOrder) -> Answer<'_, SentAnswer>;

    /// Cancels messages.
    fn cancel(&self, order: CancelOrder) -> Answer<'_, Vec<CancelLine>>;

    /// A message becomes due at another time.
    fn reschedule(&self, id: MessageId, due: Due) -> Answer<'_, Moved>;

    /// Messages that wait become ready.
    fn run_now(&self, ids: Vec<MessageId>) -> Answer<'_, Vec<Moved>>;

    /// Retries or discards failed messages.
    fn repair(&self, order: RepairOrder) -> Answer<'_, RepairAnswer>;

    /// Sets or clears a flag of a request id; whether something changed, and what holds now.
    fn set_flag(&self, request_id: String, flag: Flag, on: bool) -> Answer<'_, (bool, RequestState)>;

    /// The doctor does what is safe.
    fn fix(&self) -> Answer<'_, Examination>;
}

/// The desk of a database.
pub(crate) trait Desk: Look {
    /// The same, in somebody's name.
    fn acting(&self, by: By) -> Arc<dyn Act>;
}

/// The brokers that keep queues: what of them the console needs. The command line has one for the brokers of its configuration.
pub trait Brokers: Send + Sync + 'static {
    /// Refuses what must not be sent to these queues: a message that would reach other queues too.
    fn refuse<'a>(&'a self, queues: &'a [String]) -> BoxFuture<'a, Result<(), Problem>>;

    /// Publishes what was committed; why not all of it is published yet.
    fn publish<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Option<String>>;

    /// Examines the brokers' queues, and with `fix` does what is safe, in the name of `by`.
    fn examine(&self, by: By, fix: bool, into: Examination) -> BoxFuture<'_, Result<Examination, Problem>>;

    /// Deletes the dead letters of messages that were discarded; why they are still there.
    fn forget<'a>(&'a self, discarded: &'a [MessageId]) -> BoxFuture<'a, Option<String>>;
}

/// No broker keeps a queue.
pub(crate) struct NoBrokers;

impl Brokers for NoBrokers {
    fn refuse<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async { Ok(()) })
    }

    fn publish<'a>(&'a self, _: &'a [MessageId]) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }

    fn examine(&self, _: By, _: bool, into: Examination) -> BoxFuture<'_, Result<Examination, Problem>> {
        Box::pin(async { Ok(into) })
    }

    fn forget<'a>(&'a self, _: &'a [MessageId]) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }
}
