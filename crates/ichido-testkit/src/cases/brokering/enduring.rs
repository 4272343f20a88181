//! What a broker can do to us: restart, lose a queue, take nothing, refuse, and be cut off at any moment.

use std::time::Duration;

use ichido::{Broker as _, Client, Store};
use ichido_test_servers::{
    RabbitMq as Node,
    proxy::{Cut, Proxy},
};

use super::{
    receiving::declare,
    stage::{Stage, Work, broker_at, ways},
};
use crate::fixture::Fixture;

/// A node for one case, which may stop it.
fn own_node() -> &'static Node {
    Box::leak(Box::new(Node::start(&[])))
}

pub async fn a_broker_that_restarts_is_found_again<F: Fixture>() {
    let node = own_node();
    let stage = Stage::<F>::on(node, ways::<F>()[0]).await;
    let process = stage.process(Work::plain());
    let mut ids = stage.send(20).await;
    stage.until_effects(20).await;
    tokio::task::spawn_blocking(|| node.kill()).await.unwrap();
    ids.extend(stage.send(20).await);
    tokio::task::spawn_blocking(|| node.start_again()).await.unwrap();
    ids.extend(stage.send(20).await);
    stage.until_effects(60).await;
    stage.ends_empty().await;
    process.end().await;
    stage.exactly_once(&ids).await;
    node.stop();
}

pub async fn a_queue_that_was_deleted_is_declared_and_filled_again<F: Fixture>() {
    let stage = Stage::<F>::new(ways::<F>()[0]).await;
    let process = stage.process(Work::plain());
    let mut ids = stage.send(5).await;
    stage.until_effects(5).await;
    stage.delete("orders").await;
    ids.extend(stage.send(5).await);
    stage.until_effects(10).await;
    stage.ends_empty().await;
    process.end().await;
    stage.exactly_once(&ids).await;
}

pub async fn while_the_broker_takes_nothing_consumers_go_on_and_sends_wait<F: Fixture>() {
    let node = own_node();
    let stage = Stage::<F>::on(node, ways::<F>()[0]).await;
    let mut ids = stage.send(30).await;
    // Published, and not consumed yet.
    let relay = ichido::Relay::new(stage.store()).broker("orders", stage.broker());
    assert_eq!(relay.flush().await.unwrap().left, None);
    tokio::task::spawn_blocking(|| node.memory_alarm(true)).await.unwrap();
    let process = stage.process(Work::plain());
    stage.until_effects(30).await;
    ids.extend(stage.send(10).await);
    stage.until("it is seen", async || stage.outbox().await.error.is_some()).await;
    let seen = stage.outbox().await;
    assert!(seen.unpublished == 10 && seen.oldest_seconds.is_some(), "{seen:?}");
    assert_eq!(stage.effects().await, 30);
    tokio::task::spawn_blocking(|| node.memory_alarm(false)).await.unwrap();
    stage.until_effects(40).await;
    stage.ends_empty().await;
    process.end().await;
    stage.exactly_once(&ids).await;
    node.stop();
}

/// To an exchange that no queue is bound to.
pub async fn what_cannot_be_routed_waits_and_says_why<F: Fixture>() {
    let mut stage = Stage::<F>::new(ways::<F>()[0]).await;
    stage.rules.exchange = "amq.direct".into();
    let ids = stage.send(2).await;
    let process = stage.process(Work::plain());
    stage.until("it is seen", async || stage.outbox().await.error.is_some()).await;
    let seen = stage.outbox().await;
    assert!(seen.unpublished == 2 && seen.error.as_ref().unwrap().contains("no queue takes it"), "{seen:?}");
    let bound = broker_at(&stage.url, |topology| topology.bindings = vec![("amq.direct".into(), "orders".into())]);
    declare(&bound).await;
    stage.until_effects(2).await;
    stage.ends_empty().await;
    process.end().await;
    stage.exactly_once(&ids).await;
}

