//! Time: a sender that dies before anything is published, and a broker that does not wait for an acknowledgement as long as an
//! action takes.

use std::time::Instant;

use ichido::{Client, Guarded, Queue, message::ClaimBy};

use crate::{
    rabbitmq::{
        ledger::Written,
        world::{BUSY, DEAD, QUEUE, World},
    },
    testenv::Kind,
};

crate::on_all!(
    what_a_sender_committed_before_it_died_is_published_by_whoever_runs,
    an_action_that_takes_longer_than_the_broker_waits_has_one_effect,
);

/// Commits orders, and does nothing more: as a sender that dies right after its COMMIT.
pub(crate) async fn commit(world: &World<'_>, orders: std::ops::RangeInclusive<u32>) {
    let mut rules = Guarded::new("", QUEUE);
    rules.claim = ClaimBy::Lease;
    let (url, queues) = (&world.env.url, vec![Queue::broker("orders", rules)]);
    match world.env.kind {
        Kind::Postgres => commit_to(ichido_postgres::Postgres::new(url, None, 2, queues).unwrap(), orders).await,
        Kind::MariaDb => commit_to(ichido_mysql::MySql::new(url, None, 2, false, queues).unwrap(), orders).await,
        Kind::Sqlite => {
            let url = format!("sqlite://{}", world.env.folder().join("test.db").display());
            commit_to(ichido_sqlite::Sqlite::new(&url, queues).unwrap(), orders).await;
        }
    }
}

async fn commit_to<S: Written>(store: S, orders: std::ops::RangeInclusive<u32>) {
    let orders: Vec<serde_json::Value> = orders.map(|id| serde_json::from_str(&World::order(id)).unwrap()).collect();
    let client = Client::new(store.clone());
    for commit in [true, false] {
        let mut tx = store.begin().await.unwrap();
        client.queue("orders").send_all(S::connection(&mut tx), &orders).await.unwrap();
        if commit {
            store.commit(tx).await.unwrap();
        } else {
            store.rollback(tx).await.unwrap();
        }
    }
}

async fn what_a_sender_committed_before_it_died_is_published_by_whoever_runs(kind: Kind) {
    let world = World::new(kind).await;
    commit(&world, 1..=10).await;
    assert_eq!(world.unpublished().await, 10, "committed, and nobody is there who would publish it");
    let begun = Instant::now();
    let mut relay = world.env.start("relay", &["relay"]);
    world.settles_at(QUEUE, 10).await;
    relay.stop().await;
    commit(&world, 11..=20).await;
    let [mut process] = world.start(["process"], &[]);
    world.shipped(20).await;
    println!("{kind:?}: a relay and a process published what others had committed, {:?}", begun.elapsed());
    world.env.until_none("ichido_outbox").await;
    world.comes_to_rest().await;
    process.stop().await;
    world.assert_exact(20).await;
}

/// The broker takes the delivery back, and closes the channel that it came by.
async fn an_action_that_takes_longer_than_the_broker_waits_has_one_effect(kind: Kind) {
    let world = World::impatient(kind).await;
    // SQLite counts instead of waiting, and fast machines count fast.
    world.slow_down(if kind == Kind::Sqlite { 5000 } else { 1250 });
    let [mut process] = world.start(["process"], &[]);
    // Twice: the same consumer is back.
    for order in 1..=2 {
        world.send([order]).await;
        world.shipped(order).await;
        world.env.until_none("ichido_mutex").await;
        // The copy that the broker handed out again is a duplicate now.
        for queue in [QUEUE, BUSY, DEAD] {
            world.settles_at(queue, 0).await;
        }
    }
    let log = std::fs::read_to_string(world.node.folder().join("log")).expect("the node's log");
    let closed = log.split("Channel error on connection").filter(|error| error.contains(world.vhost()));
    let late = closed.filter(|error| error.contains("delivery acknowledgement on channel")).count();
    assert!(late >= 2, "the broker has waited:\n{log}");
    world.comes_to_rest().await;
    process.stop().await;
    world.assert_exact(2).await;
}
