//! Brokers with exchanges and limits: fan-out, what cannot be routed, what the broker refuses or has no room for.

use std::time::Duration;

use super::broker::{
    inbox::{stage, two_at_one},
    stage::{Script, Stage, Work, ways},
};
use crate::fixture::{ExchangeFixture, Fixture, Part};

/// One exchange, three queues, three consumers, and duplicates.
pub async fn each_of_three_queues_has_its_effect_once<F: Fixture, B: ExchangeFixture>() {
    let stage = stage::<F, B>().await;
    let names = ["orders", "second", "third"];
    let mut processes = Vec::new();
    for name in names {
        let broker = stage.at.bound(name, "amq.fanout", "").await;
        let mut rules = stage.rules.clone();
        (rules.exchange, rules.routing_key, rules.queue) = ("amq.fanout".into(), String::new(), name.into());
        let store = stage.db.store_with(vec![ichido::Queue::broker(name, rules)]);
        let stop = ichido::CancellationToken::new();
        let process = ichido::Process::new(store).broker(name, broker).stop_on(stop.clone());
        let retry = ichido::RetryPolicy { first: Duration::from_millis(50), ..ichido::RetryPolicy::default() };
        let pool = ichido::Pool::new(name).from(name).retry(retry);
        let process = process.poll(Duration::from_millis(100)).action(pool, Work::<F>::of(Script::new(3, false)));
        processes.push((stop, tokio::spawn(process.run())));
    }
    let ids: Vec<String> = (0..40).map(|n| format!("m{n}")).collect();
    let messages: Vec<_> = ids.iter().map(|id| (Some(id.as_str()), "{}")).collect();
    stage.at.publish_to("amq.fanout", "", &messages).await;
    stage.at.publish_to("amq.fanout", "", &messages[..15]).await;
    stage.until_effects(120).await;
    for name in names {
        stage.until("all queues are empty", async || stage.depth(name).await == (0, 0)).await;
        let effects = format!("select count(distinct message) from ledger where message like '{name}/%'");
        assert_eq!(stage.db.number(&effects).await, 40, "{name}");
    }
    for (stop, process) in processes {
        stop.cancel();
        assert_eq!(process.await.unwrap().unwrap(), 0);
    }
    assert_eq!(stage.effects().await, 120);
    assert_eq!((stage.count("ichido_inbox").await, stage.count("ichido_mutex").await), (120, 0));
}

/// Somebody has deleted the busy queue, or it takes nothing: nobody waits for it longer than for the message.
pub async fn without_a_busy_queue_copies_wait_until_the_message_is_done<F: Fixture, B: ExchangeFixture>() {
    if !F::LOCKS {
        return; // one transaction at a time writes
    }
    let stage = stage::<F, B>().await;
    let [(a, one), (b, other)] = two_at_one(&stage).await;
    stage.until("both consume", async || stage.at.receivers("orders").await == 2).await;
    stage.at.delete("orders", Part::Busy).await;
    for _ in 0..6 {
        stage.publish_foreign(&[(Some("a"), "{}")]).await;
    }
    stage.until("the copies are out", async || stage.orders().await == (0, 7)).await;
    a.open(10);
    stage.until("all are settled", async || stage.orders().await == (0, 0)).await;
    one.end().await;
    other.end().await;
    assert_eq!((stage.effects().await, b.runs().len()), (1, 0));
}

pub async fn while_the_broker_is_blocked_consumers_go_on_and_sends_wait<F: Fixture, B: ExchangeFixture>() {
    let stage = Stage::<F, B>::alone(ways::<F>()[0]).await;
    let mut ids = stage.send(30).await;
    // Published, and not consumed yet.
    let relay = ichido::Relay::new(stage.store()).broker("orders", stage.broker());
    assert_eq!(relay.flush().await.unwrap().left, None);
    stage.at.block(true).await;
    let process = stage.process(Work::plain());
    stage.until_effects(30).await;
    ids.extend(stage.send(10).await);
    stage.until("it is seen", async || stage.outbox().await.error.is_some()).await;
    let seen = stage.outbox().await;
    assert!(seen.unpublished == 10 && seen.oldest_seconds.is_some(), "{seen:?}");
    assert_eq!(stage.effects().await, 30);
    stage.at.block(false).await;
    stage.finish(process, &ids).await;
}

/// To an exchange that no queue is bound to.
pub async fn what_cannot_be_routed_waits_and_says_why<F: Fixture, B: ExchangeFixture>() {
    let mut stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    stage.rules.exchange = "amq.direct".into();
    let ids = stage.send(2).await;
    let process = stage.process(Work::plain());
    stage.until("it is seen", async || stage.outbox().await.error.is_some()).await;
    let seen = stage.outbox().await;
    assert!(seen.unpublished == 2 && seen.error.as_ref().unwrap().contains("unroutable"), "{seen:?}");
    stage.at.bound("orders", "amq.direct", "orders").await;
    stage.finish(process, &ids).await;
}

pub async fn what_the_queue_has_no_room_for_waits_and_says_why<F: Fixture, B: ExchangeFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    let narrow = || stage.at.narrow("orders", 5);
    let relay = ichido::Relay::new(stage.store()).broker("orders", narrow());
    // A quorum queue takes some more than it has room for before it says no.
    let mut ids = Vec::new();
    let mut seen = stage.outbox().await;
    while seen.error.is_none() && ids.len() < 1000 {
        ids.extend(stage.send(10).await);
        relay.flush().await.unwrap();
        seen = stage.outbox().await;
    }
    assert!(seen.unpublished > 0 && seen.error.as_ref().is_some_and(|why| why.contains("refused")), "{seen:?}");
    let process = stage.process_at(narrow(), Work::plain());
    stage.until_effects(i64::try_from(ids.len()).unwrap()).await;
    stage.ends_empty().await;
    process.end().await;
    stage.exactly_once(&ids).await;
}
