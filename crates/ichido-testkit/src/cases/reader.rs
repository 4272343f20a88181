//! What a reader must do, whoever wrote it: it keeps watching, hands out nothing twice, and releases what was not done. Run for
//! the reader of every store's queue, and for readers of the user's own through [`reading!`](crate::reading).

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ichido::{
    Action, CancellationToken, Context, Error, Outcome, Pool, Process, Result, RetryPolicy, Store, process::Settings,
};
use serde::Deserialize;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{LIMIT, fixture::ReaderFixture, in_time};

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
            return Err(Error::Refused("this one never".into()).into());
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
    process: JoinHandle<Result<i32, Error>>,
}

impl Running {
    fn start<R: ReaderFixture>(fixture: &R, held: Option<i64>, fails: Option<i64>) -> Self {
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
        let grace = if held.is_some() { Duration::ZERO } else { LIMIT };
        let settings = Settings { poll: Duration::from_millis(20), grace, ..Settings::default() };
        let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
        let pool = fixture.pool(Pool::new("Reading").concurrency(4).retry(retry));
        let process = Process::new(fixture.store()).settings(settings).stop_on(stop.clone()).action(pool, action);
        Running { begun, ended, begins, go, stop, process: tokio::spawn(process.run()) }
    }

    async fn until_ended(&mut self, messages: usize) {
        let all = self.ended.wait_for(|ended| *ended >= messages);
        let all = tokio::time::timeout(LIMIT, all).await;
        assert!(all.is_ok_and(|all| all.is_ok()), "not all {messages} came to their end: {:?}", self.begun());
    }

    async fn stop(self) {
        self.stop.cancel();
        let ended = in_time("a stop ends the process", self.process).await;
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

pub async fn every_message_is_handed_out_once<R: ReaderFixture>() {
    let fixture = R::fresh().await;
    fixture.put(1..=100).await;
    let mut running = Running::start(&fixture, None, None);
    running.until_ended(100).await;
    running.assert_each_once(1..=100);
    running.stop().await;
    fixture.put(101..=101).await;
    let mut again = Running::start(&fixture, None, None);
    again.until_ended(1).await;
    again.assert_each_once(101..=101);
    again.stop().await;
}

pub async fn a_source_without_messages_is_watched<R: ReaderFixture>() {
    let fixture = R::fresh().await;
    let mut running = Running::start(&fixture, None, None);
    for round in 0..3 {
        fixture.put(round * 5 + 1..=round * 5 + 5).await;
        running.until_ended((usize::try_from(round).unwrap() + 1) * 5).await;
    }
    running.assert_each_once(1..=15);
    running.stop().await;
}

pub async fn what_is_in_flight_is_not_handed_out_again<R: ReaderFixture>() {
    let fixture = R::fresh().await;
    fixture.put(1..=1).await;
    let mut running = Running::start(&fixture, Some(1), None);
    running.begins.notified().await;
    fixture.put(2..=40).await;
    running.until_ended(39).await;
    running.assert_each_once(1..=40);
    running.go.notify_one();
    running.until_ended(40).await;
    running.assert_each_once(1..=40);
    running.stop().await;
}

pub async fn what_was_not_done_is_handed_out_again<R: ReaderFixture>() {
    let fixture = R::fresh().await;
    fixture.put(1..=1).await;
    let running = Running::start(&fixture, Some(1), None);
    running.begins.notified().await;
    running.stop().await;
    let mut again = Running::start(&fixture, None, None);
    again.until_ended(1).await;
    again.assert_each_once(1..=1);
    again.stop().await;
}

pub async fn a_message_that_fails_holds_up_nobody<R: ReaderFixture>() {
    let fixture = R::fresh().await;
    fixture.put(1..=30).await;
    let mut running = Running::start(&fixture, None, Some(3));
    running.until_ended(29).await;
    let mut begun = running.begun();
    assert!(begun.remove(&3).is_some());
    assert!(begun.values().all(|times| *times == 1), "{begun:?}");
    running.stop().await;
}

pub async fn a_stop_ends_the_wait_for_messages<R: ReaderFixture>() {
    let fixture = R::fresh().await;
    fixture.put(1..=1).await;
    let mut running = Running::start(&fixture, None, None);
    running.until_ended(1).await;
    running.stop().await;
}
