//! A queue as the shared verbs see it: whose rows its messages are, and the statements about them, written once in the store's dialect.

use std::sync::Arc;

use ichido::{
    Guarded, Key, Queue,
    error::Result,
    message::{GuardBy, Place},
    store::ProcessId,
};

use crate::{Bind, Conditions, Heads, LowerBound, Mapping, Query, QueueGroups, Tables, drained::claimable};

/// More owners than this are not looked at together.
pub(crate) const MOST_OWNERS: i64 = 10_000;

/// Whose rows a queue's messages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The user's.
    Table,
    /// Ichido's own messages.
    Managed,
    /// The mutexes of messages that a broker carries.
    Mutex,
}

/// A queue, and those of its statements that are the same verbs in every store. In each of them the owner is the first parameter,
/// where there is one, and the columns of the key are the last, all as text.
#[derive(Debug)]
pub struct SqlQueue {
    /// Its name.
    pub queue: Arc<str>,
    /// The longest payload that it takes, in bytes.
    pub payload_limit: usize,
    /// Whose rows its messages are.
    pub kind: Kind,
    /// How they are messages.
    pub mapping: Mapping,
    /// What these rows are, for the comparison with what other processes mean.
    pub place: String,
    /// How many columns a key has.
    pub key_columns: usize,
    /// Which rows of which table they are, for the comparison with other queues.
    pub identity: String,
    /// The columns of a table queue.
    pub columns: Vec<String>,
    /// Its groups, if messages can be in some.
    pub grouped: Option<QueueGroups>,
    /// Where the next claim begins.
    pub bound: LowerBound,
    /// A row that has failed can be told by its status alone.
    pub has_failed_value: bool,
    /// How a broker's queue is guarded.
    pub rules: Option<Guarded>,
    /// The messages that an owner has.
    pub claimed: Arc<str>,
    /// The one-way door: the last statement about a message, which proves that its transaction is the one that was begun.
    pub complete: Arc<str>,
    /// The same for many rows, each of which must pass.
    pub complete_many: Arc<str>,
    /// Puts aside the row of a message that is to be retried.
    pub park_waiting: Arc<str>,
    /// Puts aside the row of a message that has failed for good.
    pub park_dead: Arc<str>,
    /// Keys and groups of up to 500 rows that a process owns and that nobody else has locked; they are locked.
    pub owned: Arc<str>,
    /// Does a process own a row?
    pub owns_any: Arc<str>,
    /// Frees the rows of many keys that an owner has.
    pub release: Arc<str>,
    /// The keys of rows, of many, that are put aside.
    pub waiting: Arc<str>,
    /// Frees the rows of many keys that are put aside.
    pub return_due: Arc<str>,
    /// Puts a failed row back into circulation.
    pub retry: Arc<str>,
    /// Takes a failed row out of sight; a row of the user's own stays.
    pub discard: Arc<str>,
    /// The keys, of many, and whether each has failed and whether each is new.
    pub dead_or_new: Arc<str>,
    /// What is asked about rows, for statements that are put together when they are needed.
    pub conditions: Conditions,
    /// The keys, of many, and of each: has it failed, is it new, is it done, its owner, its group, for how many milliseconds it has waited.
    pub described: Arc<str>,
    /// The keys of rows, of many, that can be claimed.
    pub ready: Arc<str>,
    /// Puts aside the rows of many keys that can be claimed.
    pub postpone: Arc<str>,
    /// What a message says.
    pub payload: Arc<str>,
    /// Its headers and its unique key; empty where rows have none.
    pub headers: Arc<str>,
    /// Owner and group of a row, and whether it is new, has failed, is done; each its own column.
    pub state: Arc<str>,
    /// Takes an unprocessed row out of circulation, whoever owns it; a row of the user's own stays, as a failed one.
    pub cancel: Arc<str>,
    /// The keys of claimable rows in claim order, without an end.
    pub ready_in_order: Arc<str>,
    /// The keys of rows that processes own, without an end.
    pub held: Arc<str>,
    /// Is the message still unprocessed and an owner's? Waits for the row.
    pub is_claimed: Arc<str>,
    /// A condition: nothing of the queue is unprocessed.
    pub drained: Arc<str>,
    /// A condition: there may be a row to claim.
    pub claimable: Arc<str>,
    /// How many rows are claimable and claimed, how long the oldest has waited in seconds, and how many are recent.
    pub counts: Arc<str>,
    /// Keys and owners of rows that processes own, and of rows that are put aside.
    pub owners: [Arc<str>; 2],
}

