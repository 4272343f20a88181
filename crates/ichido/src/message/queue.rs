//! Where messages wait, as the user describes it: a business table with a status and an owner column, or just a name
//! for a queue of ichido's own. Stores turn a [`Queue`] into statements; nothing here knows SQL.

use std::{sync::Arc, time::Duration};

/// A queue: its name and where its messages are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queue {
    /// The name that actions, senders and operators use.
    pub name: Arc<str>,
    /// Where its messages are.
    pub place: Place,
    /// The largest payload in bytes; what is larger is refused at send and parked at claim.
    pub payload_limit: usize,
}

/// Where a queue's messages are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// In ichido's own message table.
    Managed,
    /// In one of your own tables.
    Table(Box<Table>),
    /// At a broker, guarded by rows in the database.
    Broker(Box<Guarded>),
}

/// How the messages of a broker's queue are guarded by rows in the database, and where they are published to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guarded {
    /// Where messages are published to.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// The queue's name at the broker: what is retried goes there, and nowhere else.
    pub queue: String,
    /// How a duplicate delivery is recognised.
    pub by: GuardBy,
    /// How a row is held while the action runs.
    pub claim: ClaimBy,
    /// What happens to a delivery whose message another worker is processing.
    pub on_busy: OnBusy,
    /// How long a relay lease lasts; after that, another relay may publish.
    pub relay_after: Duration,
    /// The broker keeps the order of the messages of a group, so that they can have one.
    pub groups: bool,
}

/// How a duplicate delivery is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardBy {
    /// Its sender's mutex row is still there.
    Mutex,
    /// Its id is not in the inbox yet: for foreign senders, and where each of several queues gets a copy.
    Inbox,
}

/// How a mutex row is held while the action runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimBy {
    /// By a row lock of the business transaction.
    Lock,
    /// By an owner, for as long as that process is alive: for long actions, and the only way on `SQLite`.
    Lease,
}

/// What happens to a delivery whose message another worker is processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBusy {
    /// It comes back after a delay; nothing is counted.
    Delay,
    /// It is dead-lettered.
    DeadLetter,
}

/// How a business table maps to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Table {
    /// The schema, if it is not the connection's.
    pub schema: Option<String>,
    /// The table.
    pub name: String,
    /// Key columns; empty: the primary key.
    pub key: Vec<String>,
    /// The status column and its values.
    pub status: Status,
    /// The owner column.
    pub owner: String,
    /// The order in which rows are claimed; empty: by key.
    pub order_by: Vec<Order>,
    /// Only rows with these values belong to the queue.
    pub only: Vec<(String, String)>,
    /// What happens to a done row.
    pub on_done: OnDone,
    /// Rows with the same value in this column run one at a time and in order.
    pub group_by: Option<String>,
    /// The column that says when a row was sent.
    pub sent_at: Option<String>,
}

/// The status column and what its values mean.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The column.
    pub column: String,
    /// The value of unprocessed rows.
    pub new: String,
    /// The value of done rows; none if done rows are deleted.
    pub done: Option<String>,
    /// The value of rows that have failed for good; none if they stay `new`, out of circulation.
    pub failed: Option<String>,
}

/// A column of the claim order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The column.
    pub column: String,
    /// Largest first.
    pub descending: bool,
}

/// What happens to a done row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDone {
    /// Its status changes.
    Status,
    /// It is deleted.
    Delete,
}

/// The payload limit of a queue that sets none.
pub const PAYLOAD_LIMIT: usize = 256 * 1024;

impl Queue {
    /// A queue in ichido's own message table: only a name is needed.
    pub fn managed(name: impl Into<Arc<str>>) -> Self {
        Queue { name: name.into(), place: Place::Managed, payload_limit: PAYLOAD_LIMIT }
    }

    /// A table of your own as a queue.
    pub fn table(name: impl Into<Arc<str>>, table: Table) -> Self {
        Queue { name: name.into(), place: Place::Table(Box::new(table)), payload_limit: PAYLOAD_LIMIT }
    }

    /// A queue at a broker, guarded by rows in the database.
    pub fn broker(name: impl Into<Arc<str>>, guarded: Guarded) -> Self {
        Queue { name: name.into(), place: Place::Broker(Box::new(guarded)), payload_limit: PAYLOAD_LIMIT }
    }

    /// Sets the largest payload, in bytes.
    #[must_use]
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.payload_limit = bytes;
        self
    }
}

impl Guarded {
    /// Messages that are published to this exchange with this key, guarded by a row lock.
    pub fn new(exchange: impl Into<String>, routing_key: impl Into<String>) -> Self {
        let routing_key = routing_key.into();
        Guarded {
            exchange: exchange.into(),
            queue: routing_key.clone(),
            routing_key,
            by: GuardBy::Mutex,
            claim: ClaimBy::Lock,
            on_busy: OnBusy::Delay,
            relay_after: Duration::from_secs(5),
            groups: false,
        }
    }

