//! A process whose heartbeat fails or comes late: when it may declare others dead, when it claims, and what it still hands
//! out under a new id. Time passes only when the test says so.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ichido::{Action, Context, Handler, Next, Outcome, Process, Result, Store, handlers::Scope};
use tokio::sync::Notify;

use crate::{
    faults::{Fault, FaultyStore, HEARTBEAT, LEASE, Order, Running, Scene, Verb, one_line, orders},
    fixture::{Fixture, effects, until},
};

/// A process that has nothing to do.
async fn idle<F: Fixture>() -> (Scene<F>, Running) {
    let scene = Scene::<F>::new(0).await;
    let running = Running::start(scene.process().action_fn(orders(), one_line::<F>));
    (scene, running)
}

/// Rescues only after a lease without a gap, counted from `scene`'s now on; and stops.
async fn rescues_after_a_lease<F: Fixture>(scene: &Scene<F>, running: Running) {
    for _ in 0..2 {
        scene.dial.tick(HEARTBEAT).await;
        assert_eq!(scene.faults.begun(Verb::Rescue), 0, "it rescues too early");
    }
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.has_begun(Verb::Rescue, 1).await;
    running.stop().await;
}

pub async fn the_first_rescue_waits_for_a_lease<F: Fixture>() {
    let (scene, running) = idle::<F>().await;
    rescues_after_a_lease(&scene, running).await;
}

pub async fn after_failed_heartbeats_the_wait_for_a_rescue_begins_anew<F: Fixture>() {
    let (scene, running) = idle::<F>().await;
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.inject(Verb::Heartbeat, Fault::Unreachable, 2);
    scene.dial.tick(HEARTBEAT).await;
    scene.dial.tick(HEARTBEAT).await;
    assert_eq!(scene.faults.begun(Verb::Rescue), 0, "nobody is declared dead during an outage");
    // The first heartbeat after the outage is the beginning of the new wait.
    scene.dial.tick(HEARTBEAT).await;
    rescues_after_a_lease(&scene, running).await;
}

pub async fn after_a_failed_poll_the_rescue_wait_begins_anew<F: Fixture>() {
    let (scene, running) = idle::<F>().await;
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.inject(Verb::Poll, Fault::Unreachable, 1);
    scene.dial.tick(HEARTBEAT).await;
    rescues_after_a_lease(&scene, running).await;
}

pub async fn after_a_long_sleep_the_wait_for_a_rescue_begins_anew<F: Fixture>() {
    let (scene, running) = idle::<F>().await;
    scene.dial.tick(2 * LEASE).await;
    assert_eq!(scene.faults.begun(Verb::Rescue), 0, "it slept, and the others may have slept too");
    rescues_after_a_lease(&scene, running).await;
}

pub async fn after_a_sleep_in_the_middle_of_a_poll_nobody_is_rescued<F: Fixture>() {
    let (scene, running) = idle::<F>().await;
    scene.dial.tick(HEARTBEAT).await;
    let polls = scene.faults.begun(Verb::Poll);
    scene.faults.hold(Verb::Poll);
    let before = scene.dial.wake(HEARTBEAT).await;
    scene.faults.has_begun(Verb::Poll, polls + 1).await;
    scene.dial.pass(LEASE);
    scene.faults.resume(Verb::Poll);
    scene.dial.asleep_after(before).await;
    assert_eq!(scene.faults.begun(Verb::Rescue), 0, "it slept, and the others may have slept too");
    scene.dial.tick(HEARTBEAT).await;
    rescues_after_a_lease(&scene, running).await;
}

pub async fn after_a_failed_heartbeat_without_a_gap_the_wait_begins_anew<F: Fixture>() {
    let (scene, running) = idle::<F>().await;
    scene.dial.tick(HEARTBEAT).await;
    let before = scene.dial.slept();
    scene.faults.inject(Verb::Heartbeat, Fault::Unreachable, 1);
    // A claim that is refused is a reason to write a heartbeat at once.
    scene.faults.inject(Verb::Claim, Fault::ClaimLost, 1);
    scene.dial.asleep_after(before).await;
    rescues_after_a_lease(&scene, running).await;
}

