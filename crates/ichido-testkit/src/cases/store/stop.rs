//! Processes whose request id is stopped, paused, or to be served alone.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{
    CancellationToken, Context, Delivery, Error, Handler, HandlerQueue, Inspect, Key, Message, Next, Operate, Outcome,
    Pool, Process, Reader, Result, Store,
    handlers::{Availability, Scope, Single},
    process::Flag,
    readers::Turn,
    store::{ProcessId, Processes, Registration},
};
use serde_json::Value;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinHandle,
};

use crate::{
    faults::{Fault, HEARTBEAT, Running, Scene, Verb, one_line, orders},
    fixture::{Fixture, effect, effects, send, until, with_orders},
    in_time,
};

const FREE: &str = "select count(*) from received_order where status = '0' and process_id is null";

/// Where actions wait until the test lets them go.
struct Gate {
    begun: Semaphore,
    open: Semaphore,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Gate { begun: Semaphore::new(0), open: Semaphore::new(0) })
    }

    fn action<F>(self: &Arc<Self>) -> Blocking<F> {
        Blocking(self.clone(), PhantomData)
    }

    /// Resolves when one more message has begun.
    async fn has_begun(&self) {
        in_time("a message begins", self.begun.acquire()).await.unwrap().forget();
    }

    /// So many messages may go on.
    fn resume(&self, messages: usize) {
        self.open.add_permits(messages);
    }
}

/// Waits at its gate.
struct Blocking<F>(Arc<Gate>, PhantomData<fn(F)>);

impl<F: Fixture> ichido::Action<F::Store> for Blocking<F> {
    type Message = Value;

    async fn handle(&self, cx: &mut Context<F::Store>, _: Value) -> Result<Outcome> {
        let message = cx.message()?.clone();
        self.0.begun.add_permits(1);
        self.0.open.acquire().await?.forget();
        effect::<F>(cx.tx().await?, &message).await?;
        Ok(Outcome::Done)
    }
}

fn process<F: Fixture>(fixture: &F) -> Process<F::Store> {
    Process::new(fixture.store()).poll(Duration::from_millis(20)).check(Duration::from_millis(20))
}

/// One worker, which reads five orders ahead.
fn one_worker() -> Pool {
    Pool::new("R1").from("orders").concurrency(1).read_ahead(5)
}

async fn code(ended: JoinHandle<Result<i32, Error>>) -> i32 {
    in_time("the process ends", ended).await.unwrap().unwrap()
}

pub async fn a_stopped_request_id_ends_its_process_and_does_not_start<F: Fixture>() {
    let fixture = with_orders::<F>(10).await;
    let gate = Gate::new();
    let start = || tokio::spawn(process(&fixture).drain().action(one_worker(), gate.action::<F>()).run());
    let running = start();
    gate.has_begun().await;
    fixture.store().set_flag("R1", Flag::Stop, true).await.unwrap();
    // While the one that has begun still runs, the others are free.
    until(&fixture, FREE, 9).await;
    assert!(!running.is_finished());
    gate.resume(1);
    assert_eq!(code(running).await, 0);
    assert_eq!((effects(&fixture).await, fixture.number(FREE).await), (1, 9));
    gate.resume(9);
    assert_eq!(code(start()).await, 0);
    assert_eq!((effects(&fixture).await, fixture.number(FREE).await), (1, 9), "it does not start");
    assert_eq!(fixture.number("select count(*) from ichido_process").await, 0);
    fixture.store().set_flag("R1", Flag::Stop, false).await.unwrap();
    assert_eq!(code(start()).await, 0);
    assert_eq!(effects(&fixture).await, 10);
}

pub async fn a_stop_by_flag_gives_running_messages_only_their_grace<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let gate = Gate::new();
    let check = Duration::from_millis(20);
    let settings =
        ichido::process::Settings { grace: Duration::from_millis(50), check, ..ichido::process::Settings::default() };
    let running = Process::new(fixture.store()).settings(settings).action(one_worker(), gate.action::<F>());
    let running = tokio::spawn(running.run());
    gate.has_begun().await;
    fixture.store().set_flag("R1", Flag::Stop, true).await.unwrap();
    assert_eq!(code(running).await, 0);
    assert_eq!((effects(&fixture).await, fixture.number(FREE).await), (0, 2));
}

