//! What the loop does with each thing it meets: a case per row of the table in docs/contract.md. In each of them a counter shows
//! that the pool was started once and that nothing was charged to the process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ichido::{
    CancellationToken, Client, Context, Error, Handler, Inspect, Next, Outcome, Pool, Process, Result, RetryPolicy,
    Store,
    handlers::{Limit, Retry, Scope},
    inspect::ParkedFilter,
    store::{Database, Transactions},
};
use serde::Deserialize;
use tokio::sync::Notify;

use crate::{
    faults::{Fault, Scene, Verb, one_line, orders as scene_orders},
    fixture::{Fixture, effect_here, effects, until, with_orders},
};

#[derive(Deserialize)]
struct Order {
    id: i64,
    name: Option<String>,
}

/// Counts how often the rest is run.
struct Counter(Arc<AtomicU32>);

impl<S: Store> Handler<S> for Counter {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        self.0.fetch_add(1, Ordering::SeqCst);
        next.run(cx).await
    }
}

/// One line in the ledger; what the order's name says goes wrong.
async fn create_project<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    match order.name.as_deref() {
        Some("retry") => Ok(Outcome::retry()),
        Some("park") => Ok(Outcome::park("not today")),
        Some("error") => Err("no such customer".into()),
        Some("panic") => panic!("boom {}", order.id),
        Some("lost") => Err(Error::LostClaim.into()),
        _ => Ok(Outcome::Done),
    }
}

fn orders() -> Pool {
    let retry = RetryPolicy { attempts: 2, first: Duration::ZERO, max: Duration::ZERO, factor: 1.0 };
    Pool::new("ProjectCreation").from("orders").concurrency(4).retry(retry)
}

/// A process that has no retry to spend, and the counter of its pool's starts.
fn process<F: Fixture>(fixture: &F) -> (Process<F::Store>, Arc<AtomicU32>) {
    let starts = Arc::new(AtomicU32::new(0));
    let counter = Counter(starts.clone());
    let process = Process::new(fixture.store()).poll(Duration::from_millis(20)).drain();
    let process = process.retry(Retry { limit: Limit::Count(0), ..Retry::default() });
    (process.handlers(move |queue| queue.after(Scope::Process, "dispatch", counter)), starts)
}

/// Runs all orders, of which some have this name; tells the exit code and asserts that the pool was started once.
async fn run_with_some<F: Fixture>(fixture: &F, name: &str) -> i32 {
    fixture.sql(&format!("update received_order set name = '{name}' where id in (3, 17)")).await;
    let (process, starts) = process(fixture);
    let code = process.action_fn(orders(), create_project::<F>).run().await.unwrap();
    assert_eq!(starts.load(Ordering::SeqCst), 1, "the pool was started once");
    code
}

pub async fn after_done_comes_the_next<F: Fixture>() {
    let fixture = with_orders::<F>(30).await;
    assert_eq!(run_with_some(&fixture, "done").await, 0);
    assert_eq!(effects(&fixture).await, 30);
}

pub async fn with_nothing_there_it_waits_for_a_signal_or_the_poll<F: Fixture>() {
    for signalled in [true, false] {
        let fixture = F::fresh().await;
        let (stop, store) = (CancellationToken::new(), fixture.store());
        let poll = if signalled { Duration::from_hours(1) } else { Duration::from_millis(20) };
        let process = Process::new(store.clone()).poll(poll).stop_on(stop.clone());
        let running = tokio::spawn(process.action_fn(orders(), create_project::<F>).run());
        until(&fixture, "select count(*) from ichido_process", 1).await;
        if signalled {
            let order = serde_json::json!({"id": 1, "name": "a"});
            let mut tx = store.begin().await.unwrap();
            let client = Client::new(store.clone());
            client.queue("orders").send(F::Store::connection(&mut tx), &order).await.unwrap();
            store.commit(tx).await.unwrap();
        } else {
            fixture.sql("insert into received_order (id, name) values (1, 'a')").await;
        }
        until(&fixture, "select count(*) from ledger", 1).await;
        stop.cancel();
        assert_eq!(running.await.unwrap().unwrap(), 0);
    }
}

pub async fn retry_park_error_and_panic_are_recorded_and_the_next_comes<F: Fixture>() {
    for (name, attempts) in [("retry", 2), ("park", 1), ("error", 2), ("panic", 2)] {
        let fixture = with_orders::<F>(30).await;
        assert_eq!(run_with_some(&fixture, name).await, 0);
        assert_eq!(effects(&fixture).await, 28, "{name}");
        let failed = fixture.store().parked(&ParkedFilter::default()).await.unwrap();
        assert_eq!(failed.iter().map(|parked| parked.attempts).collect::<Vec<_>>(), [attempts; 2], "{name}");
    }
}

