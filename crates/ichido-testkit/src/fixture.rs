//! What the cases need of a database: a fresh one with business tables, stores on it (each like a process of its own), and a
//! way to look and to interfere from outside. Each store crate has one in its `tests/suite/fixture.rs`. The fixtures of readers and
//! brokers are in the files beside.

mod broker;
mod no_database;
mod reader;
mod silence;

use std::{collections::BTreeMap, time::Duration};

use ichido::{
    Context, Delivery, Error, Inspect, Key, Message, Messages, NewMessage, Operate, Queue, Result, Status, Store,
    Table,
    inspect::ParkedFilter,
    message::{Claim, Order},
    sql::RunSql,
    store::{Answers, Database, Failure, ProcessId, Processes, Queues, Registration, Transactions},
};

pub use self::{
    broker::{BrokerFixture, Cut, ExchangeFixture, Line, Part},
    no_database::NoDatabase,
    reader::ReaderFixture,
    silence::{Silence, SilenceFixture},
};
use crate::eventually;

/// A fresh database of one kind.
pub trait Fixture: Sized + Send + Sync + 'static {
    /// The store under test.
    type Store: Operate + Messages + Answers + RunSql;

    /// Statements that fail, and of which one ends the transaction that it is in; none where no statement can do that alone.
    const ENDING: &'static [&'static str];

    /// Rows can be locked: `claim = "lock"` works.
    const LOCKS: bool = true;

    /// How a claim locks the row of its process, where rows can be locked: beside other claims, and before whoever ends the process.
    const SHARE: &'static str = "";

    /// A fresh database with [`TABLES`] and without ichido's own tables.
    fn empty() -> impl Future<Output = Self> + Send;

    /// Where the database is, for a process of the test's own to find it.
    fn place(&self) -> String;

    /// The database at that place, in another process.
    fn at(place: &str) -> impl Future<Output = Self> + Send;

    /// Another store on the same database: another process.
    fn store_with(&self, queues: Vec<Queue>) -> Self::Store;

    /// Runs statements from outside, as an operator would.
    fn sql(&self, statements: &str) -> impl Future<Output = ()> + Send;

    /// The single number that a query gives, asked from outside.
    fn number(&self, query: &str) -> impl Future<Output = i64> + Send;

    /// Runs a statement through a connection that ichido lent to an action.
    fn through(connection: &mut Connection<Self>, statement: String) -> impl Future<Output = Result<()>> + Send;

    /// Makes a process die: nobody writes its heartbeat any more.
    fn die(&self, store: Self::Store, process: ProcessId) -> impl Future<Output = ()> + Send;

    /// How many sessions of the database wait for a lock, where rows can be locked.
    fn lock_waits(&self) -> impl Future<Output = i64> + Send {
        async { 0 }
    }

    /// A fresh database with all tables.
    #[must_use]
    fn fresh() -> impl Future<Output = Self> + Send {
        async {
            let fixture = Self::empty().await;
            fixture.store().migrate().await.expect("a fresh database can be migrated");
            fixture
        }
    }

    /// Another store with the usual queues.
    fn store(&self) -> Self::Store {
        self.store_with(queues())
    }
}

/// What actions write through.
pub type Connection<F> = <<F as Fixture>::Store as Database>::Connection;

/// The business tables; `ledger` has no unique key, so that a double effect is counted and not refused.
pub const TABLES: &str = "
create table received_order (id integer primary key, name varchar(100), status char(1) default '0' not null, process_id char(36));
create table ticket (region varchar(20) not null, number integer not null, kind varchar(10) not null, priority integer default 0 not null,
    state varchar(10) default 'new' not null, taken_by varchar(64), primary key (region, number));
create table ledger (message varchar(200) not null, who varchar(200) not null);
create table only_one (id integer primary key);
";

/// A table queue with all three values, a managed queue, and a table queue with a composite key, an order of its own, a part
/// of the table, no failed value, and done rows that are deleted.
#[must_use]
pub fn queues() -> Vec<Queue> {
    let orders = Table::new("received_order", "process_id", Status::new("status", "0", "1").failed("2")).key(["id"]);
    let mut urgent =
        Table::new("ticket", "taken_by", Status::new("state", "new", "done")).only("kind", "urgent").delete_done();
    urgent.order_by = vec![Order::parse("-priority"), Order::parse("region"), Order::parse("number")];
    vec![Queue::table("orders", orders), Queue::managed("mail").payload_limit(1000), Queue::table("urgent", urgent)]
}