pub async fn a_paused_request_id_claims_nothing_until_it_is_resumed<F: Fixture>() {
    let fixture = with_orders::<F>(10).await;
    let (gate, stop) = (Gate::new(), CancellationToken::new());
    let start = || {
        let process = process(&fixture).stop_on(stop.clone()).action(one_worker(), gate.action::<F>());
        tokio::spawn(process.run())
    };
    let first = start();
    gate.has_begun().await;
    fixture.store().set_flag("R1", Flag::Pause, true).await.unwrap();
    // What was read ahead is for others to take.
    until(&fixture, FREE, 9).await;
    gate.resume(1);
    until(&fixture, "select count(*) from ledger", 1).await;
    let second = start();
    until(&fixture, "select count(*) from ichido_process", 2).await;
    // Some poll and check intervals; nothing else can show that nothing is claimed.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((fixture.number(FREE).await, gate.begun.available_permits()), (9, 0));
    fixture.store().set_flag("R1", Flag::Pause, false).await.unwrap();
    gate.has_begun().await;
    gate.resume(9);
    until(&fixture, "select count(*) from ledger", 10).await;
    fixture.store().set_flag("R1", Flag::Pause, true).await.unwrap();
    stop.cancel();
    assert_eq!((code(first).await, code(second).await), (0, 0), "who is paused can be stopped");
}

pub async fn a_pause_frees_also_a_claim_whose_reply_was_lost<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    scene.faults.hold(Verb::Claim);
    scene.faults.inject(Verb::Claim, Fault::ReplyLost, 1);
    scene.faults.inject(Verb::Release, Fault::Unreachable, 2);
    let running = Running::start(scene.process().action_fn(orders(), one_line::<F>));
    scene.faults.has_begun(Verb::Claim, 1).await;
    scene.fixture.store().set_flag("Failing", Flag::Pause, true).await.unwrap();
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.resume(Verb::Claim);
    scene.faults.has_ended(Verb::Claim, 1).await;
    scene.faults.has_ended(Verb::Release, 1).await;
    assert_eq!((scene.fixture.number(FREE).await, effects(&scene.fixture).await), (2, 0));
    running.stop().await;
}

/// What could not be released during the pause is at hand when it ends, and the workers that looked meanwhile are asleep.
pub async fn what_is_at_hand_when_a_pause_ends_is_taken<F: Fixture>() {
    let scene = Scene::<F>::new(2).await;
    scene.faults.hold(Verb::Claim);
    let running = Running::start(scene.process().action_fn(orders(), one_line::<F>));
    scene.faults.has_begun(Verb::Claim, 1).await;
    scene.fixture.store().set_flag("Failing", Flag::Pause, true).await.unwrap();
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.inject(Verb::Release, Fault::Unreachable, 1_000_000);
    scene.faults.resume(Verb::Claim);
    scene.faults.has_begun(Verb::Release, 2).await;
    scene.fixture.store().set_flag("Failing", Flag::Pause, false).await.unwrap();
    scene.dial.tick(HEARTBEAT).await;
    until(&scene.fixture, "select count(*) from ledger", 2).await;
    running.stop().await;
}