impl SqlQueue {
    /// A queue without those of its statements that a store writes in its own way.
    #[must_use]
    pub fn new<'a>(
        queue: &Queue,
        mapping: &Mapping,
        conditions: &Conditions,
        columns: impl Iterator<Item = &'a String>,
    ) -> Self {
        let none: Arc<str> = "".into();
        SqlQueue {
            queue: queue.name.clone(),
            payload_limit: queue.payload_limit,
            kind: mapping.kind,
            mapping: mapping.clone(),
            place: mapping.place.clone(),
            identity: mapping.identity.clone(),
            key_columns: mapping.key.len(),
            columns: columns.cloned().collect(),
            grouped: mapping.group.as_ref().map(|_| QueueGroups { heads: Heads::default(), all: mapping.all_grouped }),
            bound: LowerBound::default(),
            has_failed_value: mapping.has_failed_value(),
            rules: match &queue.place {
                Place::Broker(rules) => Some(Guarded::clone(rules)),
                _ => None,
            },
            claimed: none.clone(),
            complete: none.clone(),
            complete_many: none.clone(),
            park_waiting: none.clone(),
            park_dead: none.clone(),
            owned: none.clone(),
            owns_any: none.clone(),
            release: none.clone(),
            waiting: none.clone(),
            return_due: none.clone(),
            retry: none.clone(),
            discard: none.clone(),
            dead_or_new: none.clone(),
            conditions: Conditions::default(),
            described: none.clone(),
            ready: none.clone(),
            postpone: none.clone(),
            payload: none.clone(),
            headers: none.clone(),
            state: none.clone(),
            cancel: none.clone(),
            ready_in_order: none.clone(),
            held: none.clone(),
            is_claimed: none.clone(),
            drained: none.clone(),
            claimable: claimable(mapping, conditions).into(),
            counts: none.clone(),
            owners: [none.clone(), none],
        }
    }

    /// Refuses a key that cannot be one of this queue's.
    ///
    /// # Errors
    /// [`ichido::Error::Refused`] with the reason.
    pub fn refuse_key(&self, key: &Key) -> Result<()> {
        crate::refuse_key(&self.queue, key, self.key_columns)
    }

    /// How it is guarded.
    ///
    /// # Errors
    /// [`ichido::Error::Setup`] if no broker keeps it.
    pub fn rules(&self) -> Result<&Guarded> {
        self.rules.as_ref().ok_or_else(|| crate::no_broker(&self.queue))
    }

    /// Is every message in a group?
    #[must_use]
    pub fn all_grouped(&self) -> bool {
        self.grouped.as_ref().is_some_and(|groups| groups.all)
    }

    /// Is it guarded by the inbox?
    #[must_use]
    pub fn has_inbox(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.by == GuardBy::Inbox)
    }

    /// Those of its statements that `ichido check --sql` prints, with what they do; `of_many` completes one about many rows.
    #[must_use]
    pub fn named(&self, of_many: impl Fn(&Arc<str>) -> String) -> [(&'static str, String); 6] {
        [
            ("release", of_many(&self.release)),
            ("park", self.park_waiting.to_string()),
            ("park for good", self.park_dead.to_string()),
            ("return", of_many(&self.return_due)),
            ("rescue", self.owned.to_string()),
            ("retry", self.retry.to_string()),
        ]
    }

    /// A statement about one row of an owner.
    #[must_use]
    pub fn of_owner(statement: &Arc<str>, owner: Option<ProcessId>, key: &Key) -> Query {
        let owner = Bind::Text(owner.map(|owner| owner.to_string()));
        Query::written(&**statement).bind(owner).key(key)
    }
}

/// The statement that reads a message's headers and its unique key, of a row `t` by this condition; empty where rows have none. A message that
/// has failed has given its unique key back; a mutex's is its id.
#[must_use]
pub fn headers_of(mapping: &Mapping, tables: &Tables, key: &str) -> String {
    let table = &mapping.table;
    match mapping.kind {
        Kind::Table => String::new(),
        Kind::Managed => format!("select t.headers, coalesce(t.unique_key, t.freed_key) from {table} t where {key}"),
        Kind::Mutex => {
            format!("select o.headers, null from {table} t join {} o on o.mutex = t.id where {key}", tables.outbox)
        }
    }
}

/// The statements that read keys and owners of rows that processes own, and of rows that are put aside. `key` is what is read of a key,
/// `owner` the owner as text.
#[must_use]
pub fn owners(mapping: &Mapping, conditions: &Conditions, key: &str, owner: &str) -> [Arc<str>; 2] {
    let (Conditions { new, nobody, .. }, Mapping { table, owner: column, .. }) = (conditions, mapping);
    [conditions.owned(column), format!("t.{column} = {nobody}")]
        .map(|whose| format!("select {key}, {owner} from {table} t where {new} and {whose} limit {MOST_OWNERS}").into())
}
