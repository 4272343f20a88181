//! What processes count: all of it, once, in rows that are written only when there is something new and forgotten when they are
//! old. The clock of the process is in the test's hands, so that times are known.

use std::{collections::BTreeSet, time::Duration};

use ichido::{
    Action, Context, Inspect, NewMessage, Operate, Outcome, Pool, Process, Queue, Result,
    inspect::ParkedFilter,
    lanes::{LaneSet, Level, Policy},
    process::Retention,
    stat::{Backlog, ERROR, Stat, StatRow, Tally, WINDOW},
    store::{Database, ProcessId, Processes, Queues, Stats, Transactions},
    testing::Dial,
};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    faults::{Fault, FaultyStore, HEARTBEAT, Order, Running, Scene, Verb, one_line, orders},
    fixture::{Fixture, Player, effect_here, send, with_orders},
};

const MINUTE: Duration = Duration::from_mins(1);

/// What was counted about a queue, by everybody.
async fn counted<F: Fixture>(fixture: &F, queue: &str) -> Tally {
    let mut all = Tally::default();
    let rows = fixture.store().stats(WINDOW).await.unwrap();
    rows.iter().filter(|row| &*row.stat.queue == queue).for_each(|row| all.merge(&row.stat.tally));
    all
}

/// Of ten orders one fails for good, and one is repeated.
async fn sometimes<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    Ok(match order.id % 10 {
        0 => Outcome::Park("it is bad".into()),
        5 if cx.attempt() == 1 => Outcome::Retry(Some(Duration::ZERO)),
        _ => Outcome::Done,
    })
}

async fn always<F: Fixture>(cx: &mut Context<F::Store>, _: Value) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    Ok(Outcome::Done)
}

pub async fn what_two_processes_have_counted_is_what_was_done<F: Fixture>() {
    let fixture = with_orders::<F>(40).await;
    send(&fixture, "mail", &["{}"; 30]).await;
    let process = || {
        let process = Process::new(fixture.store()).poll(Duration::from_millis(10)).drain();
        let process = process.action_fn(Pool::new("orders").concurrency(2), sometimes::<F>);
        process.action_fn(Pool::new("mail").concurrency(3).commit_interval(4), always::<F>)
    };
    let (one, two) = tokio::join!(process().run(), process().run());
    assert_eq!((one.unwrap(), two.unwrap()), (0, 0));
    let orders = counted(&fixture, "orders").await;
    assert_eq!((orders.done, orders.failed, orders.retried, orders.started), (36, 4, 4, 44));
    assert_eq!((orders.running.count(), orders.waiting.count()), (44, 0), "nothing tells when an order was sent");
    let mail = counted(&fixture, "mail").await;
    assert_eq!((mail.done, mail.failed, mail.retried, mail.started), (30, 0, 0, 30));
    assert_eq!((mail.running.count(), mail.waiting.count()), (30, 30));
    assert!(orders.busy > Duration::ZERO && mail.busy > Duration::ZERO);
    for row in fixture.store().stats(WINDOW).await.unwrap() {
        assert_eq!(row.stat.slots, if &*row.stat.queue == "mail" { 3 } else { 2 });
        assert!(row.age < WINDOW, "its minute began {:?} ago", row.age);
    }
}

/// An action that takes ten minutes.
struct Slow<F>(Dial, std::marker::PhantomData<fn() -> F>);

impl<F: Fixture> Action<FaultyStore<F::Store>> for Slow<F> {
    type Message = Value;

    async fn handle(&self, cx: &mut Context<FaultyStore<F::Store>>, _: Value) -> Result<Outcome> {
        effect_here::<F>(cx).await?;
        self.0.pass(10 * MINUTE);
        Ok(Outcome::Done)
    }
}

