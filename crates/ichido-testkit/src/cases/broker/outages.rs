//! What a broker can do to us: restart, lose a queue, take nothing, refuse, and be cut off at any moment.

use std::time::Duration;

use ichido::{
    Client,
    broker::Broker as _,
    store::{Database, Transactions},
};

use super::stage::{Stage, Work, ways};
use crate::fixture::{BrokerFixture, Cut, Fixture, Line as _, Part};

pub async fn a_broker_that_restarts_is_found_again<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::alone(ways::<F>()[0]).await;
    let process = stage.process(Work::plain());
    let mut ids = stage.send(20).await;
    stage.until_effects(20).await;
    stage.at.crash().await;
    ids.extend(stage.send(20).await);
    stage.at.start_again().await;
    ids.extend(stage.send(20).await);
    stage.finish(process, &ids).await;
}

pub async fn a_queue_that_was_deleted_is_declared_and_filled_again<F: Fixture, B: BrokerFixture>() {
    let stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    let process = stage.process(Work::plain());
    let mut ids = stage.send(5).await;
    stage.until_effects(5).await;
    stage.at.delete("orders", Part::Queue).await;
    ids.extend(stage.send(5).await);
    stage.finish(process, &ids).await;
}

pub async fn cuts_at_every_step_to_the_broker_lose_and_double_nothing<F: Fixture, B: BrokerFixture>() {
    for way in ways::<F>() {
        let stage = Stage::<F, B>::new(way).await;
        let line = stage.at.line();
        let through = || line.queue("orders");
        let processes = [stage.process_at(through(), Work::plain()), stage.process_at(through(), Work::plain())];
        let mut ids = Vec::new();
        for cut in Cut::ALL {
            // One confirm can be for many messages.
            let every = if matches!(cut, Cut::BeforeConfirm | Cut::AfterConfirm) { 1 } else { 3 };
            line.cut(cut, every, 2);
            ids.extend(stage.send(40).await);
            let all = i64::try_from(ids.len()).unwrap();
            stage.until_effects(all).await;
            assert!(line.cuts() > 0, "nothing was cut: {cut:?}");
        }
        stage.ends_empty().await;
        for process in processes {
            process.end().await;
        }
        stage.exactly_once(&ids).await;
    }
}

pub async fn sends_of_a_transaction_keep_their_order<F: Fixture, B: BrokerFixture>() {
    let mut stage = Stage::<F, B>::new(ways::<F>()[0]).await;
    // Whoever has the relay lease keeps it, however slow it is.
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
    stage.until("all are received", async || stage.orders().await == (0, 200)).await;
    // The broker has handed out all of them; the last may still be on their way. What the machine was too slow to renew comes again.
    while seen.len() < sent.len() {
        match ichido::broker::Source::try_next(&source) {
            Some(received) => {
                let id = received.id.unwrap();
                if !seen.contains(&id) {
                    seen.push(id);
                }
            }
            None => ichido::broker::Source::changed(&source).await,
        }
    }
    if !B::ORDERED {
        seen.sort();
        sent.sort();
    }
    assert_eq!(seen, sent);
}
