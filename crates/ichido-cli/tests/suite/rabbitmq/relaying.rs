//! From the transaction to the broker: at once, or later by whoever runs, and nothing is lost while the broker is away.

use ichido_testkit::eventually;

use crate::{
    rabbitmq::world::{QUEUE, World},
    testenv::Kind,
};

crate::on_all!(
    what_is_sent_is_published_when_it_has_committed,
    what_is_sent_while_the_broker_is_away_is_committed_and_published_by_a_relay,
    a_relay_alone_publishes_what_others_send,
    a_process_publishes_what_others_send,
    what_nobody_takes_is_seen_in_status_and_published_when_somebody_does,
    keys_and_groups_are_for_managed_queues,
    levels_of_a_lane_set_may_be_at_a_broker,
    queues_of_one_broker_are_published_over_one_connection,
);

async fn what_is_sent_is_published_when_it_has_committed(kind: Kind) {
    let world = World::new(kind).await;
    let sent = world.env.run(&["send", "orders", &World::order(1)]).await;
    assert_eq!((sent.code, sent.stdout.lines().count(), sent.stderr.as_str()), (Some(0), 1, ""), "{sent:?}");
    assert!(sent.stdout.starts_with("orders/"), "{sent:?}");
    world.settles_at(QUEUE, 1).await;
    let ids = world.send(2..=400).await;
    assert_eq!(ids.len(), 399);
    world.settles_at(QUEUE, 400).await;
    assert_eq!(world.unpublished().await, 0);
    let refused = world.env.run_with_input(&["send", "orders", "--file", "-"], b"{\"id\":401}\n{oops\n").await;
    refused.assert_refused(127, &["message 2: not JSON", "nothing was sent"]);
    world.settles_at(QUEUE, 400).await;
    assert_eq!(world.unpublished().await, 0);
}

async fn what_is_sent_while_the_broker_is_away_is_committed_and_published_by_a_relay(kind: Kind) {
    let world = World::new(kind).await;
    let proxy = world.behind_a_proxy();
    proxy.refuse(true);
    let sent = world.env.run(&["send", "orders", &World::order(1)]).await;
    assert_eq!((sent.code, sent.stdout.lines().count()), (Some(0), 1), "{sent:?}");
    let told = ["committed, but not all messages are published yet", "`ichido relay` will publish them", "127.0.0.1"];
    assert!(told.iter().all(|part| sent.stderr.contains(part)) && !sent.stderr.contains("once:"), "{sent:?}");
    assert_eq!(sent.stderr.matches("ichido: ").count(), 1, "{sent:?}");
    assert_eq!(world.unpublished().await, 1);
    let status: serde_json::Value = serde_json::from_str(&world.env.ok(&["status", "--json"]).await).unwrap();
    let outbox = &status["queues"][0]["outbox"];
    assert_eq!(outbox["unpublished"].as_u64(), Some(1), "{status}");
    assert!(outbox["oldest_seconds"].is_u64() && outbox["error"].is_string(), "{status}");
    let text = world.env.ok(&["status"]).await;
    assert!(["BROKER QUEUE", "UNPUBLISHED", "not sent:"].iter().all(|part| text.contains(part)), "{text}");

    let mut relay = world.env.start("relay", &["relay"]);
    relay.until_logged("continuing without it").await;
    relay.until_logged("relaying `orders` to 127.0.0.1").await;
    proxy.refuse(false);
    world.settles_at(QUEUE, 1).await;
    world.env.until("select count(*) from ichido_outbox where published_at is not null", 1).await;
    relay.stop().await;
    assert!(relay.log().contains("finishing what is being published"), "{}", relay.log());
    let text = world.env.ok(&["status"]).await;
    assert!(!text.contains("not sent:"), "{text}");
}

/// Sends past the broker: only somebody else can publish it.
async fn send_without_a_broker(world: &World<'_>, ids: std::ops::RangeInclusive<u32>) {
    let proxy = world.behind_a_proxy();
    proxy.refuse(true);
    world.send(ids).await;
    world.configure(|config| config);
}

