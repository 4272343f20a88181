//! A process whose database fails, keeps silent or loses a reply at a chosen moment: what is behind the first line of defence.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{Action, CancellationToken, Context, Error, Handler, Next, Outcome, Pool, Process, Result, Scope, Store};
use serde::Deserialize;
use tokio::sync::Notify;

use crate::{
    fixture::{Fixture, effect, effects, send_orders},
    meddling::{Dial, Harm, Meddled, Meddler, Verb},
};

/// Longer than any test: only the dial makes it pass.
const LEASE: Duration = Duration::from_hours(3);
const THIRD: Duration = Duration::from_hours(1);

/// Nobody waits longer than this for something that does not happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A fresh database with orders, and a process on it whose store is meddled with.
struct Scene<F: Fixture> {
    fixture: F,
    meddler: Arc<Meddler>,
    dial: Dial,
}

type Running = tokio::task::JoinHandle<Result<i32>>;

impl<F: Fixture> Scene<F> {
    async fn new(orders: i64) -> Self {
        let fixture = F::fresh().await;
        send_orders(&fixture, orders).await;
        Scene { fixture, meddler: Arc::default(), dial: Dial::new(THIRD) }
    }

    fn process(&self) -> Process<Meddled<F::Store>> {
        let store = Meddled::new(self.fixture.store(), self.meddler.clone());
        Process::new(store).lease(LEASE).poll(LEASE).clock(self.dial.clone())
    }

    /// Runs until nothing is unprocessed.
    async fn drain(&self, process: Process<Meddled<F::Store>>) {
        let ended = tokio::time::timeout(PATIENCE, process.drain().run()).await;
        assert_eq!(ended.expect("a message is out of circulation: the process does not come to its end").unwrap(), 0);
    }

    /// Starts a process that runs until it is stopped.
    fn start(&self, process: Process<Meddled<F::Store>>) -> (CancellationToken, Running) {
        let stop = CancellationToken::new();
        (stop.clone(), tokio::spawn(process.stop_on(stop).run()))
    }

    async fn done(&self) -> i64 {
        self.fixture.number("select count(*) from received_order where status = '1'").await
    }

    async fn ends(&self, verb: Verb) {
        let ended = tokio::time::timeout(PATIENCE, self.meddler.has_ended(verb, 1)).await;
        assert!(ended.is_ok(), "{verb:?} did not come to its end");
    }
}

async fn stop((stop, running): (CancellationToken, Running)) {
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap(), 0);
}

#[derive(Deserialize)]
struct Order {
    id: i64,
}

fn orders() -> Pool {
    Pool::new("Failing").from("orders").concurrency(1).read_ahead(1)
}

async fn one_line<F: Fixture>(cx: &mut Context<Meddled<F::Store>>, _: Order) -> Result<Outcome> {
    let message = cx.message()?.clone();
    effect::<F>(cx.tx().await?, &message).await?;
    Ok(Outcome::Done)
}

async fn one_line_in_vain<F: Fixture>(cx: &mut Context<Meddled<F::Store>>, order: Order) -> Result<Outcome> {
    one_line::<F>(cx, order).await?;
    Err("no such customer".into())
}

pub async fn a_database_that_does_not_let_us_begin_puts_no_message_aside<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    scene.meddler.harm(Verb::Begin, Harm::Before, 25);
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!(scene.meddler.begun(Verb::Begin), 26);
    assert_eq!(scene.fixture.number("select count(*) from ichido_parked").await, 0);
    assert_eq!(scene.done().await, 1);
}

/// Drops the first pass when a verb has begun in it, and ends the worker.
struct DropsAt {
    meddler: Arc<Meddler>,
    verb: Verb,
}

impl<S: Store> Handler<S> for DropsAt {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        self.meddler.hold(self.verb);
        tokio::select! {
            outcome = next.run(cx) => return outcome,
            () = self.meddler.has_begun(self.verb, 1) => {}
        }
        self.meddler.let_go(self.verb);
        Ok(Outcome::Stop)
    }
}

async fn with_a_pass_that_is_dropped_at<F: Fixture>(verb: Verb) -> Scene<F> {
    let scene = Scene::<F>::new(1).await;
    let drops = DropsAt { meddler: scene.meddler.clone(), verb };
    let process = match verb {
        Verb::Rollback => scene.process().action_fn(orders(), one_line_in_vain::<F>),
        _ => scene.process().action_fn(orders(), one_line::<F>),
    };
    let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", drops));
    assert_eq!(process.run().await.unwrap(), 0);
    scene.ends(verb).await;
    scene
}