/// Nobody writes its heartbeat: longer than any case takes, and shorter than the hour that makes it dead.
const LEASE: Duration = Duration::from_mins(20);

/// A registered process with its store: what a case plays with.
pub struct Player<F: Fixture> {
    /// Its store.
    pub store: F::Store,
    /// What it registered.
    pub registration: Registration,
}

impl<F: Fixture> Player<F> {
    /// Registers a new process that allows three attempts.
    pub async fn join(fixture: &F) -> Self {
        Self::join_with(fixture.store(), &["orders", "mail", "urgent"]).await
    }

    /// The same with other queues.
    pub async fn join_with(store: F::Store, queues: &[&str]) -> Self {
        let queues: BTreeMap<_, _> = queues.iter().map(|queue| ((*queue).into(), 3)).collect();
        let registration = Registration::new("conformance", LEASE, queues);
        store.register(&registration).await.expect("a process can register");
        Player { store, registration }
    }

    /// Registers a new process that may have begun so many orders at once.
    pub async fn join_with_slots(fixture: &F, slots: u32) -> Self {
        let mut registration = Registration::new("conformance", LEASE, [("orders".into(), 3)].into());
        registration.slots.insert("orders".into(), slots);
        let store = fixture.store();
        store.register(&registration).await.expect("a process can register");
        Player { store, registration }
    }

    /// Claims messages.
    pub async fn claim(&self, queue: &str, count: usize) -> Vec<Delivery> {
        self.store.claim(self.registration.id, queue, count).await.expect("a live process can claim")
    }

    /// Claims exactly one message.
    pub async fn claim_one(&self, queue: &str) -> Delivery {
        let mut claimed = self.claim(queue, 1).await;
        assert_eq!(claimed.len(), 1, "there is one message to claim in {queue}");
        claimed.remove(0)
    }

    /// Runs a message to its end: the effect, the completion, COMMIT.
    ///
    /// # Errors
    /// What completion said; the effect is rolled back then.
    pub async fn finish(&self, delivery: &Delivery) -> Result<(), Error> {
        let mut tx = self.store.begin().await?;
        effect::<F>(F::Store::connection(&mut tx), &delivery.message).await?;
        match self.store.complete(&mut tx, std::slice::from_ref(delivery)).await {
            Ok(()) => self.store.commit(tx).await,
            Err(error) => {
                self.store.rollback(tx).await?;
                Err(error)
            }
        }
    }

    /// Forgets what is known about messages that are gone, in all its queues.
    pub async fn tidy(&self) {
        for queue in self.registration.queues.keys() {
            let mut after = Some(String::new());
            while let Some(key) = after {
                after = self.store.tidy(queue, &key).await.expect("a queue can be tidied");
            }
        }
    }

    /// Dies, with everything it has claimed.
    pub async fn die(self, fixture: &F) {
        fixture.die(self.store, self.registration.id).await;
    }
}

/// Sends messages in a transaction of its own and returns their ids as text.
pub async fn send<F: Fixture>(fixture: &F, queue: &str, payloads: &[&str]) -> Vec<String> {
    let store = fixture.store();
    let messages: Vec<_> = payloads.iter().map(|payload| NewMessage::new(*payload)).collect();
    let mut tx = store.begin().await.expect("a transaction can begin");
    let ids = store.send(F::Store::connection(&mut tx), queue, &messages).await.expect("messages can be sent");
    store.commit(tx).await.expect("a send can be committed");
    ids.iter().map(ToString::to_string).collect()
}

