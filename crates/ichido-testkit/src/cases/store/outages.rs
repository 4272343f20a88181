//! A process whose database fails or loses a reply at a chosen moment, and passes that are dropped at one: what is behind the
//! first line of defence.

use std::{
    marker::PhantomData,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ichido::{
    Action, ActionError, Context, Error, Handler, Next, Outcome, Result, RetryPolicy, Store, handlers::Scope,
    store::Processes,
};

use crate::{
    faults::{Fault, Faults, FaultyStore, HEARTBEAT, LEASE, Order, Running, Scene, Verb, one_line, orders},
    fixture::{Fixture, Player, effects},
};

async fn one_line_in_vain<F: Fixture>(cx: &mut Context<FaultyStore<F::Store>>, order: Order) -> Result<Outcome> {
    one_line::<F>(cx, order).await?;
    Err("no such customer".into())
}

pub async fn a_database_that_does_not_let_us_begin_puts_no_message_aside<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    scene.faults.inject(Verb::Begin, Fault::Unreachable, 25);
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!(scene.faults.begun(Verb::Begin), 26);
    assert_eq!(scene.fixture.number("select count(*) from ichido_parked").await, 0);
    assert_eq!(scene.done().await, 1);
}

/// Drops the first pass when a verb has begun in it, and ends the worker.
struct DropsAt {
    faults: Arc<Faults>,
    verb: Verb,
}

impl<S: Store> Handler<S> for DropsAt {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        self.faults.hold(self.verb);
        tokio::select! {
            outcome = next.run(cx) => return outcome,
            () = self.faults.has_begun(self.verb, 1) => {}
        }
        self.faults.resume(self.verb);
        Ok(Outcome::Stop)
    }
}

async fn with_a_pass_that_is_dropped_at<F: Fixture>(verb: Verb) -> Scene<F> {
    let scene = Scene::<F>::new(1).await;
    let drops = DropsAt { faults: scene.faults.clone(), verb };
    let process = match verb {
        Verb::Rollback | Verb::Park => scene.process().action_fn(orders(), one_line_in_vain::<F>),
        _ => scene.process().action_fn(orders(), one_line::<F>),
    };
    let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", drops));
    assert_eq!(process.run().await.unwrap(), 0);
    scene.faults.has_ended(verb, 1).await;
    scene
}

pub async fn a_begin_is_rolled_back_when_its_pass_is_dropped<F: Fixture>() {
    let scene = with_a_pass_that_is_dropped_at::<F>(Verb::Begin).await;
    scene.faults.has_ended(Verb::Rollback, 1).await;
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

pub async fn a_failure_is_recorded_when_its_pass_is_dropped<F: Fixture>() {
    with_a_pass_that_is_dropped_at::<F>(Verb::Park).await;
}

pub async fn an_id_that_never_came_to_life_is_forgotten<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    // The first question is that of the chores, after the process has registered.
    scene.faults.inject(Verb::Ping, Fault::Unreachable, 1);
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!(scene.done().await, 1);
    assert_eq!(scene.fixture.number("select count(*) from ichido_process").await, 0);
}

/// The database goes away under the first run, for so long that the process cannot even deregister.
struct Outage<F> {
    faults: Arc<Faults>,
    runs: AtomicUsize,
    _fixture: PhantomData<fn(F)>,
}

impl<F: Fixture> Action<FaultyStore<F::Store>> for Outage<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<FaultyStore<F::Store>>, order: Order) -> Result<Outcome> {
        if self.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            for verb in [Verb::Begin, Verb::Ping, Verb::Deregister] {
                self.faults.inject(verb, Fault::Unreachable, 1);
            }
        }
        one_line::<F>(cx, order).await
    }
}

pub async fn what_a_process_had_before_an_outage_is_free_after_it<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    let action = Outage::<F> { faults: scene.faults.clone(), runs: AtomicUsize::new(0), _fixture: PhantomData };
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

pub async fn a_release_comes_to_its_end_when_its_pass_is_dropped<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    let drops = DropsAt { faults: scene.faults.clone(), verb: Verb::Release };
    let passes = PassesOver(AtomicBool::new(true));
    let process = scene
        .process()
        .action_fn(orders(), one_line::<F>)
        .handlers(move |queue| queue.before(Scope::Worker, "read", drops)?.after(Scope::Worker, "read", passes));
    assert_eq!(process.run().await.unwrap(), 0);
    scene.faults.has_ended(Verb::Release, 1).await;
}

pub async fn the_mark_of_a_suspect_is_written_when_its_pass_is_dropped<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    let (victim, medic) = (Player::join(&scene.fixture).await, Player::join(&scene.fixture).await);
    victim.claim_one("orders").await;
    victim.die(&scene.fixture).await;
    assert_eq!(medic.store.rescue(&medic.registration).await.unwrap().messages, 1);
    let drops = DropsAt { faults: scene.faults.clone(), verb: Verb::Mark };
    let process = scene.process().action_fn(orders(), one_line::<F>);
    let process = process.handlers(move |queue| queue.before(Scope::Worker, "read", drops));
    assert_eq!(process.run().await.unwrap(), 0);
    scene.faults.has_ended(Verb::Mark, 1).await;
}

async fn with_a_message_that_is_passed_over<F: Fixture>(harms: usize) {
    let scene = Scene::<F>::new(2).await;
    scene.faults.inject(Verb::Release, Fault::Unreachable, harms);
    let process = scene.process().action_fn(orders(), one_line::<F>);
    let passes = PassesOver(AtomicBool::new(true));
    scene.drain(process.handlers(move |queue| queue.after(Scope::Worker, "read", passes))).await;
    assert_eq!(scene.faults.begun(Verb::Release), 1);
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
    scene.faults.inject(Verb::Claim, Fault::ReplyLost, 1);
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}

pub async fn a_message_whose_commit_nobody_could_tell_about_is_found<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    scene.faults.inject(Verb::Commit, Fault::Unreachable, 1);
    scene.faults.inject(Verb::Probe, Fault::Unreachable, 1);
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!(scene.faults.begun(Verb::Probe), 1);
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}

pub async fn a_claim_that_nobody_knows_of_is_found_once_per_lease<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    scene.faults.inject(Verb::Claim, Fault::WrongReply, 1);
    let process = scene.process().action_fn(orders(), one_line::<F>).drain();
    let running = Running::start(process);
    scene.faults.has_ended(Verb::Claim, 1).await;
    // It may come to its end in the middle of its chores.
    scene.dial.wake(LEASE + HEARTBEAT).await;
    running.ends().await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (2, 2));
}

/// What `transaction` told the handlers before it.
struct Told(Arc<Mutex<Vec<String>>>);

impl<S: Store> Handler<S> for Told {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let result = next.run(cx).await;
        if let Err(ActionError(Error::Panic(text))) = &result {
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
    pool = pool.retry(RetryPolicy { attempts: 1, ..Default::default() });
    let (handler, process) = (Told(told.clone()), scene.process().action_fn(pool, panics));
    scene.drain(process.handlers(move |queue| queue.before(Scope::Worker, "transaction", handler))).await;
    assert_eq!(*told.lock().unwrap(), ["boom 1"]);
}