pub async fn a_begin_comes_to_its_end_and_is_rolled_back_when_its_pass_is_dropped<F: Fixture>() {
    let scene = with_a_pass_that_is_dropped_at::<F>(Verb::Begin).await;
    scene.ends(Verb::Rollback).await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (0, 0));
}

pub async fn a_commit_comes_to_its_end_when_its_pass_is_dropped<F: Fixture>() {
    let scene = with_a_pass_that_is_dropped_at::<F>(Verb::Commit).await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (1, 1));
}

pub async fn a_rollback_comes_to_its_end_when_its_pass_is_dropped<F: Fixture>() {
    let scene = with_a_pass_that_is_dropped_at::<F>(Verb::Rollback).await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (0, 0));
}

/// Rescues only after a lease without a gap, counted from `scene`'s now on.
async fn rescues_after_a_lease<F: Fixture>(scene: &Scene<F>) {
    for _ in 0..2 {
        scene.dial.tick(THIRD).await;
        assert_eq!(scene.meddler.begun(Verb::Rescue), 0, "it rescues too early");
    }
    scene.dial.tick(THIRD).await;
    assert_eq!(scene.meddler.begun(Verb::Rescue), 1);
}

pub async fn the_first_rescue_waits_for_a_lease<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let running = scene.start(scene.process().action_fn(orders(), one_line::<F>));
    rescues_after_a_lease(&scene).await;
    stop(running).await;
}

pub async fn after_signs_of_life_that_failed_the_wait_for_a_rescue_begins_anew<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let running = scene.start(scene.process().action_fn(orders(), one_line::<F>));
    scene.dial.tick(THIRD).await;
    scene.meddler.harm(Verb::Beat, Harm::Before, 2);
    scene.dial.tick(THIRD).await;
    scene.dial.tick(THIRD).await;
    assert_eq!(scene.meddler.begun(Verb::Rescue), 0, "nobody is buried during an outage");
    // The first sign of life after the outage is the beginning of the new wait.
    scene.dial.tick(THIRD).await;
    rescues_after_a_lease(&scene).await;
    stop(running).await;
}

pub async fn after_a_long_sleep_the_wait_for_a_rescue_begins_anew<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let running = scene.start(scene.process().action_fn(orders(), one_line::<F>));
    scene.dial.tick(2 * LEASE).await;
    assert_eq!(scene.meddler.begun(Verb::Rescue), 0, "it slept, and the others may have slept too");
    rescues_after_a_lease(&scene).await;
    stop(running).await;
}

pub async fn nothing_is_claimed_while_the_sign_of_life_is_in_doubt<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let running = scene.start(scene.process().action_fn(orders(), one_line::<F>));
    scene.meddler.has_begun(Verb::Claim, 1).await;
    scene.meddler.harm(Verb::Beat, Harm::Before, 2);
    scene.dial.tick(THIRD).await;
    scene.dial.tick(THIRD).await;
    let before = scene.meddler.begun(Verb::Claim);
    scene.dial.naps(20).await;
    let claims = scene.meddler.begun(Verb::Claim) - before;
    assert!(claims <= 1, "one may have been on its way, {claims} were seen");
    scene.dial.tick(THIRD).await;
    scene.meddler.has_begun(Verb::Claim, before + 2).await;
    stop(running).await;
}

/// Counts the runs of each order; the very first one waits until the test lets it go on.
struct Counted<F> {
    runs: Arc<Mutex<BTreeMap<i64, u32>>>,
    first: AtomicBool,
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
    _fixture: PhantomData<fn(F)>,
}

impl<F: Fixture> Action<Meddled<F::Store>> for Counted<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<Meddled<F::Store>>, order: Order) -> Result<Outcome> {
        *self.runs.lock().unwrap().entry(order.id).or_default() += 1;
        if self.first.swap(false, Ordering::SeqCst) {
            self.begun.notify_one();
            self.go_on.notified().await;
        }
        one_line::<F>(cx, order).await
    }
}

/// Takes its time between two messages, so that everybody else sees what the first has left.
struct Lingers;

impl<S: Store> Handler<S> for Lingers {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let outcome = next.run(cx).await;
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        outcome
    }
}

pub async fn what_was_claimed_under_an_old_id_is_not_handed_out<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let (runs, begun, go_on) = (Arc::default(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let action = Counted::<F> {
        runs: Arc::clone(&runs),
        first: AtomicBool::new(true),
        begun: begun.clone(),
        go_on: go_on.clone(),
        _fixture: PhantomData,
    };
    let process = scene.process().action(orders(), action).drain();
    let process = process.handlers(|queue| queue.before(Scope::Worker, "read", Lingers));
    let running = tokio::spawn(process.run());
    begun.notified().await;
    scene.meddler.harm(Verb::Beat, Harm::Lie, 1);
    scene.dial.tick(THIRD).await;
    go_on.notify_one();
    let ended = tokio::time::timeout(PATIENCE, running).await.expect("the process comes to its end");
    assert_eq!(ended.unwrap().unwrap(), 0);
    assert_eq!(*runs.lock().unwrap(), BTreeMap::from([(1, 2), (2, 1)]), "only what had begun runs in vain");
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}

pub async fn an_id_that_never_came_to_life_is_forgotten<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    // The first question is that of the chores, after the process has registered.
    scene.meddler.harm(Verb::Ping, Harm::Before, 1);
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!(scene.done().await, 1);
    assert_eq!(scene.fixture.number("select count(*) from ichido_process").await, 0);
}