pub async fn waiting_and_running_times_are_within_the_stated_error<F: Fixture>() {
    let scene = Scene::<F>::new(0).await;
    send(&scene.fixture, "mail", &["{}"; 5]).await;
    let pool = Pool::new("mail").concurrency(1).read_ahead(4);
    let slow = Slow::<F>(scene.dial.clone(), std::marker::PhantomData);
    scene.drain(scene.process().action(pool, slow)).await;
    let mail = counted(&scene.fixture, "mail").await;
    // All five were claimed at once, within a minute of being sent, and each waited for those before it.
    let close = |found: Option<Duration>, minutes: f64, late: f64| {
        let found = found.unwrap().as_secs_f64() / 60.0;
        assert!(
            found >= minutes * (1.0 - ERROR) && found <= (minutes + late) * (1.0 + ERROR),
            "{found}, not {minutes}"
        );
    };
    close(mail.waiting.quantile(200), 0.0, 1.0);
    close(mail.waiting.quantile(500), 20.0, 1.0);
    close(mail.waiting.quantile(950), 40.0, 1.0);
    close(mail.running.quantile(500), 10.0, 0.0);
    close(mail.running.quantile(1000), 10.0, 0.0);
    assert_eq!(mail.busy, 50 * MINUTE);
}

pub async fn an_idle_process_writes_nothing<F: Fixture>() {
    let scene = Scene::<F>::new(1).await;
    let running = Running::start(scene.process().action_fn(orders(), one_line::<F>));
    scene.faults.has_ended(Verb::Commit, 1).await;
    // The last thing that is counted about a message is how long it ran.
    let stored = async || counted(&scene.fixture, "orders").await.running.count() == 1;
    for _ in 0..100 {
        scene.dial.tick(HEARTBEAT).await;
        if stored().await {
            break;
        }
    }
    assert!(stored().await, "what is new is written with the heartbeat");
    let written = scene.faults.begun(Verb::Stats);
    for _ in 0..3 {
        scene.dial.tick(HEARTBEAT).await;
    }
    running.stop().await;
    assert_eq!(scene.faults.begun(Verb::Stats), written, "there was nothing new");
    assert_eq!(counted(&scene.fixture, "orders").await.done, 1);
}

/// Tells of every order, and waits for leave.
struct Steps<F> {
    begun: mpsc::UnboundedSender<i64>,
    leave: tokio::sync::Semaphore,
    fixture: std::marker::PhantomData<fn() -> F>,
}

impl<F: Fixture> Action<FaultyStore<F::Store>> for std::sync::Arc<Steps<F>> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<FaultyStore<F::Store>>, order: Order) -> Result<Outcome> {
        // Without a transaction: on SQLite nobody else could write.
        let _ = self.begun.send(order.id);
        self.leave.acquire().await?.forget();
        effect_here::<F>(cx).await?;
        Ok(Outcome::Done)
    }
}

pub async fn what_a_killed_process_stored_is_there_and_counts_once<F: Fixture>() {
    let scene = Scene::<F>::new(9).await;
    let (begun, mut begins) = mpsc::unbounded_channel();
    let (leave, fixture) = (tokio::sync::Semaphore::new(0), std::marker::PhantomData);
    let steps = std::sync::Arc::new(Steps::<F> { begun, leave, fixture });
    let killed = tokio::spawn(scene.process().action(orders(), steps.clone()).run());
    // When an order begins, those before it are counted: there is one worker.
    let mut until = async |id: i64| while begins.recv().await.unwrap() < id {};
    steps.leave.add_permits(3);
    until(4).await;
    scene.faults.inject(Verb::Stats, Fault::ReplyLost, 1);
    for times in 1..=2 {
        scene.dial.tick(HEARTBEAT).await;
        scene.faults.has_ended(Verb::Stats, times).await;
        assert_eq!(counted(&scene.fixture, "orders").await.done, 3, "it is stored, though nobody knows at first");
    }
    steps.leave.add_permits(2);
    until(6).await;
    scene.dial.tick(HEARTBEAT).await;
    scene.faults.has_ended(Verb::Stats, 3).await;
    steps.leave.add_permits(2);
    until(8).await;
    killed.abort();
    assert!(killed.await.unwrap_err().is_cancelled());
    let tally = counted(&scene.fixture, "orders").await;
    assert_eq!((tally.done, tally.started), (5, 6), "what came after the last heartbeat is lost");
}

