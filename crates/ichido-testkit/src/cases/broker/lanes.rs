//! Lane sets whose levels are queues at a broker, or some of them: the policies hold although a broker hands out ahead.

use std::{sync::Arc, time::Duration};

use ichido::{
    CancellationToken, Client, Pool, Process, Queue, Relay,
    lanes::{LaneSet, Level, Policy},
    store::{Database, Transactions},
};

use super::stage::{Running, Script, Stage, Work, ways};
use crate::fixture::{BrokerFixture, Fixture};

/// `high` and `low` at the broker, `table` in the database.
fn store<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>) -> F::Store {
    let at_broker = |name: &str| {
        let mut rules = stage.rules.clone();
        (rules.routing_key, rules.queue) = (name.into(), name.into());
        Queue::broker(name, rules)
    };
    stage.db.store_with(vec![at_broker("high"), at_broker("low"), Queue::managed("table")])
}

/// Sends so many messages to a queue, and publishes what is to be.
async fn send<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>, queue: &str, count: usize) {
    let store = store(stage);
    let mut tx = store.begin().await.unwrap();
    let messages: Vec<usize> = (0..count).collect();
    Client::new(store.clone()).queue(queue).send_all(F::Store::connection(&mut tx), &messages).await.unwrap();
    store.commit(tx).await.unwrap();
    let relay = Relay::new(store).broker("high", stage.at.queue("high")).broker("low", stage.at.queue("low"));
    // If a process runs, its relay may be at it.
    relay.flush().await.unwrap();
    let unpublished = "select count(*) from ichido_outbox where published_at is null";
    stage.until("all is published", async || stage.db.number(unpublished).await == 0).await;
}

fn run<F: Fixture, B: BrokerFixture>(stage: &Stage<F, B>, set: LaneSet, script: &Arc<Script>) -> Running {
    let stop = CancellationToken::new();
    let process =
        Process::new(store(stage)).broker("high", stage.at.queue("high")).broker("low", stage.at.queue("low"));
    let pool = Pool::new("Work").from_lanes(set).concurrency(1).read_ahead(8);
    let process = process.poll(Duration::from_millis(200)).stop_on(stop.clone());
    let process = process.action(pool, Work::<F>::of(script.clone()));
    Running { stop, ended: tokio::spawn(process.run()) }
}

/// Which queues the messages were of, in the order in which they started.
fn order(script: &Script) -> Vec<String> {
    script.runs().iter().map(|(id, _)| id.split('/').next().unwrap().to_owned()).collect()
}

fn set(policy: Policy, levels: [&str; 2]) -> LaneSet {
    LaneSet::new("site", policy).level(Level::new("a", levels[0])).level(Level::new("b", levels[1]))
}

/// The higher level started before the lower one. A broker that hands out nothing for 50 ms is taken to have no more, and on a machine
/// that is very busy that may happen: some may be early, but not most of them.
fn is_strict(order: &[String], high: &str) {
    let lower = |queues: &[String]| queues.iter().filter(|queue| *queue != high).count();
    let last = order.iter().rposition(|queue| queue == high).expect("some are of the higher level");
    let early = lower(&order[..last]);
    assert!(2 * early <= lower(order), "{early} of the lower level start before the last of the higher one: {order:?}");
}

pub async fn levels_at_a_broker_are_strict_despite_the_prefetch<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        send(&stage, "low", 30).await;
        send(&stage, "high", 30).await;
        let script = Script::new(0, false);
        let process = run(&stage, set(Policy::Strict, ["high", "low"]), &script);
        stage.until_effects(60).await;
        process.end().await;
        is_strict(&order(&script), "high");
    }
}

pub async fn levels_at_a_broker_have_their_weights<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    send(&stage, "low", 40).await;
    send(&stage, "high", 90).await;
    let script = Script::new(0, false);
    let lanes = LaneSet::new("site", Policy::Weighted);
    let lanes = lanes.level(Level::new("a", "high").weight(3)).level(Level::new("b", "low"));
    let process = run(&stage, lanes, &script);
    stage.until_effects(130).await;
    process.end().await;
    let order = order(&script);
    // Three of four, and some more or fewer if the broker is silent for a while, see `is_strict`.
    let high = order[..80].iter().filter(|queue| *queue == "high").count();
    assert!((48..=72).contains(&high), "{high} of 80 are high, not 60: {order:?}");
}

pub async fn a_level_in_the_database_and_one_at_a_broker_share_the_slots<F: Fixture, B: BrokerFixture>() {
    for levels in [["high", "table"], ["table", "low"]] {
        let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
        for queue in levels.iter().rev() {
            send(&stage, queue, 20).await;
        }
        let script = Script::new(0, false);
        let process = run(&stage, set(Policy::Strict, levels), &script);
        stage.until_effects(40).await;
        process.end().await;
        is_strict(&order(&script), levels[0]);
    }
}

pub async fn a_higher_message_at_a_broker_starts_next<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    send(&stage, "low", 10).await;
    let script = Script::new(0, true);
    let process = run(&stage, set(Policy::Strict, ["high", "low"]), &script);
    script.entered().await;
    send(&stage, "high", 1).await;
    stage.until("it is in hand", async || stage.depth("high").await == (0, 1)).await;
    // The node has handed it out, and we may still be about to read it: some of the lower level may start before it, not all.
    script.open(5);
    for _ in 0..5 {
        script.entered().await;
    }
    assert!(order(&script).contains(&"high".to_owned()), "{:?}", order(&script));
    script.open(100);
    stage.until_effects(11).await;
    process.end().await;
}

pub async fn an_old_message_at_a_broker_takes_turns_with_the_level_above<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    send(&stage, "low", 8).await;
    send(&stage, "high", 60).await;
    let script = Script::new(0, true);
    let lanes = set(Policy::Strict, ["high", "low"]).age_after(Duration::from_millis(1));
    let process = run(&stage, lanes, &script);
    script.entered().await;
    // Its age is known when it is in hand, and the two levels have a connection each.
    stage.until("the old ones are in hand", async || stage.depth("low").await.1 >= 4).await;
    script.open(100);
    stage.until_effects(68).await;
    process.end().await;
    let order = order(&script);
    let last = order.iter().rposition(|queue| queue == "high").unwrap();
    let old = order[..last].iter().filter(|queue| *queue == "low").count();
    assert!(old > 3, "only {old} of the lower level start before the last of the higher one: {order:?}");
}