pub async fn nothing_is_claimed_while_the_heartbeat_is_in_doubt<F: Fixture>() {
    let (scene, running) = idle::<F>().await;
    scene.faults.has_begun(Verb::Claim, 1).await;
    scene.faults.inject(Verb::Heartbeat, Fault::Unreachable, 12);
    scene.dial.tick(HEARTBEAT).await;
    scene.dial.tick(HEARTBEAT).await;
    let before = scene.faults.begun(Verb::Claim);
    // More than three polls.
    for _ in 0..10 {
        scene.dial.tick(HEARTBEAT).await;
    }
    let claims = scene.faults.begun(Verb::Claim) - before;
    assert!(claims <= 1, "one may have been on its way, {claims} were seen");
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.has_begun(Verb::Claim, before + claims + 1).await;
    running.stop().await;
}

/// A process by the machine's clock, with so long a lease and an hour between two polls.
fn rarely_polling<F: Fixture>(scene: &Scene<F>, lease: Duration) -> Running {
    let process = Process::new(FaultyStore::new(scene.fixture.store(), scene.faults.clone()));
    Running::start(process.lease(lease).poll(Duration::from_hours(1)).action_fn(orders(), one_line::<F>))
}

pub async fn after_a_refused_claim_the_new_id_claims_at_once<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    scene.faults.inject(Verb::Claim, Fault::ClaimLost, 1);
    scene.faults.inject(Verb::Heartbeat, Fault::WrongReply, 1);
    let running = rarely_polling(&scene, LEASE);
    until(&scene.fixture, "select count(*) from ledger", 1).await;
    running.stop().await;
}

pub async fn what_the_old_id_had_is_claimed_at_once<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let running = rarely_polling(&scene, Duration::from_secs(5));
    scene.faults.has_ended(Verb::Claim, 1).await;
    let claimed = "insert into received_order (id, name, status, process_id) \
                   select 1, 'an order', '0', cast(id as char(36)) from ichido_process";
    scene.fixture.sql(claimed).await;
    scene.faults.inject(Verb::Heartbeat, Fault::WrongReply, 1);
    until(&scene.fixture, "select count(*) from ledger", 1).await;
    running.stop().await;
}

/// By the machine's clock: a server that says nothing lets no other time pass.
pub async fn a_heartbeat_without_an_answer_has_failed_and_the_next_follows<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    scene.faults.hold(Verb::Heartbeat);
    let process = Process::new(FaultyStore::new(scene.fixture.store(), scene.faults.clone()));
    let process = process.lease(Duration::from_millis(300)).poll(Duration::from_millis(20));
    let running = Running::start(process.action_fn(orders(), one_line::<F>));
    scene.faults.has_begun(Verb::Heartbeat, 3).await;
    scene.faults.resume(Verb::Heartbeat);
    scene.faults.has_ended(Verb::Heartbeat, 1).await;
    running.stop().await;
}

/// Counts the runs of each order; the very first one waits until the test lets it go on.
struct Counted<F> {
    runs: Arc<Mutex<BTreeMap<i64, u32>>>,
    first: AtomicBool,
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
    _fixture: PhantomData<fn(F)>,
}

impl<F: Fixture> Action<FaultyStore<F::Store>> for Counted<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<FaultyStore<F::Store>>, order: Order) -> Result<Outcome> {
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
    let running = Running::start(process);
    begun.notified().await;
    scene.faults.inject(Verb::Heartbeat, Fault::WrongReply, 1);
    scene.dial.tick(HEARTBEAT).await;
    go_on.notify_one();
    running.ends().await;
    assert_eq!(*runs.lock().unwrap(), BTreeMap::from([(1, 2), (2, 1)]), "only what had begun runs in vain");
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}
