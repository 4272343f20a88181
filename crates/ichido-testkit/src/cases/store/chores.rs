//! Chores: what grows with a table is done by one process at a time, some rows at a time, and keeps nobody from his heartbeat, from rescue
//! or from the flags of operators.

use std::{sync::Arc, time::Duration};

use ichido::{
    Operate, Process,
    process::Flag,
    store::{Failure, Processes, Queues, WHOLE_DATABASE},
    testing::Dial,
};

use crate::{
    faults::{Faults, FaultyStore, HEARTBEAT, LEASE, Running, Scene, Verb, one_line, orders},
    fixture::{Fixture, Player, with_orders},
};

const HOUR: Duration = Duration::from_hours(1);

pub async fn chores_that_hang_hold_up_neither_heartbeat_nor_rescue_nor_flags<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    scene.faults.hold(Verb::Return);
    let running = Running::start(scene.process().action_fn(orders(), one_line::<F>));
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.has_begun(Verb::Return, 1).await;
    for times in 2..=4 {
        scene.dial.tick(HEARTBEAT).await;
        scene.faults.has_ended(Verb::Heartbeat, times).await;
    }
    scene.faults.has_ended(Verb::Rescue, 1).await;
    scene.fixture.store().set_flag("Failing", Flag::Stop, true).await.unwrap();
    scene.dial.wake(HEARTBEAT).await;
    running.ends().await;
    assert_eq!(scene.faults.begun(Verb::Return), 1, "they hang until the end");
}

/// A process with a clock and faults of its own.
fn another<F: Fixture>(fixture: &F) -> (Arc<Faults>, Dial, Process<FaultyStore<F::Store>>) {
    let (faults, dial) = (Arc::<Faults>::default(), Dial::only_for(HEARTBEAT));
    let process = Process::new(FaultyStore::new(fixture.store(), faults.clone()));
    let process = process.lease(LEASE).poll(LEASE).check(LEASE).clock(dial.clone());
    (faults, dial, process.action_fn(orders(), one_line::<F>))
}

pub async fn of_two_processes_one_does_the_chores_and_then_the_other<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    let first = Running::start(scene.process().action_fn(orders(), one_line::<F>));
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.has_ended(Verb::Return, 1).await;
    let (faults, dial, second) = another(&scene.fixture);
    let second = Running::start(second);
    dial.tick(HEARTBEAT).await;
    // Of the queue, and of the whole database: it looks once when it begins.
    faults.has_ended(Verb::TakeChores, 2).await;
    dial.tick(HEARTBEAT).await;
    dial.tick(HEARTBEAT).await;
    assert_eq!((faults.begun(Verb::Return), faults.begun(Verb::TakeChores)), (0, 2), "the chores are another's");
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.has_ended(Verb::Return, 2).await;
    first.stop().await;
    dial.tick(HEARTBEAT).await;
    faults.has_ended(Verb::Return, 1).await;
    second.stop().await;
}

pub async fn one_process_at_a_time_has_the_chore_lease<F: Fixture>() {
    let fixture = F::fresh().await;
    let (one, two) = (Player::join(&fixture).await, Player::join(&fixture).await);
    let (first, second) = (one.registration.id, two.registration.id);
    let free = async |who: &Player<F>| who.store.poll(&who.registration).await.unwrap().free;
    assert!(free(&one).await && free(&two).await);
    for queue in one.registration.queues.keys().map(|queue| &**queue).chain([WHOLE_DATABASE]) {
        assert_eq!(one.store.take_chore_lease(first, queue, HOUR).await.unwrap(), Some(String::new()));
        assert_eq!(two.store.take_chore_lease(second, queue, HOUR).await.unwrap(), None);
    }
    assert!(!free(&one).await && !free(&two).await);
    assert!(one.store.keep_chore_lease(first, "orders", HOUR, "17").await.unwrap());
    assert!(!two.store.keep_chore_lease(second, "orders", HOUR, "4").await.unwrap());
    two.store.release_chore_lease(second, "orders").await.unwrap();
    assert!(!free(&two).await, "nobody releases it for another");
    one.store.release_chore_lease(first, "orders").await.unwrap();
    assert!(free(&two).await);
    assert_eq!(two.store.take_chore_lease(second, "orders", Duration::ZERO).await.unwrap().as_deref(), Some("17"));
    assert!(one.store.take_chore_lease(first, "orders", HOUR).await.unwrap().is_some(), "it is over after its time");
    assert!(!two.store.keep_chore_lease(second, "orders", HOUR, "18").await.unwrap());
}

pub async fn who_leaves_or_dies_leaves_its_chores_to_others<F: Fixture>() {
    let fixture = F::fresh().await;
    let heir = Player::join(&fixture).await;
    let take = async |who: &Player<F>| who.store.take_chore_lease(who.registration.id, "orders", HOUR).await.unwrap();
    let leaver = Player::join(&fixture).await;
    assert!(take(&leaver).await.is_some() && take(&heir).await.is_none());
    leaver.store.deregister(leaver.registration.id).await.unwrap();
    assert!(take(&heir).await.is_some());
    heir.store.release_chore_lease(heir.registration.id, "orders").await.unwrap();
    let victim = Player::join(&fixture).await;
    assert!(take(&victim).await.is_some());
    victim.die(&fixture).await;
    assert!(take(&heir).await.is_none(), "nobody has declared it dead yet");
    heir.store.rescue(&heir.registration).await.unwrap();
    assert!(take(&heir).await.is_some());
}

/// One more than is looked at together.
const MANY: i64 = 501;

pub async fn a_queue_is_tidied_some_rows_at_a_time<F: Fixture>() {
    let fixture = with_orders::<F>(MANY).await;
    let process = Player::join(&fixture).await;
    for most in [500, 1] {
        for delivery in process.claim("orders", most).await {
            assert!(process.store.park(&delivery, &Failure::dead("never", 1)).await.unwrap());
        }
    }
    let parked = "select count(*) from ichido_parked";
    assert_eq!(fixture.number(parked).await, MANY);
    fixture.sql("delete from received_order where id > 1").await;
    let after = process.store.tidy("orders", "").await.unwrap().expect("there is more");
    assert!(fixture.number(parked).await > 1, "not all at once");
    assert_eq!(process.store.tidy("orders", &after).await.unwrap(), None);
    assert_eq!(fixture.number(parked).await, 1, "what has failed and is still there is kept");
}
