//! What the cases about lanes play with: an action that writes down what starts, in order, and holds up what the test wants held
//! up; a process on a thread of its own; a clock that only the test moves.

use std::{
    collections::BTreeSet,
    marker::PhantomData,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ichido::{
    Action, BoxFuture, CancellationToken, Context, Error, Outcome, Pool, Process, Result, Store, process::Clock,
    testing::Dial,
};
use serde::Deserialize;
use tokio::sync::{Semaphore, watch};

use crate::{LIMIT, in_time};

#[derive(Deserialize)]
pub(super) struct Numbered {
    pub(super) id: i64,
}

/// Writes down what starts; some messages are held until the test lets them go, and some fail.
pub(super) struct Serving<S> {
    diary: Arc<Diary>,
    _store: PhantomData<fn(S)>,
}

pub(super) struct Diary {
    /// Queue and id, by the number of the execution.
    starts: watch::Sender<Vec<(u64, String, i64)>>,
    done: watch::Sender<usize>,
    held: Mutex<BTreeSet<(String, i64)>>,
    fails: BTreeSet<(String, i64)>,
    go: Semaphore,
}

impl Diary {
    pub(super) fn new(held: &[(&str, RangeInclusive<i64>)], fails: &[(&str, i64)]) -> Arc<Self> {
        let each = held.iter().flat_map(|(queue, ids)| ids.clone().map(|id| ((*queue).to_owned(), id)));
        Arc::new(Diary {
            starts: watch::Sender::default(),
            done: watch::Sender::default(),
            held: Mutex::new(each.collect()),
            fails: fails.iter().map(|(queue, id)| ((*queue).to_owned(), *id)).collect(),
            go: Semaphore::new(0),
        })
    }

    /// All starts so far, in order: the queue and the id.
    pub(super) fn starts(&self) -> Vec<(String, i64)> {
        let mut starts = self.starts.borrow().clone();
        starts.sort_unstable();
        starts.into_iter().map(|(_, queue, id)| (queue, id)).collect()
    }

    pub(super) fn queues(&self) -> Vec<String> {
        self.starts().into_iter().map(|(queue, _)| queue).collect()
    }

    pub(super) async fn until_started(&self, queue: &str, count: usize) {
        let mut starts = self.starts.subscribe();
        let there = starts.wait_for(|starts| starts.iter().filter(|start| start.1 == queue).count() >= count);
        let there = tokio::time::timeout(LIMIT, there).await.is_ok();
        assert!(there, "not {count} of {queue} started: {:?}", self.starts());
    }

    pub(super) async fn until_done(&self, count: usize) {
        let mut done = self.done.subscribe();
        let there = tokio::time::timeout(LIMIT, done.wait_for(|done| *done >= count)).await.is_ok();
        assert!(there, "not {count} are done: {:?}", self.starts());
    }

    /// So many of those that are held go on, those that are held later too.
    pub(super) fn resume(&self, count: usize) {
        self.go.add_permits(count);
    }
}

impl<S: Store> Action<S> for Serving<S> {
    type Message = Numbered;

    async fn handle(&self, cx: &mut Context<S>, message: Numbered) -> Result<Outcome> {
        let start = (cx.message()?.queue.to_string(), message.id);
        self.diary.starts.send_modify(|starts| starts.push((cx.execution_number(), start.0.clone(), start.1)));
        let held = self.diary.held.lock().unwrap().contains(&start);
        if held {
            self.diary.go.acquire().await?.forget();
        }
        if self.diary.fails.contains(&start) {
            return Err(Error::Refused("this one never".into()).into());
        }
        self.diary.done.send_modify(|done| *done += 1);
        Ok(Outcome::Done)
    }
}

/// A process on a thread of its own.
pub(super) struct Running {
    stop: CancellationToken,
    thread: std::thread::JoinHandle<i32>,
}

impl Running {
    pub(super) fn start<S: Store>(process: Process<S>, pool: Pool, diary: &Arc<Diary>) -> Self {
        let stop = CancellationToken::new();
        let process = process.stop_on(stop.clone());
        let process = process.action(pool, Serving { diary: diary.clone(), _store: PhantomData });
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(in_time("the process ends", process.run())).unwrap()
        });
        Running { stop, thread }
    }

    pub(super) async fn ends(self) {
        let code = tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap();
        assert_eq!(code, 0);
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.ends().await;
    }
}

/// Only the test's hand moves it; who sleeps, sleeps on.
#[derive(Clone, Debug)]
pub(super) struct AsleepForEver(pub(super) Dial);

impl Clock for AsleepForEver {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