/// Sends so many orders, with ids from 1 on.
pub async fn send_orders<F: Fixture>(fixture: &F, count: i64) {
    let orders: Vec<_> = (1..=count).map(|id| format!(r#"{{"id":{id},"name":"order {id}"}}"#)).collect();
    send(fixture, "orders", &orders.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

/// A fresh database with so many orders.
pub async fn with_orders<F: Fixture>(count: i64) -> F {
    let fixture = F::fresh().await;
    send_orders(&fixture, count).await;
    fixture
}

/// A fresh database with one order, and a process that has claimed it.
pub async fn one_claimed<F: Fixture>() -> (F, Player<F>, Delivery) {
    let fixture = with_orders::<F>(1).await;
    let process = Player::join(&fixture).await;
    let delivery = process.claim_one("orders").await;
    (fixture, process, delivery)
}

/// A fresh database with an order and a mail, and a process.
pub async fn order_and_mail<F: Fixture>() -> (F, Player<F>) {
    let fixture = with_orders::<F>(1).await;
    send(&fixture, "mail", &["{}"]).await;
    let process = Player::join(&fixture).await;
    (fixture, process)
}

/// A fresh database with an order that one process had claimed, and another one has now; each with its delivery.
pub async fn claimed_after_another<F: Fixture>() -> (F, (Player<F>, Delivery), (Player<F>, Delivery)) {
    let (fixture, old, stale) = one_claimed::<F>().await;
    let new = Player::join(&fixture).await;
    old.store.release(&[stale.copy()]).await.expect("a claim can be released");
    let fresh = new.claim_one("orders").await;
    (fixture, (old, stale), (new, fresh))
}

/// The business effect of a message: one line in the ledger.
///
/// # Errors
/// What the database said.
pub async fn effect<F: Fixture>(connection: &mut Connection<F>, message: &Message) -> Result<()> {
    F::through(connection, format!("insert into ledger (message, who) values ('{}', 'action')", message.id())).await
}

/// The business effect of the message that an action has, in its transaction.
///
/// # Errors
/// What the database said.
pub async fn effect_here<F: Fixture>(cx: &mut Context<impl Store<Connection = Connection<F>>>) -> Result<()> {
    let message = cx.message()?.clone();
    effect::<F>(cx.tx().await?, &message).await
}

/// A delivery of a row that this process never claimed.
#[must_use]
pub fn forged(queue: &str, key: &str, owner: ProcessId) -> Delivery {
    let message = Message::new(queue, Key::new([key]), *b"{}");
    Delivery::claimed(message, Claim { owner, parked: false, suspect: false, group: None, locked: false }, 0)
}

/// Waits for a number that a query gives.
#[track_caller]
pub fn until<F: Fixture>(fixture: &F, query: &str, expected: i64) -> impl Future<Output = ()> {
    eventually(format!("{expected}, from: {query}"), async move || {
        let seen = fixture.number(query).await;
        if seen == expected { Ok(()) } else { Err(seen) }
    })
}

/// How many lines the ledger has.
pub async fn effects<F: Fixture>(fixture: &F) -> i64 {
    fixture.number("select count(*) from ledger").await
}

/// What has failed for good: id, attempts, error.
pub async fn failed<F: Fixture>(fixture: &F) -> Vec<(String, i64, String)> {
    failed_in(&fixture.store()).await
}

/// The same of the queues of a store.
pub async fn failed_in<S: Inspect>(store: &S) -> Vec<(String, i64, String)> {
    let failed = store.parked(&ParkedFilter::default()).await.expect("what has failed can be listed");
    let mut failed: Vec<_> = failed.into_iter().map(|parked| (parked.id, parked.attempts, parked.error)).collect();
    failed.sort_unstable();
    failed
}

/// What a store says that cannot work with its queues.
pub async fn refusal<S: Operate>(store: S) -> String {
    match store.prepare().await {
        Err(Error::Setup(text)) => text,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Asserts that a claim is gone.
#[track_caller]
pub fn assert_lost(result: &Result<(), Error>) {
    assert!(matches!(result, Err(Error::LostClaim)), "expected a lost claim, got {result:?}");
}

/// Asserts that a message that has failed holds its group, whatever the column takes for the same: the rows 1, 2 and 3 of the queue
/// are in one group, row 4 is in another. Then the process leaves.
pub async fn assert_group_is_held<F: Fixture>(process: &Player<F>, queue: &str, what: &str) {
    let (store, process) = (&process.store, process.registration.id);
    let claim = async || store.claim(process, queue, 10).await.expect("a live process can claim");
    let first = claim().await;
    let keys: Vec<_> = first.iter().map(|delivery| delivery.message.key.to_string()).collect();
    assert_eq!(keys, ["1", "4"], "{what}");
    assert!(store.park(&first[0], &Failure::dead("no", 3)).await.expect("a message can be parked"));
    assert!(claim().await.is_empty(), "{what}: the first holds its group");
    assert!(store.retry(&first[0].message.id()).await.expect("a message can be retried"));
    assert_eq!(claim().await[0].message.key.to_string(), "1", "{what}");
    store.deregister(process).await.expect("a process can leave");
}
