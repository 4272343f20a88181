//! What a reader must do, whoever wrote it: it keeps watching, hands out nothing twice, and gives back what was not done. Run for
//! the reader of every store's queue, and for readers of the user's own through [`reading!`](crate::reading).

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ichido::{Action, CancellationToken, Context, Error, Outcome, Pool, Process, Result, RetryPolicy, Settings, Store};
use serde::Deserialize;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::fixture::{Fixture, send};

/// Nobody waits longer than this for something that does not happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tests for a reader of the user's own.
#[macro_export]
macro_rules! reading {
    ($inbox:ty) => {
        $crate::conformance!(@ $inbox, reading: [
            every_message_is_handed_out_once, a_source_without_messages_is_watched,
            what_is_in_flight_is_not_handed_out_again, what_was_not_done_is_handed_out_again,
            a_message_that_fails_holds_up_nobody, a_stop_ends_the_wait_for_messages
        ]);
    };
}

/// Where a reader's messages come from.
pub trait Inbox: Sized + Send + Sync + 'static {
    /// The store that its process runs on.
    type Store: Store;

    /// An empty one.
    fn fresh() -> impl Future<Output = Self> + Send;

    /// The store.
    fn store(&self) -> Self::Store;

    /// Puts messages in: JSON objects with these ids.
    fn put(&self, ids: RangeInclusive<i64>) -> impl Future<Output = ()> + Send;

    /// A pool that reads them; a second one is like a second process.
    fn pool(&self, pool: Pool) -> Pool;
}

/// The queue of a store.
impl<F: Fixture> Inbox for F {
    type Store = F::Store;

    async fn fresh() -> Self {
        <F as Fixture>::fresh().await
    }

    fn store(&self) -> F::Store {
        Fixture::store(self)
    }

    async fn put(&self, ids: RangeInclusive<i64>) {
        let orders: Vec<_> = ids.map(|id| format!(r#"{{"id":{id},"name":"order {id}"}}"#)).collect();
        send(self, "orders", &orders.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }

    fn pool(&self, pool: Pool) -> Pool {
        pool.from("orders")
    }
}

#[derive(Deserialize)]
struct Numbered {
    id: i64,
}

/// Counts how often each message has begun and ended; one of them can be held up or fail.
struct Counting<S> {
    begun: Arc<Mutex<BTreeMap<i64, u32>>>,
    ended: watch::Sender<usize>,
    held: Option<i64>,
    begins: Arc<Notify>,
    go: Arc<Notify>,
    fails: Option<i64>,
    _store: PhantomData<fn(S)>,
}

impl<S: Store> Action<S> for Counting<S> {
    type Message = Numbered;

    async fn handle(&self, _: &mut Context<S>, message: Numbered) -> Result<Outcome> {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner).entry(message.id).or_default() += 1;
        if self.held == Some(message.id) {
            self.begins.notify_one();
            self.go.notified().await;
        }
        if self.fails == Some(message.id) {
            return Err(Error::Refused("this one never".into()));
        }
        self.ended.send_modify(|ended| *ended += 1);
        Ok(Outcome::Done)
    }
}

/// A process that reads, in the hands of a test.
struct Running {
    begun: Arc<Mutex<BTreeMap<i64, u32>>>,
    ended: watch::Receiver<usize>,
    begins: Arc<Notify>,
    go: Arc<Notify>,
    stop: CancellationToken,
    process: JoinHandle<Result<i32>>,
}

impl Running {
    fn start<I: Inbox>(inbox: &I, held: Option<i64>, fails: Option<i64>) -> Self {
        let (begun, begins, go) = (Arc::default(), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (sender, ended) = watch::channel(0);
        let stop = CancellationToken::new();
        let action = Counting {
            begun: Arc::clone(&begun),
            ended: sender,
            held,
            begins: begins.clone(),
            go: go.clone(),
            fails,
            _store: PhantomData,
        };
        // What is held up does not come to its end by itself.
        let grace = if held.is_some() { Duration::ZERO } else { PATIENCE };
        let settings = Settings { poll: Duration::from_millis(20), grace, ..Settings::default() };
        let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
        let pool = inbox.pool(Pool::new("Reading").concurrency(4).retry(retry));
        let process = Process::new(inbox.store()).settings(settings).stop_on(stop.clone()).action(pool, action);
        Running { begun, ended, begins, go, stop, process: tokio::spawn(process.run()) }
    }

    async fn until_ended(&mut self, messages: usize) {
        let all = self.ended.wait_for(|ended| *ended >= messages);
        let all = tokio::time::timeout(PATIENCE, all).await;
        assert!(all.is_ok_and(|all| all.is_ok()), "not all {messages} came to their end: {:?}", self.begun());
    }

    async fn stop(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.process).await.expect("a stop ends the process");
        assert_eq!(ended.unwrap().unwrap(), 0);
    }

    fn begun(&self) -> BTreeMap<i64, u32> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[track_caller]
    fn assert_each_once(&self, ids: RangeInclusive<i64>) {
        assert_eq!(self.begun(), ids.map(|id| (id, 1)).collect());
    }
}

pub async fn every_message_is_handed_out_once<I: Inbox>() {
    let inbox = I::fresh().await;
    inbox.put(1..=100).await;
    let mut running = Running::start(&inbox, None, None);
    running.until_ended(100).await;
    running.assert_each_once(1..=100);
    running.stop().await;
    inbox.put(101..=101).await;
    let mut again = Running::start(&inbox, None, None);
    again.until_ended(1).await;
    again.assert_each_once(101..=101);
    again.stop().await;
}

pub async fn a_source_without_messages_is_watched<I: Inbox>() {
    let inbox = I::fresh().await;
    let mut running = Running::start(&inbox, None, None);
    for round in 0..3 {
        inbox.put(round * 5 + 1..=round * 5 + 5).await;
        running.until_ended((usize::try_from(round).unwrap() + 1) * 5).await;
    }
    running.assert_each_once(1..=15);
    running.stop().await;
}

pub async fn what_is_in_flight_is_not_handed_out_again<I: Inbox>() {
    let inbox = I::fresh().await;
    inbox.put(1..=1).await;
    let mut running = Running::start(&inbox, Some(1), None);
    running.begins.notified().await;
    inbox.put(2..=40).await;
    running.until_ended(39).await;
    running.assert_each_once(1..=40);
    running.go.notify_one();
    running.until_ended(40).await;
    running.assert_each_once(1..=40);
    running.stop().await;
}

pub async fn what_was_not_done_is_handed_out_again<I: Inbox>() {
    let inbox = I::fresh().await;
    inbox.put(1..=1).await;
    let running = Running::start(&inbox, Some(1), None);
    running.begins.notified().await;
    running.stop().await;
    let mut again = Running::start(&inbox, None, None);
    again.until_ended(1).await;
    again.assert_each_once(1..=1);
    again.stop().await;
}

pub async fn a_message_that_fails_holds_up_nobody<I: Inbox>() {
    let inbox = I::fresh().await;
    inbox.put(1..=30).await;
    let mut running = Running::start(&inbox, None, Some(3));
    running.until_ended(29).await;
    let mut begun = running.begun();
    assert!(begun.remove(&3).is_some());
    assert!(begun.values().all(|times| *times == 1), "{begun:?}");
    running.stop().await;
}

pub async fn a_stop_ends_the_wait_for_messages<I: Inbox>() {
    let inbox = I::fresh().await;
    inbox.put(1..=1).await;
    let mut running = Running::start(&inbox, None, None);
    running.until_ended(1).await;
    running.stop().await;
}