pub async fn only_what_is_old_is_forgotten<F: Fixture>() {
    let fixture = F::fresh().await;
    let ids = send(&fixture, "mail", &["{}"; 2]).await;
    let Player { store, registration } = Player::join(&fixture).await;
    let now = store.poll(&registration).await.unwrap().minute;
    let day = 24 * 60;
    let stat = |done| Stat { queue: "mail".into(), lane: None, slots: 4, tally: Tally { done, ..Tally::default() } };
    for (days, done) in [(0, 1), (6, 2), (8, 3), (30, 4)] {
        store.note_stats(registration.id, now - days * day, &[stat(done)]).await.unwrap();
    }
    for id in &ids {
        let mail = store.claim(registration.id, "mail", 1).await.unwrap();
        assert!(store.park(&mail[0], &ichido::store::Failure::dead("bad", 1)).await.unwrap(), "{id}");
    }
    assert!(store.discard(&ids[0].parse().unwrap()).await.unwrap());
    let rows = async || fixture.number("select count(*) from ichido_stat").await;
    let notes = async || fixture.number("select count(*) from ichido_audit").await;
    store.prune(Retention::default()).await.unwrap();
    assert_eq!((rows().await, notes().await), (3, 1), "the oldest first");
    fixture.sql("update ichido_audit set at = '2001-02-03 04:05:06'").await;
    store.prune(Retention::default()).await.unwrap();
    store.prune(Retention::default()).await.unwrap();
    assert_eq!((rows().await, notes().await), (2, 0));
    assert_eq!(fixture.number("select count(*) from ichido_stat where done > 2").await, 0);
    assert_eq!(store.parked(&ParkedFilter::default()).await.unwrap().len(), 1, "what is not done stays");
}

pub async fn after_an_hour_the_counts_of_all_processes_are_one_row<F: Fixture>() {
    let fixture = F::fresh().await;
    let Player { store, registration } = Player::join(&fixture).await;
    let now = store.poll(&registration).await.unwrap().minute;
    let stat = |queue: &'static str, done: u64| {
        let mut tally = Tally { started: done, done, ..Tally::default() };
        tally.running.add(Duration::from_millis(3));
        Stat { queue: queue.into(), lane: None, slots: 2, tally }
    };
    for process in (0..5).map(|_| ProcessId::random()) {
        for minute in [now, now - 59, now - 90, now - 91] {
            store.note_stats(process, minute, &[stat("mail", 10), stat("orders", 1)]).await.unwrap();
        }
    }
    let rows = async |of: &str| fixture.number(&format!("select count(*) from ichido_stat where {of}")).await;
    assert!(!store.prune(Retention::default()).await.unwrap(), "that was all");
    assert_eq!(rows(&format!("minute >= {}", now - 59)).await, 20, "the last hour is by process");
    assert_eq!(rows(&format!("minute < {}", now - 59)).await, 4);
    let old = store.stats(3 * 60 * MINUTE).await.unwrap();
    let mail = old.iter().filter(|row| &*row.stat.queue == "mail" && row.age > 80 * MINUTE);
    let sums: Vec<_> = mail.map(|row| (row.process, row.stat.slots, row.stat.tally.clone())).collect();
    let mut five = Tally { started: 50, done: 50, ..Tally::default() };
    (0..5).for_each(|_| five.running.add(Duration::from_millis(3)));
    assert_eq!(sums, [(ProcessId::NOBODY, 10, five.clone()), (ProcessId::NOBODY, 10, five)]);
    // A row that comes late is added, and a second time nothing is.
    store.note_stats(ProcessId::random(), now - 90, &[stat("mail", 7)]).await.unwrap();
    for _ in 0..2 {
        store.prune(Retention::default()).await.unwrap();
        assert_eq!(rows(&format!("minute = {} and queue = 'mail' and done = 57", now - 90)).await, 1);
        assert_eq!(rows(&format!("minute = {}", now - 90)).await, 2);
    }
}

