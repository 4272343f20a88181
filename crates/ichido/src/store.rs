//! The seam for databases. A store keeps queues, claims, parked messages and processes; one method is one verb of
//! ARCHITECTURE.md (Words), guarded by claim and state, and obeys the row count. `ichido-sqlite`, `ichido-postgres` and
//! `ichido-mysql` implement it; `ichido-testkit` says what an implementation must do.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error as StdError,
    fmt,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use uuid::Uuid;

use crate::{
    Bell, Circulating, Delivery, Flags, Found, Guard, Key, Message, MessageId, NewMessage, Publication, Result,
    Retention, Terms, Unsent, stat::Stat,
};

/// A database that holds the business tables and ichido's own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the stores are `Sqlite`, `Postgres` and `MySql`"
)]
pub trait Store: Clone + Send + Sync + 'static {
    /// An open business transaction, owned.
    type Tx: Send + 'static;
    /// What actions write through: `&mut Self::Connection` is a sqlx executor.
    type Connection: Send + 'static;

    /// The connection inside a transaction.
    fn connection(tx: &mut Self::Tx) -> &mut Self::Connection;

    /// Does this error say that the database is at fault (gone, deadlock, full), not the message?
    fn is_fault(cause: &(dyn StdError + 'static)) -> bool;

    /// Looks at the queues' tables and at the schema's version, once; every other method does it when it must.
    fn prepare(&self) -> impl Future<Output = Result<()>> + Send;

    /// The same database through one connection of its own, for the thread that gives the sign of life.
    #[must_use]
    fn apart(&self) -> Self;

    /// How long a process must have been alive without a gap before it may declare others dead: after an outage of the
    /// database the fleet must not bury itself.
    fn patience(&self, lease: Duration) -> Duration {
        lease
    }

    /// Rings when something is sent; all clones share it.
    fn bell(&self) -> &Bell;

    /// Tells other hosts that something was sent to a queue, outside the transaction that sent it.
    fn notify(&self, queue: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = queue;
        async { Ok(()) }
    }

    /// Hears what other hosts tell, for ever; where that cannot be done, polling remains.
    fn listen(&self, ring: impl Fn(&str) + Send + Sync) -> impl Future<Output = ()> + Send {
        let _ = ring;
        std::future::pending()
    }

    /// Does the database answer?
    fn ping(&self) -> impl Future<Output = Result<()>> + Send;

    /// Can business transactions be begun on these terms?
    ///
    /// # Errors
    /// [`crate::Error::Setup`] if this database has no such thing.
    fn admits(&self, terms: &Terms) -> Result<()> {
        let _ = terms;
        Ok(())
    }

    /// Begins a business transaction that can prove its identity at completion.
    fn begin_on(&self, terms: Terms) -> impl Future<Output = Result<Self::Tx>> + Send;

    /// Begins one on the usual terms.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx>> + Send {
        self.begin_on(Terms::default())
    }

    /// Moves the messages through the one-way door, as the last statement of their transaction.
    ///
    /// [`crate::Error::LostClaim`] if one of them is not ours any more, [`crate::Error::BrokenTransaction`] if this is
    /// not the transaction that was begun; the caller rolls back.
    fn complete(&self, tx: &mut Self::Tx, done: &[Delivery]) -> impl Future<Output = Result<()>> + Send;

    /// Records in a business transaction that its message has failed: the other door, for what is to be committed with a
    /// failure. The same errors as [`Store::complete`].
    fn fail(
        &self,
        tx: &mut Self::Tx,
        delivery: &Delivery,
        failure: &Failure,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Notes in a business transaction that a set of files belongs to it. Fails if it was decided that the set does not.
    fn note_files(&self, tx: &mut Self::Tx, set: FileSetId) -> impl Future<Output = Result<()>> + Send;

    /// Is the transaction that this set belongs to committed? Waits for one that is about to be. If it is not, it never
    /// will be: [`Store::note_files`] fails from now on.
    fn decide_files(&self, set: FileSetId) -> impl Future<Output = Result<bool>> + Send;

    /// The files of a committed set are in their places; without a number, those of all committed sets of that stage.
    fn forget_files(&self, stage: ProcessId, number: Option<i64>) -> impl Future<Output = Result<()>> + Send;

    /// Commits. An error means that the outcome is unknown.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<()>> + Send;

    /// Rolls back.
    fn rollback(&self, tx: Self::Tx) -> impl Future<Output = Result<()>> + Send;

    /// After an unknown COMMIT: is the message still unprocessed and ours? Waits for the row, so that a COMMIT that is
    /// being applied is seen.
    fn is_claimed(&self, delivery: &Delivery) -> impl Future<Output = Result<bool>> + Send;

    /// Puts messages into a queue, in the caller's transaction.
    fn send(
        &self,
        connection: &mut Self::Connection,
        queue: &str,
        messages: &[NewMessage],
    ) -> impl Future<Output = Result<Vec<MessageId>>> + Send;

    /// Marks up to `count` claimable messages as this process's, in order.
    ///
    /// [`crate::Error::LostClaim`] if the process has been declared dead.
    fn claim(
        &self,
        process: ProcessId,
        queue: &str,
        count: usize,
    ) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// What this process has claimed in the queue: finds claims whose reply was lost.
    fn claimed(&self, process: ProcessId, queue: &str) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// Gives claims back; nothing is counted.
    fn release(&self, deliveries: &[Delivery]) -> impl Future<Output = Result<()>> + Send;

    /// Records a failure and puts the message aside; false if the claim was gone.
    fn park(&self, delivery: &Delivery, failure: &Failure) -> impl Future<Output = Result<bool>> + Send;

    /// How a broker's queue is guarded.
    ///
    /// [`crate::Error::Setup`] if no broker keeps it.
    fn guard(&self, queue: &str) -> impl Future<Output = Result<Guard>> + Send;

    /// Locks the row of a message that a broker handed out, without waiting, in a business transaction that has done nothing
    /// else yet. If the row is not to be had, the transaction is rolled back next.
    fn lock(&self, tx: &mut Self::Tx, delivery: &Delivery) -> impl Future<Output = Result<Found>> + Send;

    /// Begins a business transaction and locks the row of this message in it: both of these, for a store that has no shorter
    /// way.
    fn begin_locked(
        &self,
        terms: Terms,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<(Self::Tx, Found)>> + Send {
        async move {
            let mut tx = self.begin_on(terms).await?;
            match self.lock(&mut tx, delivery).await {
                Ok(found) => Ok((tx, found)),
                Err(error) => {
                    // Now, and not when it is dropped: what comes next must not meet its lock.
                    let _ = self.rollback(tx).await;
                    Err(error)
                }
            }
        }
    }

    /// Marks the rows of these messages, which a broker handed out, as this process's, as far as they are free or are its own
    /// already; what was found, in the order of the keys.
    ///
    /// [`crate::Error::LostClaim`] if the process has been declared dead.
    fn claim_these(
        &self,
        process: ProcessId,
        queue: &str,
        keys: &[Key],
    ) -> impl Future<Output = Result<Vec<Found>>> + Send;

    /// The queues that brokers keep.
    fn broker_queues(&self) -> Vec<Arc<str>>;

    /// Puts messages into the outbox, in the caller's transaction: they are published through the broker of this queue, and are
    /// not seen in this database again.
    fn publish(
        &self,
        connection: &mut Self::Connection,
        queue: &str,
        messages: &[Publication],
    ) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// Up to `most` messages of the queue that are due and not known to be published, in the order in which they were sent.
    fn unsent(&self, queue: &str, most: usize) -> impl Future<Output = Result<Vec<Unsent>>> + Send;

    /// The turn to publish what was sent to a queue, for the queue's `relay_after` from now on: one relay at a time has it, so that
    /// the order of sends is kept. False if another one has it.
    fn take_turn(&self, relay: ProcessId, queue: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Leaves the turn to others, if this relay has it.
    fn leave_turn(&self, relay: ProcessId, queue: &str) -> impl Future<Output = Result<()>> + Send;

    /// What should be with the broker since so long, up to `most`.
    fn circulating(&self, queue: &str, age: Duration, most: usize) -> impl Future<Output = Result<Circulating>> + Send;

    /// Keeps what a message at a broker says, for a retry, if its row is here and nothing of it is kept: another program has sent it.
    /// False if that is not so, or somebody is at its row.
    fn keep(&self, message: &Message) -> impl Future<Output = Result<bool>> + Send;

    /// Publishes up to `most` of these again that nobody is at, in this order; how many.
    fn publish_again(&self, queue: &str, keys: &[Key], most: usize) -> impl Future<Output = Result<u64>> + Send;

    /// These are with the broker now.
    fn note_published(&self, queue: &str, published: &[&Unsent]) -> impl Future<Output = Result<()>> + Send;

    /// This one is not, for this reason; it is due again after a while.
    fn note_unpublished(
        &self,
        queue: &str,
        unsent: &Unsent,
        error: &str,
        wait: Duration,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The first of these queues in which something is unprocessed, whoever owns it, or waits for a retry. All are looked at in
    /// the same moment: what moves from one to another in a transaction is seen in one of them.
    fn undrained(&self, queues: &[Arc<str>]) -> impl Future<Output = Result<Option<Arc<str>>>> + Send;

    /// Is nothing unprocessed in the queue, whoever owns it, and nothing waiting for a retry?
    fn is_drained(&self, queue: &str) -> impl Future<Output = Result<bool>> + Send {
        async move { Ok(self.undrained(&[queue.into()]).await?.is_none()) }
    }

    /// How many messages of the queue can be claimed now; at most [`crate::backend::MOST_COUNTED`] are counted. None if that
    /// would cost too much.
    fn backlog(&self, queue: &str) -> impl Future<Output = Result<Option<u64>>> + Send {
        let _ = queue;
        async { Ok(None) }
    }

    /// Makes a process known, with its queues and request ids.
    ///
    /// [`crate::Error::Duplicate`] if another live process serves one that it must serve alone; of two that register at
    /// the same moment one is refused.
    fn register(&self, process: &Registration) -> impl Future<Output = Result<()>> + Send;

    /// A sign of life; false if the process has been declared dead.
    fn beat(&self, process: ProcessId) -> impl Future<Output = Result<bool>> + Send;

    /// Before a suspect runs: the durable mark that spends its attempt if the process dies. `None` takes it away.
    fn mark_running(&self, process: ProcessId, suspect: Option<&MessageId>) -> impl Future<Output = Result<()>> + Send;

    /// Frees what the process has claimed and forgets the process; nothing is counted.
    fn leave(&self, process: ProcessId) -> impl Future<Output = Result<()>> + Send;

    /// From now on the process does not serve this request id any more.
    fn quit(&self, process: ProcessId, request_id: &str) -> impl Future<Output = Result<()>> + Send;

    /// Is there anything to return or to rescue, and what do operators ask of its request ids? One look for all, for a
    /// process that has nothing else to do.
    fn look_around(&self, by: &Registration) -> impl Future<Output = Result<Around>> + Send;

    /// Frees what dead processes had claimed in the queues that this process serves, as suspects.
    fn rescue(&self, by: &Registration) -> impl Future<Output = Result<Rescued>> + Send;

    /// Keeps the longest time that a message of a queue has taken, for the warnings of `check`.
    fn note_longest(&self, queue: &str, time: Duration) -> impl Future<Output = Result<()>> + Send;

    /// Writes what a process has counted in a minute, as a whole: rows that are there already are replaced. One statement.
    fn note_stats(&self, process: ProcessId, minute: i64, stats: &[Stat]) -> impl Future<Output = Result<()>> + Send;

    /// Forgets what is older than it is to be kept, some of it at a time. Writes nothing if there is nothing to forget.
    fn prune(&self, retention: Retention) -> impl Future<Output = Result<()>> + Send;

    /// Returns parked messages whose time has come.
    fn return_due(&self, by: &Registration) -> impl Future<Output = Result<u64>> + Send;

    /// Forgets what is known about messages that are gone or were set to new by hand.
    fn tidy(&self, by: &Registration) -> impl Future<Output = Result<()>> + Send;
}

/// A set of files that belongs to one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSetId {
    /// Where it waits until it is seen.
    pub stage: ProcessId,
    /// Its number there.
    pub number: i64,
}

/// A process, new at each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(Uuid);

impl ProcessId {
    /// The owner of parked messages: no process has it.
    pub const NOBODY: ProcessId = ProcessId(Uuid::nil());

    /// An id that no other process has or had.
    #[must_use]
    pub fn random() -> Self {
        ProcessId(Uuid::now_v7())
    }

    /// Its last digits, which are random: enough to tell processes apart in a log.
    pub(crate) fn short(self) -> String {
        let mut digits = Uuid::encode_buffer();
        self.0.simple().encode_lower(&mut digits)[20..].to_owned()
    }

    /// The id as UUID.
    #[must_use]
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for ProcessId {
    fn from(uuid: Uuid) -> Self {
        ProcessId(uuid)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ProcessId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.trim().parse().map(ProcessId)
    }
}

/// What a process tells about itself when it registers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Registration {
    /// Its id.
    pub id: ProcessId,
    /// The request ids it serves.
    pub request_ids: BTreeSet<Arc<str>>,
    /// Those of them that no other live process may serve.
    pub alone: BTreeSet<Arc<str>>,
    /// Without a sign of life for this long it is dead.
    pub lease: Duration,
    /// The queues it serves, and how often each one's messages may run.
    pub queues: BTreeMap<Arc<str>, u32>,
    /// The queues that it publishes for.
    pub relays: BTreeSet<Arc<str>>,
}

impl Registration {
    /// A process that serves these queues under this request id.
    pub fn new(request_id: impl Into<Arc<str>>, lease: Duration, queues: BTreeMap<Arc<str>, u32>) -> Self {
        Registration::of([request_id.into()].into(), lease, queues)
    }

    /// A process that serves these queues under these request ids.
    #[must_use]
    pub fn of(request_ids: BTreeSet<Arc<str>>, lease: Duration, queues: BTreeMap<Arc<str>, u32>) -> Self {
        Registration {
            id: ProcessId::random(),
            request_ids,
            alone: BTreeSet::new(),
            lease,
            queues,
            relays: BTreeSet::new(),
        }
    }

    /// Its request ids in one text, for operators.
    #[must_use]
    pub fn title(&self) -> String {
        let all: Vec<_> = self.request_ids.iter().map(AsRef::as_ref).collect();
        all.join(",").chars().take(LONGEST_REQUEST_ID).collect()
    }
}

/// The name of this machine, for operators.
#[must_use]
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    name.trim().to_owned()
}

/// Why a message is put aside, and for how long.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Failure {
    /// What an operator reads.
    pub error: String,
    /// Runs that failed by themselves, this one included if it did.
    pub failures: u32,
    /// When it runs again; none: it has failed for good.
    pub retry_after: Option<Duration>,
    /// What kind of failure it is, for the monitor.
    pub(crate) code: &'static str,
}

impl Failure {
    /// A failure for good.
    pub fn dead(error: impl Into<String>, failures: u32) -> Self {
        Failure { error: error.into(), failures, retry_after: None, code: "error" }
    }

    /// A failure that is tried again after this time.
    pub fn waiting(error: impl Into<String>, failures: u32, retry_after: Duration) -> Self {
        Failure { error: error.into(), failures, retry_after: Some(retry_after), code: "error" }
    }
}

/// The longest request id, in characters.
pub const LONGEST_REQUEST_ID: usize = 255;

/// What a process sees around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// There may be parked messages whose time has come.
    pub due: bool,
    /// There may be dead processes.
    pub dead: bool,
    /// There may be messages to publish.
    pub unsent: bool,
    /// The minute that it is, by the database's clock, since 1970.
    pub minute: i64,
    /// What operators ask of the process's request ids; those of which they ask nothing may be missing.
    pub flags: BTreeMap<String, Flags>,
}

/// What a rescue did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Processes found dead.
    pub processes: u64,
    /// Messages freed as suspects.
    pub messages: u64,
    /// Messages parked because they killed their process once too often.
    pub parked: u64,
}
