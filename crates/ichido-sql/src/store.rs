//! What a store gives to have the shared verbs: a way to run statements, what its dialect is, and what only it knows about rows and about
//! who is alive. The macros in `implement` put the verbs into a store's own `impl`s.

use std::ops::{Deref, DerefMut};

use ichido::{
    Delivery, Error, Key, NewMessage,
    error::Result,
    message::Claim,
    store::{Audit, ProcessId},
};

use crate::{Dialect, Known, Mapping, Query, Row, Sent, SqlQueue, Start, Tables};

/// A store that runs SQL.
pub trait SqlStore: Audit {
    /// How it writes SQL.
    type Dialect: Dialect;
    /// A queue with all its statements.
    type Queue: Deref<Target = SqlQueue> + Send + Sync;
    /// A short transaction of ichido's own; rolled back when it is dropped.
    type Own: DerefMut<Target = Self::Connection> + Send;

    /// What all clones of the store know of their database.
    fn known(&self) -> &Known<Self::Queue>;

    /// Looks at the tables of all queues and builds their statements.
    fn look_at_queues(&self) -> impl Future<Output = Result<Vec<Self::Queue>>> + Send;

    /// Begins a short transaction of ichido's own.
    fn begin_own(&self) -> impl Future<Output = Result<Self::Own>> + Send;

    /// Commits it.
    fn commit_own(own: Self::Own) -> impl Future<Output = Result<()>> + Send;

    /// Rolls it back.
    fn rollback_own(own: Self::Own) -> impl Future<Output = Result<()>> + Send;

    /// Runs a statement; how many rows it changed.
    fn execute(&self, connection: &mut Self::Connection, query: Query) -> impl Future<Output = Result<u64>> + Send;

    /// Runs a statement and reads its rows.
    fn fetch(&self, connection: &mut Self::Connection, query: Query) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// Reads, outside of any transaction.
    fn look(&self, query: Query) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// Runs one statement as a transaction of its own; how many rows it changed.
    fn write(&self, query: Query) -> impl Future<Output = Result<u64>> + Send {
        async move {
            let mut own = self.begin_own().await?;
            let changed = self.execute(&mut own, query).await?;
            Self::commit_own(own).await?;
            Ok(changed)
        }
    }

    /// Where ichido's own tables are.
    fn tables(&self) -> &Tables {
        &self.known().tables
    }

    /// All queues, looked at when they are first needed.
    fn queues(&self) -> impl Future<Output = Result<&[Self::Queue]>> + Send {
        let look = || async {
            let made = self.look_at_queues().await?;
            crate::refuse_overlaps(made.iter().map(|queue| (&*queue.queue, &*queue.identity)))?;
            Ok::<_, Error>(made)
        };
        async move {
            match self.known().queues.get() {
                Some(made) => Ok(made.as_slice()),
                // In a box: whoever calls us is moved with it for each message.
                None => Box::pin(self.known().queues.get_or_try_init(look)).await.map(Vec::as_slice),
            }
        }
    }

    /// A queue by its name.
    fn queue(&self, name: &str) -> impl Future<Output = Result<&Self::Queue>> + Send {
        async move {
            let all = self.queues().await?;
            let unknown = || crate::unknown_queue(name, all.iter().map(|queue| &*queue.queue));
            all.iter().find(|queue| &*queue.queue == name).ok_or_else(unknown)
        }
    }
}

/// What a process said with its last heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastHeartbeat {
    /// What it ran, as [`ichido::store::Running::write`] writes it.
    pub runs: Option<String>,
    /// How many milliseconds ago that was.
    pub age_ms: Option<i64>,
}

impl LastHeartbeat {
    /// Reads [`Dialect::RUNS`], from this column on.
    ///
    /// # Errors
    /// The columns are others.
    pub fn read(row: &Row, at: usize) -> Result<Self> {
        Ok(LastHeartbeat { runs: row.get(at)?, age_ms: row.get(at + 1)? })
    }
}

/// How a store knows who is alive: by the last heartbeat in the process's row, unless it says otherwise.
pub trait Liveness: SqlStore {
    /// Before a process becomes known.
    fn begin_life(&self, process: ProcessId) -> impl Future<Output = Result<()>> + Send {
        let _ = process;
        async { Ok(()) }
    }

    /// After a process, this one or a dead one, was forgotten.
    fn end_life(&self, process: ProcessId) {
        let _ = process;
    }

    /// Is a process alive, which [`Dialect::ALIVE`] says to be so or not?
    ///
    /// # Errors
    /// That cannot be known.
    fn is_alive(&self, process: ProcessId, by_row: bool) -> Result<bool> {
        let _ = process;
        Ok(by_row)
    }

    /// A heartbeat, with what the process runs; false if it has been declared dead. A process that is past its lease stays dead: it
    /// must come back under another id.
    fn write_heartbeat(&self, process: ProcessId, runs: Option<String>) -> impl Future<Output = Result<bool>> + Send {
        let (process_table, now) = (&self.tables().process, Self::Dialect::CLOCK);
        let heartbeat = format!(
            "update {process_table} as p set heartbeat_at = {now}, runs = ?2 where p.id = ?1 and {}",
            Self::Dialect::ALIVE
        );
        async move { Ok(self.write(Query::new(heartbeat).bind(process).bind(runs)).await? == 1) }
    }

