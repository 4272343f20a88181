//! A healthy system is silent: sends beside a running process, a process that stops, a broker whose counts are some seconds old.

use std::time::Duration;

use ichido_testkit::eventually;

use crate::{
    rabbitmq::world::{QUEUE, World},
    testenv::Kind,
};

crate::on_all!(sends_beside_a_running_process_say_nothing_and_neither_does_its_stop);

async fn sends_beside_a_running_process_say_nothing_and_neither_does_its_stop(kind: Kind) {
    let world = World::new(kind).await;
    // A heartbeat that comes late is told, and on a busy machine it may be late by more than a second.
    world.configure(|config| config.replace("lease = \"1s\"", "lease = \"30s\""));
    let mut processes = world.start(["one", "two"], &[]);
    world.until_served().await;
    for order in 1..=20 {
        let quiet: &[&str] = if order % 2 == 0 { &["-q"] } else { &[] };
        let sent = world.env.run(&[quiet, &["send", "orders", &World::order(order)]].concat()).await;
        assert_eq!((sent.code, &*sent.stderr), (Some(0), ""), "order {order}");
    }
    world.shipped(20).await;
    world.comes_to_rest().await;
    for process in &mut processes {
        process.stop().await;
        let log = process.log();
        assert!(!log.contains(" WARN ") && !log.contains(" ERROR "), "{log}");
    }
    world.assert_exact(20).await;
}

/// Two sends at once: what one has committed while the other was about to end is published by one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sends_at_the_same_time_each_is_published() {
    let world = World::new(Kind::Sqlite).await;
    world.send([1]).await;
    for round in 0..5 {
        let orders = [2, 3, 4].map(|order| World::order(3 * round + order));
        let [one, two, three] = orders.each_ref().map(|order| ["send", "orders", order]);
        let env = &world.env;
        let (one, two, three) = tokio::join!(env.run(&one), env.run(&two), env.run(&three));
        for sent in [one, two, three] {
            assert_eq!((sent.code, &*sent.stderr), (Some(0), ""), "{sent:?}");
        }
        assert_eq!(world.unpublished().await, 0);
    }
    let [mut process] = world.start(["process"], &[]);
    world.shipped(16).await;
    // A relay that was too slow to renew its lease may have published a copy.
    world.comes_to_rest().await;
    process.stop().await;
    world.assert_exact(16).await;
}

/// The management API counts every five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_some_seconds_ago_lose_no_messages() {
    let world = World::managed(Kind::Sqlite).await;
    world.configure_queue(&format!("management = \"{}\"", world.node.management_url()));
    let mut relay = world.env.start("relay", &["relay"]);
    relay.until_logged("relaying `orders`").await;
    // Time itself: longer than the relay looks twice and the API counts.
    for order in 1..=12 {
        world.send([order]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    relay.stop().await;
    // A busy machine may keep it from renewing its lease, and it says so; then there may be a copy, but nothing is lost.
    assert!(!relay.log().contains("the broker lost messages"), "{}", relay.log());
    eventually("all are with the broker", async || world.depth(QUEUE).ready >= 12).await;
    let [mut process] = world.start(["process"], &[]);
    world.shipped(12).await;
    world.comes_to_rest().await;
    process.stop().await;
    world.assert_exact(12).await;
}

/// The driver of the broker logs its own errors, which ichido tells in its own words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_away_is_told_in_our_words_only() {
    let world = World::new(Kind::Sqlite).await;
    let proxy = world.behind_a_proxy();
    for (args, first) in [(["run", "-q"], 1), (["run", "-v"], 3)] {
        let mut process = world.env.start("process", &args);
        for order in first..=first + 1 {
            world.send([order]).await;
            world.shipped(order).await;
            proxy.sever_all();
        }
        process.stop().await;
        let log = process.log();
        assert!(!log.contains("lapin") && !log.contains("amq_protocol"), "{log}");
    }
}
