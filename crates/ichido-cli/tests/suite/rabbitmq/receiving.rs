//! From the broker to the business tables: several processes on one database and one vhost.

use ichido_rabbitmq::Envelope;

use crate::{
    rabbitmq::{
        doctor::ship,
        world::{BUSY, QUEUE, World},
    },
    testenv::Kind,
};

crate::on_all!(
    three_processes_share_the_work_and_do_each_order_once,
    what_a_killed_process_had_is_done_by_others,
    the_prefetch_is_what_the_configuration_says,
    what_is_published_twice_runs_once_and_is_counted,
    a_drain_runs_what_is_due_by_now,
    a_busy_delay_may_change,
);

async fn three_processes_share_the_work_and_do_each_order_once(kind: Kind) {
    let world = World::new(kind).await;
    world.send(1..=150).await;
    let mut processes = world.start(["one", "two", "three"], &["--drain"]);
    for process in &mut processes {
        assert_eq!(process.exit_code().await, 0, "{}", process.log());
    }
    world.assert_exact(150).await;
}

async fn what_a_killed_process_had_is_done_by_others(kind: Kind) {
    let world = World::new(kind).await;
    world.slow_down(5);
    world.send(1..=120).await;
    let [victim, mut other] = world.start(["victim", "other"], &[]);
    world.shipped(20).await;
    victim.kill().await;
    world.shipped(120).await;
    world.comes_to_rest().await;
    other.stop().await;
    world.assert_exact(120).await;
    assert_eq!(world.env.number("select count(*) from ichido_parked").await, 0, "nothing failed");
}

async fn the_prefetch_is_what_the_configuration_says(kind: Kind) {
    let world = World::new(kind).await;
    world.never_end();
    world.env.reconfigure(|config| config.replace("relay_after = \"1s\"", "prefetch = 3, relay_after = \"10m\""));
    world.send(1..=20).await;
    let [mut process] = world.start(["process"], &[]);
    world.settles_with(QUEUE, 17, 3).await;
    world.env.until_running().await;
    process.signal("-TERM").await;
    process.until_logged("stopping").await;
    process.signal_until_it_ends("-TERM").await;
    assert_eq!(process.exit_code().await, 128 + 15);
    world.settles_at(QUEUE, 20).await;
    assert_eq!(world.env.number("select count(*) from project").await, 0);
}

async fn what_is_published_twice_runs_once_and_is_counted(kind: Kind) {
    let world = World::new(kind).await;
    let ids = world.send(1..=10).await;
    for (id, order) in ids.iter().zip(1..=3) {
        world.publish(&[world.copy(id, order).await]).await;
    }
    let [mut process] = world.start(["process"], &[]);
    world.shipped(10).await;
    world.comes_to_rest().await;
    process.stop().await;
    world.assert_exact(10).await;
    let status: serde_json::Value = serde_json::from_str(&world.env.ok(&["status", "--json"]).await).unwrap();
    let measured = &status["measured"][0];
    assert!(measured["duplicates"] == 3 && measured["found_busy"].is_u64(), "{status}");
    let text = world.env.ok(&["status"]).await;
    assert!(text.contains("DUPLICATES  FOUND BUSY"), "{text}");
}

/// A host that only drains, now and then, is the only one that returns what is due.
async fn a_drain_runs_what_is_due_by_now(kind: Kind) {
    let world = World::new(kind).await;
    world.env.ok(&["send", "orders", &World::order(1), "--at", "2020-01-01T00:00:00Z"]).await;
    world.env.ok(&["send", "orders", &World::order(2), "--delay", "1d"]).await;
    let [mut process] = world.start(["process"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    assert_eq!(world.env.number("select count(*) from project").await, 1, "{}", process.log());
}

/// Each delay has a queue of its own; what waits in the one before comes back by itself.
async fn a_busy_delay_may_change(kind: Kind) {
    let world = World::new(kind).await;
    let before = ship(&world, 1).await;
    let busy = Envelope::new("", BUSY, World::order(1)).unwrap();
    let busy = busy.header("x-message-mutex", before.strip_prefix("orders/").unwrap()).unwrap();
    let origin = world.env.text("select id from ichido_origin").await;
    let busy = busy.header("x-ichido-origin", &origin).unwrap().header("x-ichido-queue", "orders").unwrap();
    world.publish(&[busy]).await;
    world.env.reconfigure(|config| config.replace("busy_delay = \"200ms\"", "busy_delay = \"300ms\""));
    world.env.ok(&["check"]).await;
    world.env.ok(&["doctor"]).await;
    world.send([2]).await;
    let [mut process] = world.start(["changed"], &[]);
    world.shipped(2).await;
    world.comes_to_rest().await;
    process.stop().await;
    world.assert_exact(2).await;
}