async fn a_relay_alone_publishes_what_others_send(kind: Kind) {
    let world = World::new(kind).await;
    let mut relay = world.env.start("relay", &["relay"]);
    relay.until_logged("relaying `orders`").await;
    send_without_a_broker(&world, 1..=200).await;
    world.settles_at(QUEUE, 200).await;
    relay.signal("-INT").await;
    assert_eq!(relay.exit_code().await, 0, "{}", relay.log());
    assert_eq!(world.unpublished().await, 0);
    assert_eq!(world.env.number("select count(*) from project").await, 0, "it runs no action");
}

async fn a_process_publishes_what_others_send(kind: Kind) {
    let world = World::new(kind).await;
    world.configure(|config| {
        config.replace("[actions.Ship]\nfrom        = \"orders\"", "[queues.other]\n[actions.Ship]\nfrom = \"other\"")
    });
    let [mut process] = world.start(["process"], &[]);
    process.until_logged("ichido starts").await;
    send_without_a_broker(&world, 1..=20).await;
    world.settles_at(QUEUE, 20).await;
    process.stop().await;
}

async fn what_nobody_takes_is_seen_in_status_and_published_when_somebody_does(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("declare = false");
    let sent = world.env.run(&["send", "orders", &World::order(1)]).await;
    assert!(sent.code == Some(0) && sent.stderr.contains("unroutable"), "{sent:?}");
    let text = world.env.ok(&["status"]).await;
    assert!(text.contains("unroutable"), "{text}");
    world.configure(|config| config);
    let mut relay = world.env.start("relay", &["relay"]);
    world.settles_at(QUEUE, 1).await;
    world.env.until_none("ichido_outbox where published_at is null").await;
    relay.stop().await;
}

async fn keys_and_groups_are_for_managed_queues(kind: Kind) {
    let world = World::new(kind).await;
    for option in [["--unique", "k"], ["--group", "g"]] {
        let args = [&["send", "orders", "{}"][..], &option].concat();
        world.env.run(&args).await.assert_refused(127, &["managed queues", "nothing was sent"]);
    }
    assert_eq!(world.unpublished().await, 0);
}

async fn levels_of_a_lane_set_may_be_at_a_broker(kind: Kind) {
    let world = World::new(kind).await;
    let levels = "[{ level = \"member\", queue = \"orders\" }, { level = \"free\", queue = \"plain\" }]";
    world.configure(|config| format!("{config}\n[lanes.site]\npolicy = \"strict\"\nlevels = {levels}\n"));
    for (level, order) in [("member", 1), ("free", 2)] {
        let sent = world.env.run(&["send", "site", &World::order(order), "--level", level]).await;
        assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""), "{sent:?}");
    }
    world.settles_at(QUEUE, 1).await;
    world.env.reconfigure(|config| config.replace("from        = \"orders\"", "from = \"site\""));
    let [mut process] = world.start(["process"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    world.assert_exact(2).await;
}

async fn queues_of_one_broker_are_published_over_one_connection(kind: Kind) {
    let world = World::new(kind).await;
    let more = ["two", "three"]
        .map(|name| format!("[queues.{name}]\nrabbitmq = {{ url = \"{}\", queue = \"{name}\" }}\n", world.url));
    world.configure(|config| format!("{config}\n{}", more.concat()));
    let mut relay = world.env.start("relay", &["relay"]);
    relay.until_logged("relaying `two`").await;
    for queue in ["orders", "two", "three"] {
        let sent = world.env.run(&["send", queue, &World::order(1)]).await;
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    for queue in [QUEUE, "two", "three"] {
        world.settles_at(queue, 1).await;
    }
    // Those of the sends may have ended a moment ago.
    eventually("one connection for three queues", async || match world.connections() {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    relay.stop().await;
}