/// The database goes away under the first run, for so long that the process cannot even take leave.
struct Outage<F> {
    meddler: Arc<Meddler>,
    runs: AtomicUsize,
    _fixture: PhantomData<fn(F)>,
}

impl<F: Fixture> Action<Meddled<F::Store>> for Outage<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<Meddled<F::Store>>, order: Order) -> Result<Outcome> {
        if self.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            for verb in [Verb::Begin, Verb::Ping, Verb::Leave] {
                self.meddler.harm(verb, Harm::Before, 1);
            }
        }
        one_line::<F>(cx, order).await
    }
}

pub async fn what_a_process_had_before_an_outage_is_free_after_it<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let action = Outage::<F> { meddler: scene.meddler.clone(), runs: AtomicUsize::new(0), _fixture: PhantomData };
    scene.drain(scene.process().action(orders(), action)).await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
    assert_eq!(scene.fixture.number("select count(*) from ichido_process").await, 0);
}

/// Says about the first message that it is done, without running it.
struct PassesOver(AtomicBool);

impl<S: Store> Handler<S> for PassesOver {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        if self.0.swap(false, Ordering::SeqCst) { Ok(Outcome::Done) } else { next.run(cx).await }
    }
}

async fn with_a_message_that_is_passed_over<F: Fixture>(harms: usize) {
    let scene = Scene::<F>::new(2).await;
    scene.meddler.harm(Verb::Release, Harm::Before, harms);
    let process = scene.process().action_fn(orders(), one_line::<F>);
    let passes = PassesOver(AtomicBool::new(true));
    scene.drain(process.handlers(move |queue| queue.after(Scope::Worker, "read", passes))).await;
    assert_eq!(scene.meddler.begun(Verb::Release), 1);
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}

pub async fn what_no_handler_has_settled_is_released<F: Fixture>() {
    with_a_message_that_is_passed_over::<F>(0).await;
}

pub async fn what_could_not_be_released_is_found<F: Fixture>() {
    with_a_message_that_is_passed_over::<F>(1).await;
}

pub async fn a_claim_is_found_after_its_reply_was_lost<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    scene.meddler.harm(Verb::Claim, Harm::After, 1);
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}

pub async fn a_message_whose_commit_nobody_could_tell_about_is_found<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    scene.meddler.harm(Verb::Commit, Harm::Before, 1);
    scene.meddler.harm(Verb::Probe, Harm::Before, 1);
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!(scene.meddler.begun(Verb::Probe), 1);
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}

pub async fn a_claim_that_nobody_knows_of_is_found_once_per_lease<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    scene.meddler.harm(Verb::Claim, Harm::Lie, 1);
    let process = scene.process().action_fn(orders(), one_line::<F>).drain();
    let running = tokio::spawn(process.run());
    scene.meddler.has_ended(Verb::Claim, 1).await;
    scene.dial.tick(LEASE + THIRD).await;
    let ended = tokio::time::timeout(PATIENCE, running).await.expect("the process comes to its end");
    assert_eq!(ended.unwrap().unwrap(), 0);
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}

/// What `transaction` told the handlers before it.
struct Told(Arc<Mutex<Vec<String>>>);

impl<S: Store> Handler<S> for Told {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let result = next.run(cx).await;
        if let Err(Error::Panic(text)) = &result {
            self.0.lock().unwrap().push(text.clone());
        }
        result
    }
}

async fn panics<S: Store>(_: &mut Context<S>, order: Order) -> Result<Outcome> {
    panic!("boom {}", order.id)
}

pub async fn a_handler_sees_a_panic_further_in_as_an_error<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    let (told, mut pool) = (Arc::<Mutex<Vec<String>>>::default(), orders());
    pool = pool.retry(ichido::RetryPolicy { attempts: 1, ..Default::default() });
    let (handler, process) = (Told(told.clone()), scene.process().action_fn(pool, panics));
    scene.drain(process.handlers(move |queue| queue.before(Scope::Worker, "transaction", handler))).await;
    assert_eq!(*told.lock().unwrap(), ["boom 1"]);
}
