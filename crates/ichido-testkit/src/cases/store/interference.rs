//! Guards that only show when somebody interferes: by hand, by dying, or by dropping a pass in the middle.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use ichido::{
    Action, Context, Error, Handler, Next, Outcome, Pool, Process, Result, RetryPolicy, Status, Store, Table,
    handlers::Scope,
    store::{Database, Failure, Processes, Queues},
};
use serde::Deserialize;
use tokio::sync::Notify;

use crate::fixture::{Fixture, Player, effect_here, effects, one_claimed, send_orders, with_orders};

pub async fn a_row_that_was_done_by_hand_is_neither_parked_nor_released<F: Fixture>() {
    let (fixture, process, delivery) = one_claimed::<F>().await;
    fixture.sql("update received_order set status = '1'").await;
    for failure in [Failure::waiting("later", 1, Duration::ZERO), Failure::dead("never", 1)] {
        assert!(!process.store.park(&delivery, &failure).await.unwrap());
    }
    process.store.release(&[delivery]).await.unwrap();
    let left = "select count(*) from received_order where status = '1' and process_id is not null and process_id not like '0000%'";
    assert_eq!(fixture.number(left).await, 1, "it is as it was left by hand");
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn what_was_taken_or_done_by_hand_meanwhile_is_not_returned<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let (process, other) = (Player::join(&fixture).await, Player::join(&fixture).await);
    for delivery in process.claim("orders", 2).await {
        assert!(process.store.park(&delivery, &Failure::waiting("later", 1, Duration::ZERO)).await.unwrap());
    }
    fixture
        .sql("update received_order set process_id = null where id = 1; update received_order set status = '1' where id = 2")
        .await;
    let taken = other.claim_one("orders").await;
    assert_eq!(process.store.return_due(&process.registration).await.unwrap(), 0);
    let left = "select count(*) from received_order where status = '1' and process_id like '0000%'";
    assert_eq!(fixture.number(left).await, 1, "it is as it was left by hand");
    other.finish(&taken).await.unwrap();
    assert_eq!(effects(&fixture).await, 1);
}

pub async fn a_process_whose_row_is_gone_claims_nothing<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let process = Player::join(&fixture).await;
    fixture.sql("delete from ichido_process_queue; delete from ichido_process").await;
    let claimed = process.store.claim(process.registration.id, "orders", 1).await;
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
    assert!(!process.store.heartbeat(process.registration.id, &[]).await.unwrap());
    assert_eq!(fixture.number("select count(*) from received_order where process_id is not null").await, 0);
}

pub async fn a_death_brings_back_no_attempts_of_a_row_set_to_new_by_hand<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let (victim, other) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let delivery = victim.claim_one("orders").await;
    assert!(victim.store.park(&delivery, &Failure::dead("no such customer", 3)).await.unwrap());
    fixture.sql("update received_order set status = '0'").await;
    assert_eq!(victim.claim_one("orders").await.attempt, 1);
    victim.die(&fixture).await;
    assert_eq!(other.store.rescue(&other.registration).await.unwrap().messages, 1);
    assert_eq!(other.claim_one("orders").await.attempt, 1);
}