pub async fn of_several_pools_the_stopped_one_ends_and_the_others_go_on<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    send(&fixture, "mail", &["1"]).await;
    let (first, second) = (Gate::new(), Gate::new());
    let running = process(&fixture).drain().action(one_worker(), first.action::<F>());
    let running = running.action(Pool::new("R2").from("mail"), second.action::<F>());
    let running = tokio::spawn(running.run());
    first.has_begun().await;
    second.has_begun().await;
    fixture.store().set_flag("R1", Flag::Stop, true).await.unwrap();
    first.resume(1);
    until(&fixture, "select count(*) from ichido_process_request", 1).await;
    send(&fixture, "orders", &[r#"{"id":2,"name":"late"}"#]).await;
    let served = fixture.store().requests().await.unwrap();
    let served: Vec<_> = served.iter().map(|state| (&*state.request_id, state.processes)).collect();
    assert_eq!(served, [("R1", 0), ("R2", 1)]);
    second.resume(1);
    assert_eq!(code(running).await, 0, "its drain does not wait for what it does not serve any more");
    assert_eq!((effects(&fixture).await, fixture.number(FREE).await), (2, 1));
}

/// Hands out messages without end.
#[derive(Default)]
struct Endless {
    given: Arc<AtomicUsize>,
}

impl Reader for Endless {
    fn try_next(&self) -> Result<Turn> {
        let number = self.given.fetch_add(1, Ordering::SeqCst);
        let message = Message::new("endless", Key::new([number.to_string()]), *b"{}");
        Ok(Turn::Delivery(Box::new(Delivery::unclaimed(message))))
    }

    async fn changed(&self) {}

    async fn settle(&self, _: Delivery) -> Result<()> {
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

pub async fn a_worker_looks_before_every_so_many_messages<F: Fixture>() {
    let fixture = F::fresh().await;
    for every in [1, 3] {
        let (reader, gate, stop) = (Endless::default(), Gate::new(), CancellationToken::new());
        let given = reader.given.clone();
        let pool = Pool::new("R1").reader(reader).concurrency(1);
        let running = process(&fixture).check_every(every).stop_on(stop.clone()).action(pool, gate.action::<F>());
        let running = tokio::spawn(running.run());
        gate.has_begun().await;
        stop.cancel();
        gate.resume(10);
        assert_eq!(code(running).await, 0);
        assert_eq!(given.load(Ordering::SeqCst), every as usize);
    }
}

/// Tells that a worker has come so far.
struct Tells(Arc<Notify>);

impl<S: Store> Handler<S> for Tells {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        self.0.notify_one();
        next.run(cx).await
    }
}

type Queue<F> = HandlerQueue<<F as Fixture>::Store>;

/// A handler queue that can be paused and not stopped.
fn only_available<F: Fixture>(queue: Queue<F>) -> Result<Queue<F>, Error> {
    queue.without(Scope::Worker, "process stop")?.before(Scope::Worker, "read", Availability)
}

pub async fn a_reader_of_the_users_own_is_not_asked_while_it_is_paused<F: Fixture>() {
    for change in [Ok, only_available::<F>] {
        let fixture = F::fresh().await;
        fixture.store().set_flag("R1", Flag::Pause, true).await.unwrap();
        let (reader, gate, stop) = (Endless::default(), Gate::new(), CancellationToken::new());
        let (given, looped) = (reader.given.clone(), Arc::new(Notify::new()));
        let tells = Tells(looped.clone());
        let pool = Pool::new("R1").reader(reader).concurrency(1);
        let running = process(&fixture).stop_on(stop.clone()).action(pool, gate.action::<F>()).handlers(change);
        let running = running.handlers(|queue| queue.after(Scope::Worker, "loop", tells));
        let running = tokio::spawn(running.run());
        looped.notified().await;
        // Some poll and check intervals; nothing else can show that nothing is asked.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(given.load(Ordering::SeqCst), 0, "it idles");
        fixture.store().set_flag("R1", Flag::Pause, false).await.unwrap();
        gate.has_begun().await;
        running.abort();
    }
}

pub async fn a_second_process_is_refused_and_the_dead_block_nobody<F: Fixture>() {
    let fixture = F::fresh().await;
    let (holder, alone) = (fixture.store(), served_alone("R1"));
    holder.register(&alone).await.unwrap();
    let start = |single| {
        let process = process(&fixture).lease(Duration::from_secs(1)).drain().single(single);
        tokio::spawn(process.action(one_worker(), Gate::new().action::<F>()).run())
    };
    let (refused, other_code) = (start(Single::default()), start(Single::default().exit(77)));
    let heartbeats = tokio::spawn(heartbeats(holder.clone(), alone.id));
    assert_eq!((code(refused).await, code(other_code).await), (14, 77));
    assert_eq!(code(start(Single::default().exempt(["R1".to_owned()]))).await, 0);
    heartbeats.abort();
    let _ = heartbeats.await;
    fixture.die(holder, alone.id).await;
    assert_eq!(code(start(Single::default())).await, 0);
}

/// Who must serve alone is believed to live when its heartbeat is seen to go on.
async fn heartbeats<S: Store>(store: S, process: ProcessId) {
    while store.heartbeat(process, &[]).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn served_alone(request_id: &str) -> Registration {
    let mut process = Registration::new(request_id, Duration::from_mins(20), [("mail".into(), 3)].into());
    process.alone = process.request_ids.clone();
    process
}

pub async fn a_process_that_counted_as_dead_ends_if_its_place_is_taken<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let running = scene.process().single(Single::default()).action_fn(orders(), one_line::<F>);
    let running = tokio::spawn(running.run());
    scene.faults.has_begun(Verb::Claim, 1).await;
    scene.faults.hold(Verb::Register);
    scene.faults.inject(Verb::Heartbeat, Fault::WrongReply, 1);
    scene.dial.wake(HEARTBEAT).await;
    scene.faults.has_begun(Verb::Register, 2).await;
    let (store, successor) = (scene.fixture.store(), served_alone("Failing"));
    store.register(&successor).await.expect("the place is free");
    scene.faults.resume(Verb::Register);
    let heartbeats = tokio::spawn(heartbeats(store, successor.id));
    assert_eq!(code(running).await, 14);
    heartbeats.abort();
    let names = "select count(*) from ichido_process";
    assert_eq!(scene.fixture.number(names).await, 1, "its successor is there");
}