pub async fn what_the_queue_has_no_room_for_waits_and_says_why<F: Fixture>() {
    let stage = Stage::<F>::new(ways::<F>()[0]).await;
    let narrow = || broker_at(&stage.url, |topology| topology.max_length = Some(5));
    let relay = ichido::Relay::new(stage.store()).broker("orders", narrow());
    // A quorum queue takes some more than it has room for before it says no.
    let mut ids = Vec::new();
    let mut seen = stage.outbox().await;
    while seen.error.is_none() && ids.len() < 1000 {
        ids.extend(stage.send(10).await);
        relay.flush().await.unwrap();
        seen = stage.outbox().await;
    }
    assert!(seen.unpublished > 0 && seen.error.as_ref().is_some_and(|why| why.contains("refuses")), "{seen:?}");
    let process = stage.process_at(narrow(), Work::plain());
    stage.until_effects(i64::try_from(ids.len()).unwrap()).await;
    stage.ends_empty().await;
    process.end().await;
    stage.exactly_once(&ids).await;
}

pub async fn cuts_at_every_step_between_us_and_the_broker_lose_and_double_nothing<F: Fixture>() {
    let cuts = [
        Cut::BeforePublish,
        Cut::AfterPublish,
        Cut::BeforeConfirm,
        Cut::AfterConfirm,
        Cut::BeforeDeliver,
        Cut::AfterDeliver,
        Cut::BeforeAck,
        Cut::AfterAck,
    ];
    for way in ways::<F>() {
        let stage = Stage::<F>::new(way).await;
        let proxy = Proxy::start_amqp(stage.node.address());
        let through = || broker_at(&proxy.url(&stage.url), |_| {});
        let processes = [stage.process_at(through(), Work::plain()), stage.process_at(through(), Work::plain())];
        let mut ids = Vec::new();
        for cut in cuts {
            // One confirm can be for many messages.
            let every = if matches!(cut, Cut::BeforeConfirm | Cut::AfterConfirm) { 1 } else { 3 };
            proxy.cut(cut, every, 2);
            ids.extend(stage.send(40).await);
            let all = i64::try_from(ids.len()).unwrap();
            stage.until_effects(all).await;
            assert!(proxy.cuts() > 0, "nothing was cut: {cut:?}");
        }
        stage.ends_empty().await;
        for process in processes {
            process.end().await;
        }
        stage.exactly_once(&ids).await;
    }
}

pub async fn sends_of_a_transaction_keep_their_order<F: Fixture>() {
    let mut stage = Stage::<F>::new(ways::<F>()[0]).await;
    // Whoever has the turn to publish keeps it, however slow it is.
    stage.rules.relay_after = Duration::from_mins(1);
    let (one, two) = (stage.store(), stage.store());
    let stop = ichido::CancellationToken::new();
    let relays: Vec<_> = [one, two]
        .into_iter()
        .map(|store| {
            let relay = ichido::Relay::new(store).broker("orders", stage.broker()).poll(Duration::from_millis(5));
            tokio::spawn(relay.run(stop.clone()))
        })
        .collect();
    let store = stage.store();
    let mut sent = Vec::new();
    for _ in 0..20 {
        let mut tx = store.begin().await.unwrap();
        for _ in 0..10 {
            let client = Client::new(store.clone());
            let id = client.queue("orders").send(F::Store::connection(&mut tx), &sent.len()).await.unwrap();
            sent.push(id.key.to_string());
        }
        store.commit(tx).await.unwrap();
    }
    stage.until("all are published", async || stage.outbox().await.unpublished == 0).await;
    stop.cancel();
    for relay in relays {
        relay.await.unwrap();
    }
    let source = stage.broker().receive(500);
    let mut seen: Vec<String> = Vec::new();
    stage
        .until("all are received", async || {
            assert!(seen.len() <= sent.len());
            stage.depth("orders") == (0, 200)
        })
        .await;
    // The broker has handed out all of them; the last may still be on their way.
    while seen.len() < sent.len() {
        match ichido::Source::try_next(&source) {
            Some(received) => seen.push(received.id.unwrap()),
            None => ichido::Source::changed(&source).await,
        }
    }
    assert_eq!(seen, sent);
}