pub async fn a_key_that_can_be_null_is_refused<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture.sql("create table loose (id integer, state varchar(9) not null, taken_by char(36)); create unique index loose_id on loose (id)").await;
    let table = Table::new("loose", "taken_by", Status::new("state", "new", "done")).key(["id"]);
    match fixture.store_with(vec![ichido::Queue::table("loose", table)]).prepare().await {
        Err(Error::Setup(text)) => assert!(text.contains("NOT NULL unique index"), "{text}"),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[derive(Deserialize)]
struct Order {
    id: i64,
}

pub(super) fn orders(workers: usize) -> Pool {
    let retry =
        RetryPolicy { attempts: 1000, first: Duration::from_millis(1), max: Duration::from_millis(1), factor: 1.0 };
    Pool::new("Guarded").from("orders").concurrency(workers).retry(retry)
}

fn process<F: Fixture>(fixture: &F) -> Process<F::Store> {
    Process::new(fixture.store()).poll(Duration::from_millis(5)).drain()
}

/// So many orders, of which the first `suspects` were claimed by a process that died.
pub(super) async fn with_suspects<F: Fixture>(suspects: usize, orders: i64) -> F {
    let fixture = with_orders::<F>(orders).await;
    let victim = Player::join(&fixture).await;
    assert_eq!(victim.claim("orders", suspects).await.len(), suspects);
    victim.die(&fixture).await;
    let medic = Player::join(&fixture).await;
    assert_eq!(medic.store.rescue(&medic.registration).await.unwrap().messages, suspects as u64);
    fixture
}

/// Counts how many run at the same time.
#[derive(Default, Clone)]
struct Crowd {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl<S: Store> Action<S> for Crowd {
    type Message = Order;

    async fn handle(&self, _: &mut Context<S>, _: Order) -> Result<Outcome> {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(Outcome::Done)
    }
}

pub async fn suspects_run_one_at_a_time<F: Fixture>() {
    let fixture: F = with_suspects(8, 8).await;
    let crowd = Crowd::default();
    assert_eq!(process(&fixture).action(orders(4), crowd.clone()).run().await.unwrap(), 0);
    assert_eq!(crowd.most.load(Ordering::SeqCst), 1);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 8);
}

/// Writes down whether a process has a mark while each order runs.
struct Marks<F> {
    fixture: Arc<F>,
    seen: Arc<Mutex<BTreeMap<i64, i64>>>,
}

impl<F: Fixture> Action<F::Store> for Marks<F> {
    type Message = Order;

    async fn handle(&self, _: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
        let marks = self.fixture.number("select count(*) from ichido_process where running is not null").await;
        self.seen.lock().unwrap().insert(order.id, marks);
        Ok(Outcome::Done)
    }
}

pub async fn a_suspect_runs_under_a_mark_and_what_comes_after_it_does_not<F: Fixture>() {
    let fixture: Arc<F> = Arc::new(with_suspects(2, 3).await);
    let seen = Arc::<Mutex<BTreeMap<_, _>>>::default();
    let marks = Marks { fixture: fixture.clone(), seen: seen.clone() };
    assert_eq!(process(&*fixture).action(orders(1), marks).run().await.unwrap(), 0);
    assert_eq!(*seen.lock().unwrap(), BTreeMap::from([(1, 1), (2, 1), (3, 0)]));
}

/// Drops the first pass when the action says so, and runs the rest again for the same message, in the same transaction.
pub(super) struct Again(pub(super) Arc<Notify>);

impl<S: Store> Handler<S> for Again {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        tokio::select! {
            outcome = next.run(cx) => return outcome,
            () = self.0.notified() => {}
        }
        next.run(cx).await
    }
}

/// Writes, and comes to its end only the second time.
struct SecondTime<F> {
    written: Arc<Notify>,
    first: AtomicBool,
    _fixture: std::marker::PhantomData<fn(F)>,
}

impl<F: Fixture> Action<F::Store> for SecondTime<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<F::Store>, _: Order) -> Result<Outcome> {
        effect_here::<F>(cx).await?;
        if self.first.swap(false, Ordering::SeqCst) {
            self.written.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(Outcome::Done)
    }
}

pub async fn what_a_dropped_pass_has_written_is_not_committed_by_the_next<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let written = Arc::new(Notify::new());
    let action =
        SecondTime::<F> { written: written.clone(), first: AtomicBool::new(true), _fixture: std::marker::PhantomData };
    let process = process(&fixture).action(orders(1), action);
    let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", Again(written)));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(effects(&fixture).await, 1);
}

/// Drops each pass a little later than the one before, at every point where it waits; then lets them come to their end.
struct Drops {
    passes: AtomicUsize,
}

/// More than any pass waits for something.
const MOST_WAITS: usize = 60;

impl<S: Store> Handler<S> for Drops {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let mut left = self.passes.fetch_add(1, Ordering::SeqCst);
        if left > MOST_WAITS {
            return next.run(cx).await;
        }
        let mut rest = next.run(cx);
        std::future::poll_fn(|task| match rest.as_mut().poll(task) {
            Poll::Pending if left == 0 => Poll::Ready(Ok(Outcome::retry_after(Duration::ZERO))),
            poll => {
                left = left.saturating_sub(1);
                poll
            }
        })
        .await
    }
}

async fn one_line<F: Fixture>(cx: &mut Context<F::Store>, _: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    Ok(Outcome::Done)
}

pub async fn a_pass_that_is_dropped_at_any_moment_leaves_each_effect_once<F: Fixture>() {
    drop_at_any_moment::<F>(orders(2)).await;
}

pub(super) async fn drop_at_any_moment<F: Fixture>(pool: Pool) {
    let fixture = F::fresh().await;
    let count = 2 * i64::try_from(MOST_WAITS).unwrap();
    send_orders(&fixture, count).await;
    let drops = Drops { passes: AtomicUsize::new(0) };
    let process = process(&fixture).action_fn(pool, one_line::<F>);
    let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", drops));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(effects(&fixture).await, count);
    assert_eq!(fixture.number("select count(distinct message) from ledger").await, count);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, count);
}