pub async fn rows_are_replaced_and_those_of_the_last_minutes_are_read<F: Fixture>() {
    let fixture = F::fresh().await;
    let Player { store, registration } = Player::join(&fixture).await;
    let now = store.poll(&registration).await.unwrap().minute;
    let mut tally = Tally::default();
    (tally.started, tally.done, tally.failed, tally.retried, tally.overtaken) = (9, 5, 1, 2, 3);
    (tally.duplicates, tally.found_busy) = (11, 13);
    tally.busy = Duration::from_micros(1_234_567_890_123);
    tally.waiting.add(Duration::from_secs(3));
    tally.running.add(Duration::from_millis(3));
    let lane = ichido::stat::Lane { lanes: "lanes".into(), level: "free".into(), rank: 1 };
    let low = Stat { queue: "mail".into(), lane: Some(lane), slots: 8, tally: tally.clone() };
    let plain = Stat { queue: "orders".into(), lane: None, slots: 1, tally: Tally::default() };
    store.note_stats(registration.id, now - 20, std::slice::from_ref(&low)).await.unwrap();
    for done in [6, 7] {
        tally.done = done;
        let low = Stat { tally: tally.clone(), ..low.clone() };
        store.note_stats(registration.id, now, &[low, plain.clone()]).await.unwrap();
    }
    let rows = store.stats(WINDOW).await.unwrap();
    let found: BTreeSet<_> = rows.iter().map(|row| (row.stat.queue.to_string(), row.stat.tally.done)).collect();
    assert_eq!(found, [("mail".to_owned(), 7), ("orders".to_owned(), 0)].into());
    let StatRow { process, minute, age, stat } = rows.iter().find(|row| row.stat.lane.is_some()).unwrap();
    assert_eq!((process, *minute, stat), (&registration.id, now, &Stat { tally, ..low }));
    assert!(*age < 3 * MINUTE, "{age:?}");
    assert_eq!(store.stats(30 * MINUTE).await.unwrap().len(), 3);
}

pub async fn levels_are_counted_with_their_place_and_who_is_overtaken<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = || fixture.store_with(["member", "free"].map(Queue::managed).into());
    for queue in ["member", "free"] {
        let mut tx = store().begin().await.unwrap();
        let sent = [NewMessage::new("{}"), NewMessage::new("{}"), NewMessage::new("{}")];
        store().send(F::Store::connection(&mut tx), queue, &sent).await.unwrap();
        store().commit(tx).await.unwrap();
    }
    fixture.sql("update ichido_message set sent_at = '2001-02-03 04:05:06' where queue = 'member'").await;
    let set =
        LaneSet::new("lanes", Policy::Weighted).level(Level::new("high", "member")).level(Level::new("low", "free"));
    let pool = Pool::new("Lanes").from_lanes(set).concurrency(1);
    let process = Process::new(store()).poll(Duration::from_millis(10)).drain().action_fn(pool, always::<F>);
    assert_eq!(process.run().await.unwrap(), 0);
    let (high, low) = (counted(&fixture, "member").await, counted(&fixture, "free").await);
    assert_eq!((high.done, low.done), (3, 3));
    // They took turns: after the first of each, every old one came after a lower one that was sent later.
    assert_eq!((high.overtaken, low.overtaken), (2, 0));
    let rows = fixture.store().stats(WINDOW).await.unwrap();
    let places: BTreeSet<_> = rows.iter().filter_map(|row| row.stat.lane.as_ref()).collect();
    let places: Vec<_> = places.iter().map(|lane| (&*lane.lanes, &*lane.level, lane.rank)).collect();
    assert_eq!(places, [("lanes", "high", 0), ("lanes", "low", 1)]);
}

pub async fn what_waits_is_counted_with_what_was_sent_lately<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    send(&fixture, "mail", &["{}"; 4]).await;
    let process = Player::join(&fixture).await;
    process.claim("mail", 1).await;
    process.claim("orders", 2).await;
    let queues = fixture.store().overview().await.unwrap().queues;
    let of = |queue: &str| queues.iter().find(|counts| counts.queue == queue).unwrap();
    let (orders, mail) = (of("orders"), of("mail"));
    assert_eq!((orders.ready, orders.claimed, orders.recent, orders.oldest_seconds), (1, 2, None, None));
    assert_eq!((mail.ready, mail.claimed, mail.recent), (3, 1, Some(3)));
    fixture.sql("update ichido_message set sent_at = '2001-02-03 04:05:06'").await;
    let queues = fixture.store().overview().await.unwrap().queues;
    let mail = Backlog::of(queues.iter().find(|counts| counts.queue == "mail").unwrap());
    assert_eq!((mail.ready, mail.recent), (3, Some(0)));
    assert!(mail.oldest.unwrap() > 365 * 24 * 60 * MINUTE);
    let old = process.claim_one("mail").await;
    assert!(old.waited.unwrap() > 365 * 24 * 60 * MINUTE);
}