/// Ends the process with its first order, when the second one is in another worker's hands.
struct Aborting<F> {
    second: Arc<Notify>,
    go: Arc<Notify>,
    _fixture: std::marker::PhantomData<fn(F)>,
}

impl<F: Fixture> ichido::Action<F::Store> for Aborting<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
        if order.id == 1 {
            self.second.notified().await;
            self.go.notify_one();
            return Ok(Outcome::Abort(150));
        }
        self.second.notify_one();
        self.go.notified().await;
        while !cx.stopping() {
            tokio::task::yield_now().await;
        }
        effect_here::<F>(cx).await?;
        Ok(Outcome::Done)
    }
}

pub async fn an_abort_spends_an_attempt_and_other_workers_finish<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let (process, starts) = process(&fixture);
    let (second, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let action = Aborting::<F> { second, go, _fixture: std::marker::PhantomData };
    assert_eq!(process.action(orders().concurrency(2), action).run().await.unwrap(), 150);
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    assert_eq!(effects(&fixture).await, 1, "the other worker's message came to its end");
    assert_eq!(fixture.number("select count(*) from received_order where id = 2 and status = '1'").await, 1);
    assert_eq!(fixture.number("select count(*) from ichido_parked where attempts = 1").await, 1);
}

pub async fn a_lost_claim_is_rolled_back_and_the_next_comes<F: Fixture>() {
    let fixture = with_orders::<F>(30).await;
    fixture.sql("update received_order set name = 'lost' where id in (3, 17)").await;
    let (process, starts) = process(&fixture);
    let stop = CancellationToken::new();
    let process = process.stop_on(stop.clone());
    let running = tokio::spawn(process.action_fn(orders(), create_project::<F>).run());
    until(&fixture, "select count(*) from ledger", 28).await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap(), 0);
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    assert_eq!(effects(&fixture).await, 28);
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0, "no attempt is spent");
}

/// The database answers again at once: nothing but the transaction is lost, and the retry handler is not asked.
pub async fn after_a_short_fault_the_message_runs_again_at_no_cost<F: Fixture>() {
    let scene = Scene::<F>::new(10).await;
    scene.faults.inject(Verb::Begin, Fault::Unreachable, 3);
    let process = scene.process().retry(Retry { limit: Limit::Count(0), ..Retry::default() });
    scene.drain(process.action_fn(scene_orders(), one_line::<F>)).await;
    assert_eq!(scene.done().await, 10);
    assert_eq!(effects(&scene.fixture).await, 10);
    assert_eq!(scene.fixture.number("select count(*) from ichido_parked").await, 0, "no attempt is spent");
}

/// The database does not answer: the process's retry handler decides, here to give up.
pub async fn after_a_lasting_fault_the_retry_handler_decides<F: Fixture>() {
    let scene = Scene::<F>::new(10).await;
    scene.faults.inject(Verb::Begin, Fault::Unreachable, 1000);
    let process = scene.process().retry(Retry { limit: Limit::Count(0), ..Retry::default() });
    let process = process.handlers({
        let faults = scene.faults.clone();
        move |queue| queue.before(Scope::Worker, "read", Unplugged(faults))
    });
    let code = process.drain().action_fn(scene_orders(), one_line::<F>).run().await.unwrap();
    assert_eq!(code, 180);
    assert_eq!(effects(&scene.fixture).await, 0);
    assert_eq!(scene.fixture.number("select count(*) from ichido_parked").await, 0, "no attempt is spent");
}

/// From the first message on the database does not even answer a ping.
struct Unplugged(Arc<crate::faults::Faults>);

impl<S: Store> Handler<S> for Unplugged {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        self.0.inject(Verb::Ping, Fault::Unreachable, 1000);
        next.run(cx).await
    }
}

pub async fn after_its_last_allowed_message_a_process_releases_the_rest<F: Fixture>() {
    let fixture = with_orders::<F>(50).await;
    fixture.sql("update received_order set name = 'park' where id = 3").await;
    let (process, starts) = process(&fixture);
    let process = process.max_messages(20).action_fn(orders().read_ahead(20), create_project::<F>);
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    assert_eq!(effects(&fixture).await, 19);
    let free = "select count(*) from received_order where status = '0' and process_id is null";
    assert_eq!(fixture.number(free).await, 30, "what was claimed beyond is free");
}