    /// Sets the queue's name at the broker, if it differs from the routing key.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = name.into();
        self
    }

    /// At a broker that keeps the order of groups.
    #[must_use]
    pub fn groups(mut self) -> Self {
        self.groups = true;
        self
    }

    /// Guarded by the inbox instead of the sender's mutex.
    #[must_use]
    pub fn inbox(mut self) -> Self {
        self.by = GuardBy::Inbox;
        self
    }

    /// Guarded by an owner instead of a lock.
    #[must_use]
    pub fn lease(mut self) -> Self {
        self.claim = ClaimBy::Lease;
        self
    }

    /// Dead-letters busy deliveries instead of delaying them.
    #[must_use]
    pub fn dead_letter_busy(mut self) -> Self {
        self.on_busy = OnBusy::DeadLetter;
        self
    }

    /// How long a relay lease lasts.
    #[must_use]
    pub fn relay_after(mut self, time: Duration) -> Self {
        self.relay_after = time;
        self
    }
}

impl Table {
    /// A table with its owner column and its status column; claimed by primary key, done rows keep their place.
    pub fn new(name: impl Into<String>, owner: impl Into<String>, status: Status) -> Self {
        Table {
            schema: None,
            name: name.into(),
            key: Vec::new(),
            status,
            owner: owner.into(),
            order_by: Vec::new(),
            only: Vec::new(),
            on_done: OnDone::Status,
            group_by: None,
            sent_at: None,
        }
    }

    /// What rows of which table these are, for the comparison with what other processes and queues mean.
    #[must_use]
    pub fn place(&self) -> String {
        let Table { schema, name, status, owner, only, .. } = self;
        let schema = schema.as_deref().unwrap_or_default();
        format!("{schema}.{name}:{}={}:{owner}:{only:?}", status.column, status.new)
    }

    /// Which part of its table belongs to the queue, for the comparison with other queues over the same table.
    #[must_use]
    pub fn part(&self) -> String {
        format!("{}={}:{:?}", self.status.column, self.status.new, self.only)
    }

    /// The same with 1 and 0 for true and false, for a column whose booleans are numbers.
    #[must_use]
    pub fn flags_as_numbers(&self) -> Self {
        let number = |value: &str| match value {
            "true" => "1".to_owned(),
            "false" => "0".to_owned(),
            other => other.to_owned(),
        };
        let mut table = self.clone();
        table.status.new = number(&self.status.new);
        table.status.done = self.status.done.as_deref().map(number);
        table.status.failed = self.status.failed.as_deref().map(number);
        table
    }

    /// The schema that the table is in.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// The key columns, if they are not the primary key.
    #[must_use]
    pub fn key<T: Into<String>>(mut self, columns: impl IntoIterator<Item = T>) -> Self {
        self.key = columns.into_iter().map(Into::into).collect();
        self
    }

    /// The claim order; `-column` descends.
    #[must_use]
    pub fn order_by<T: AsRef<str>>(mut self, columns: impl IntoIterator<Item = T>) -> Self {
        self.order_by = columns.into_iter().map(|column| Order::parse(column.as_ref())).collect();
        self
    }

    /// Only rows with this value belong to the queue.
    #[must_use]
    pub fn only(mut self, column: impl Into<String>, value: impl Into<String>) -> Self {
        self.only.push((column.into(), value.into()));
        self
    }

    /// Rows with the same value in this column run one at a time and in order; null: no group.
    #[must_use]
    pub fn group_by(mut self, column: impl Into<String>) -> Self {
        self.group_by = Some(column.into());
        self
    }

    /// The column that says when a row was sent.
    #[must_use]
    pub fn sent_at(mut self, column: impl Into<String>) -> Self {
        self.sent_at = Some(column.into());
        self
    }

    /// Done rows are deleted.
    #[must_use]
    pub fn delete_done(mut self) -> Self {
        self.on_done = OnDone::Delete;
        self
    }
}

impl Status {
    /// A status column and its values for unprocessed and done rows.
    pub fn new(column: impl Into<String>, new: impl Into<String>, done: impl Into<String>) -> Self {
        Status { column: column.into(), new: new.into(), done: Some(done.into()), failed: None }
    }

    /// The value of rows that have failed for good.
    #[must_use]
    pub fn failed(mut self, value: impl Into<String>) -> Self {
        self.failed = Some(value.into());
        self
    }
}

impl Order {
    /// `column`, or `-column` for largest first.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix('-') {
            Some(column) => Order { column: column.into(), descending: true },
            None => Order { column: text.into(), descending: false },
        }
    }
}
