//! The commands about a queue at SQS: what they print, and what they do while the service is away.

use ichido_test_servers::injector::Faults;
use serde_json::{Value, json};

use crate::{sqs::world::World, testenv::Kind};

crate::on_all!(
    what_is_sent_is_published_in_batches,
    what_is_sent_while_sqs_is_away_is_published_by_a_relay,
    check_says_what_will_be_made_and_changes_nothing,
    check_warns_about_a_queue_that_takes_less_than_payload_limit,
    status_and_messages_tell_what_waits,
    a_cancelled_message_never_runs,
    a_missing_queue_is_refused_without_declare,
    a_delay_waits_in_the_database,
);

fn away() -> Faults {
    Faults { cuts: 100, ..Faults::none() }
}

async fn what_is_sent_is_published_in_batches(kind: Kind) {
    let world = World::new(kind).await;
    let ids = world.send(1..=100).await;
    assert_eq!(ids.len(), 100);
    world.settles_at(&world.queue, 100).await;
    assert_eq!(world.unpublished().await, 0);
    assert_eq!(world.calls("SendMessage"), 10, "{:?}", world.injector.calls());
}

async fn what_is_sent_while_sqs_is_away_is_published_by_a_relay(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("publish_deadline = \"3s\"");
    world.injector.inject(away());
    let sent = world.env.run(&["send", "orders", &World::order(1)]).await;
    assert_eq!((sent.code, sent.stdout.lines().count()), (Some(0), 1), "{sent:?}");
    assert!(sent.stderr.contains("committed, but not all messages are published yet"), "{sent:?}");
    assert_eq!(world.unpublished().await, 1);
    let status: Value = serde_json::from_str(&world.env.ok(&["status", "--json"]).await).unwrap();
    assert_eq!(status["queues"][0]["outbox"]["unpublished"].as_u64(), Some(1), "{status}");
    let mut relay = world.env.start("relay", &["relay"]);
    relay.until_logged("relaying `orders`").await;
    world.injector.inject(Faults::none());
    world.settles_at(&world.queue, 1).await;
    world.env.until_none("ichido_outbox where published_at is null").await;
    relay.stop().await;
    world.drain().await;
    world.assert_exact(1).await;
}

async fn check_says_what_will_be_made_and_changes_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let text = world.env.ok(&["check"]).await;
    assert!(text.contains(&world.queue) && text.contains(&world.dead()), "{text}");
    assert_eq!(world.api.queue_url(&world.queue), None);
    world.send([1]).await;
    world.drain().await;
    let text = world.env.ok(&["check"]).await;
    assert!(!text.contains("will be"), "{text}");
    world.injector.inject(away());
    let refused = world.env.run(&["check"]).await;
    assert_eq!(refused.code, Some(20), "{refused:?}");
}

async fn check_warns_about_a_queue_that_takes_less_than_payload_limit(kind: Kind) {
    let world = World::new(kind).await;
    let of_size = |size: u32| json!({ "Attributes": { "MaximumMessageSize": size.to_string() } });
    for (name, size) in [(&world.queue, 300_000), (&world.dead(), 2000)] {
        world.api.call("CreateQueue", &json!({ "QueueName": name }));
        world.at(name, "SetQueueAttributes", of_size(size));
    }
    let told = async || {
        let ended = world.env.run(&["check"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stderr
    };
    let text = told().await;
    let warning = |queue: &str, takes: u32| format!("queue {queue} takes {takes} at most");
    assert!(!text.contains(&warning(&world.queue, 300_000)), "{text}");
    assert!(text.contains(&warning(&world.dead(), 2000)), "{text}");
    world.configure(|config| config.replace("[queues.orders]", "[queues.orders]\npayload_limit = \"400KiB\""));
    let text = told().await;
    assert!(text.contains(&warning(&world.queue, 300_000)) && text.contains("payload_limit"), "{text}");
}

async fn status_and_messages_tell_what_waits(kind: Kind) {
    let world = World::new(kind).await;
    let ids = world.send(1..=3).await;
    let status: Value = serde_json::from_str(&world.env.ok(&["status", "--json"]).await).unwrap();
    assert_eq!(status["queues"][0]["queue"], "orders", "{status}");
    assert_eq!(status["queues"][0]["ready"], 3, "{status}");
    let list = world.env.ok(&["messages", "list", "--queue", "orders"]).await;
    assert!(ids.iter().all(|id| list.contains(id)), "{list}");
    let shown = world.env.ok(&["messages", "show", &ids[0]]).await;
    assert!(shown.contains(&ids[0]), "{shown}");
    world.drain().await;
    world.assert_exact(3).await;
}

async fn a_cancelled_message_never_runs(kind: Kind) {
    let world = World::new(kind).await;
    let ids = world.send(1..=3).await;
    world.env.ok(&["messages", "cancel", &ids[1]]).await;
    world.drain().await;
    assert_eq!(world.env.number("select count(*) from project").await, 2);
    assert_eq!(world.env.number("select count(*) from project where id = 2").await, 0);
    world.settles_at(&world.queue, 0).await;
    world.settles_at(&world.dead(), 0).await;
}

async fn a_missing_queue_is_refused_without_declare(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("declare = false");
    let refused = world.env.run(&["run", "Ship/R1"]).await;
    refused.assert_refused(127, &[&world.queue, "does not exist"]);
    for name in [&world.queue, &world.dead()] {
        world.api.call("CreateQueue", &json!({ "QueueName": name }));
    }
    world.send([1]).await;
    world.drain().await;
    world.assert_exact(1).await;
}

async fn a_delay_waits_in_the_database(kind: Kind) {
    let world = World::new(kind).await;
    world.env.ok(&["send", "orders", &World::order(1), "--delay", "1h"]).await;
    world.env.ok(&["send", "orders", &World::order(2)]).await;
    world.settles_at(&world.queue, 1).await;
    world.drain().await;
    assert_eq!(world.env.number("select count(*) from project where id = 2").await, 1);
    let list = world.env.ok(&["messages", "list", "--queue", "orders"]).await;
    let id = list.split_whitespace().find(|word| word.starts_with("orders/")).expect("an id").to_owned();
    world.env.ok(&["messages", "run-now", &id]).await;
    world.drain().await;
    world.assert_exact(2).await;
}