    /// What a process said with its last heartbeat, of which its row says this.
    fn last_heartbeat(&self, process: ProcessId, in_row: LastHeartbeat) -> LastHeartbeat {
        let _ = process;
        in_row
    }

    /// Waits for a claim of a process that is still on its way, even one whose reply was lost, and lets no other begin: what it
    /// claims would belong to nobody.
    fn stop_claims(&self, tx: &mut Self::Connection, process: ProcessId) -> impl Future<Output = Result<()>> + Send {
        let table = &self.tables().process;
        let lock = format!("select 1 from {table} where id = ?1 {}", Self::Dialect::LOCK);
        let expire = format!("update {table} set heartbeat_at = {} where id = ?1", Self::Dialect::LONG_AGO);
        async move {
            self.fetch(tx, Query::new(lock).bind(process)).await?;
            self.execute(tx, Query::new(expire).bind(process)).await?;
            Ok(())
        }
    }
}

/// How a store claims rows of a queue.
pub trait Claiming: SqlStore {
    /// Claims messages that are in no group, from this place on, and tells whether there are messages in groups.
    fn claim_rows(
        &self,
        process: ProcessId,
        queue: &Self::Queue,
        count: usize,
        start: &Start,
    ) -> impl Future<Output = Result<(Vec<Delivery>, bool)>> + Send;
}

/// How a store claims from the groups of a queue.
pub trait Grouping: SqlStore {
    /// Claims the first messages of groups that nobody holds.
    fn claim_heads(
        &self,
        process: ProcessId,
        queue: &Self::Queue,
        count: usize,
    ) -> impl Future<Output = Result<Vec<Delivery>>> + Send;
}

/// How a store writes what is sent.
pub trait Sending: SqlStore {
    /// Writes the rows of messages, which nothing is wrong with, in the caller's transaction.
    fn insert(
        &self,
        tx: &mut Self::Connection,
        queue: &Self::Queue,
        messages: &[NewMessage],
    ) -> impl Future<Output = Result<Vec<Sent>>> + Send;
}

/// How a store guards the messages of brokers: by rows of the mutex table, and by the inbox.
pub trait Guarding: SqlStore {
    /// Nobody else is at the row of a message that is only locked, and from now on nobody can be until the transaction ends.
    fn is_free(
        &self,
        tx: &mut Self::Connection,
        queue: &Self::Queue,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// The id of a message is not in the inbox, and until the transaction ends nobody else can put it there, or make a mutex row for it.
    fn is_alone(
        &self,
        tx: &mut Self::Connection,
        queue: &Self::Queue,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// The mutex row that a message of an inbox is put aside with; false if somebody else has it, or it is done. Who has only locked
    /// the message may have to make the row.
    fn set_aside(
        &self,
        tx: &mut Self::Connection,
        queue: &Self::Queue,
        delivery: &Delivery,
        claim: &Claim,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// After an unknown COMMIT: is the id of a message not in the inbox? Waits for whoever is about to put it there.
    fn is_missing(&self, key: &Key) -> impl Future<Output = Result<bool>> + Send;
}

/// What else a store says about rows and errors in a way of its own.
pub trait SqlRows: Liveness + Sending + Claiming + Grouping + Guarding {
    /// A statement of a queue about many keys, with an owner as the first parameter if there is one.
    fn of_keys(queue: &Self::Queue, statement: &str, owner: Option<ProcessId>, keys: &[Key], end: &str) -> Query;

    /// The statements of a queue, with what they do.
    fn statements_of(queue: &Self::Queue) -> Vec<(&'static str, String)>;

    /// The table of a queue, and how its rows are messages.
    fn mapping_of(queue: &Self::Queue) -> &Mapping;

    /// A column of a queue's rows as text that can be read back; the table is called `t`.
    ///
    /// # Errors
    /// The column cannot be named.
    fn text_of(queue: &Self::Queue, column: &str) -> Result<String>;

    /// A value of that column, whose text this parameter is.
    ///
    /// # Errors
    /// The column cannot be named.
    fn value_of(queue: &Self::Queue, column: &str, parameter: &str) -> Result<String>;

    /// Are the rows of an owner found by an index? Where the claim index has the owner in it, they are.
    fn has_owner_index(&self, queue: &Self::Queue) -> impl Future<Output = Result<bool>> + Send {
        let _ = queue;
        async { Ok(true) }
    }

    /// The payload of a message, if it is still there.
    fn payload_of(&self, queue: &Self::Queue, key: &Key) -> impl Future<Output = Result<Option<String>>> + Send {
        async move {
            let rows = self.look(Query::written(&*queue.payload).key(key)).await?;
            let payload = rows.first().map(|row| row.get::<Option<Vec<u8>>>(0)).transpose()?.flatten();
            Ok(payload.map(|payload| String::from_utf8_lossy(&payload).into_owned()))
        }
    }

    /// Is a unique key taken?
    fn is_unique(error: &Error) -> bool;

    /// The error of a statement in a business transaction, which may have ended behind our back.
    fn broken(error: Error) -> Error;
}
