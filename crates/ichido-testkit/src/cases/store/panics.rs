//! Bugs of our own: a panic in a task of a process ends the process, with what it has released, or the task starts again. It is never silent.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ichido::{
    Action, Context, Guarded, Outcome, Pool, Process, Queue, Result, Store,
    broker::{Broker, Depths, Outgoing, Received, Settlement, Source, Unpublished},
};

use crate::{
    faults::{Fault, Faults, FaultyStore, HEARTBEAT, Order, Running, Scene, Verb, one_line, orders},
    fixture::{Fixture, effects},
    in_time,
};

/// The exit code of an error that nobody expects.
const FAILED: i32 = 20;

const FREE: &str = "select count(*) from received_order where status = '0' and process_id is null";

/// From its first run on, the next claim panics.
struct Breaks<F> {
    faults: Arc<Faults>,
    first: AtomicBool,
    _fixture: PhantomData<fn(F)>,
}

impl<F: Fixture> Action<FaultyStore<F::Store>> for Breaks<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<FaultyStore<F::Store>>, order: Order) -> Result<Outcome> {
        if self.first.swap(false, Ordering::SeqCst) {
            self.faults.inject(Verb::Claim, Fault::Panic, 1);
        }
        one_line::<F>(cx, order).await
    }
}

pub async fn a_panic_of_the_claimer_ends_the_process_and_nothing_stays_claimed<F: Fixture>() {
    let scene = Scene::<F>::new(20).await;
    let action = Breaks::<F> { faults: scene.faults.clone(), first: AtomicBool::new(true), _fixture: PhantomData };
    let process = scene.process().action(orders(), action).drain();
    let ended = in_time("the process ends", process.run()).await;
    assert_eq!(ended.unwrap(), FAILED);
    let done = scene.done().await;
    assert!(done < 20, "it ended before all was done");
    assert_eq!((effects(&scene.fixture).await, scene.fixture.number(FREE).await), (done, 20 - done));
    scene.drain(scene.process().action_fn(orders(), one_line::<F>)).await;
    assert_eq!((effects(&scene.fixture).await, scene.done().await), (20, 20));
}

pub async fn a_panic_of_the_heartbeat_ends_the_process<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let running = tokio::spawn(scene.process().action_fn(orders(), one_line::<F>).run());
    scene.faults.inject(Verb::Heartbeat, Fault::Panic, 1);
    scene.dial.wake(HEARTBEAT).await;
    assert_eq!(in_time("the process ends", running).await.unwrap().unwrap(), FAILED);
    assert_eq!(scene.fixture.number("select count(*) from ichido_process").await, 0);
}

pub async fn rescue_and_chores_start_again_after_a_panic<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    scene.faults.inject(Verb::Return, Fault::Panic, 1);
    scene.faults.inject(Verb::Rescue, Fault::Panic, 1);
    let running = Running::start(scene.process().action_fn(orders(), one_line::<F>));
    // Whatever comes while they are about to start again is not for them.
    while scene.faults.begun(Verb::Return) < 2 || scene.faults.begun(Verb::Rescue) < 2 {
        scene.dial.tick(HEARTBEAT).await;
    }
    running.stop().await;
}

/// A broker with a bug: whoever asks it for the next delivery panics.
struct Broken;

impl Broker for Broken {
    type Source = Broken;

    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        messages.iter().map(|_| Ok(())).collect()
    }

    fn receive(&self, _: u16) -> Broken {
        Broken
    }

    async fn depths(&self) -> Result<Depths, String> {
        Err("nobody knows".into())
    }
}

impl Source for Broken {
    fn try_next(&self) -> Option<Received> {
        panic!("a bug of the test's own in a source")
    }

    fn is_open(&self) -> bool {
        true
    }

    fn prefetch(&self) -> u16 {
        1
    }

    async fn changed(&self) {}

    fn is_current(&self, _: u64) -> bool {
        true
    }

    async fn settle(&self, _: u64, _: Settlement) -> Result<(), Unpublished> {
        Ok(())
    }

    async fn close(&self) {}
}

async fn nothing<S: Store>(_: &mut Context<S>, _: serde_json::Value) -> Result<Outcome> {
    Ok(Outcome::Done)
}

pub async fn a_panic_of_the_admitting_task_ends_the_process<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(vec![Queue::broker("paid", Guarded::new("", "paid").lease())]);
    let process = Process::new(store).broker("paid", Broken).action_fn(Pool::new("paid"), nothing::<F::Store>);
    assert_eq!(in_time("the process ends", process.run()).await.unwrap(), FAILED);
    assert_eq!(fixture.number("select count(*) from ichido_process").await, 0);
}
