//! What SQS can carry and what it cannot: characters, attributes, sizes.

use serde_json::{Value, json};

use crate::{sqs::world::World, testenv::Kind};

crate::on_all!(
    a_body_that_sqs_does_not_take_travels_as_base64,
    headers_travel_in_one_attribute,
    ten_attributes_of_another_sender_survive_a_dead_letter,
    a_message_that_is_too_large_is_told_and_holds_up_nobody,
    large_messages_share_no_batch_that_is_too_large,
);

fn text(message: &Value, attribute: &str) -> String {
    message["MessageAttributes"][attribute]["StringValue"].as_str().unwrap_or_default().to_owned()
}

async fn a_body_that_sqs_does_not_take_travels_as_base64(kind: Kind) {
    let world = World::new(kind).await;
    // Valid in JSON, and not in SQS.
    let name = "a\u{fffe}b";
    let order = format!(r#"{{"id":1,"name":"{name}"}}"#);
    world.env.ok(&["send", "orders", &order]).await;
    let message = world.look(&world.queue).remove(0);
    assert_eq!(text(&message, "x-ichido-encoding"), "base64", "{message}");
    world.send([2]).await;
    world.drain().await;
    assert_eq!(world.env.text("select name from project where id = 1").await, name);
    world.assert_exact(2).await;
}

async fn headers_travel_in_one_attribute(kind: Kind) {
    let world = World::new(kind).await;
    world.env.ok(&["send", "orders", &World::order(1), "--attempts", "2"]).await;
    let message = world.look(&world.queue).remove(0);
    let attributes = message["MessageAttributes"].as_object().expect("attributes");
    assert!(attributes.len() <= 4, "{attributes:?}");
    assert!(text(&message, "x-ichido-headers").contains("attempts"), "{attributes:?}");
    world.drain().await;
    world.assert_exact(1).await;
}

async fn ten_attributes_of_another_sender_survive_a_dead_letter(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("guard = \"inbox\"");
    world.api.call("CreateQueue", &json!({ "QueueName": world.queue }));
    let attribute = |n: u32| (format!("header-{n}"), json!({ "DataType": "String", "StringValue": n.to_string() }));
    let attributes: serde_json::Map<_, _> = (1..=10).map(attribute).collect();
    let nameless = r#"{"id":1,"name":null}"#;
    world.at(&world.queue, "SendMessage", json!({ "MessageBody": nameless, "MessageAttributes": attributes }));
    let [mut process] = world.start(["process"], &[]);
    world.settles_at(&world.dead(), 1).await;
    world.settles_at(&world.queue, 0).await;
    process.stop().await;
    let letter = world.look(&world.dead()).remove(0);
    let carried = letter["MessageAttributes"].to_string();
    assert!((1..=10).all(|n| carried.contains(&format!("header-{n}"))), "{carried}");
    assert!(letter["MessageAttributes"].as_object().expect("attributes").len() <= 10, "{carried}");
    assert!(!text(&letter, "x-ichido-reason").is_empty(), "{carried}");
}

fn large(id: u32, bytes: usize) -> String {
    format!(r#"{{"id":{id},"name":"{id}","filling":"{}"}}"#, "x".repeat(bytes))
}

async fn a_message_that_is_too_large_is_told_and_holds_up_nobody(kind: Kind) {
    let world = World::new(kind).await;
    world.configure(|config| config.replace("[queues.orders]", "[queues.orders]\npayload_limit = \"4MiB\""));
    let lines = [large(1, 2 << 20), World::order(2)].join("\n");
    let sent = world.env.run_with_input(&["send", "orders", "--file", "-"], lines.as_bytes()).await;
    println!("{sent:?}");
    let [mut process] = world.start(["process"], &[]);
    world.shipped(1).await;
    process.stop().await;
    assert_eq!(world.env.number("select count(*) from project where id = 2").await, 1);
    let status: Value = serde_json::from_str(&world.env.ok(&["status", "--json"]).await).unwrap();
    let outbox = &status["queues"][0]["outbox"];
    assert_eq!(outbox["unpublished"].as_u64(), Some(1), "{status}");
    let error = outbox["error"].as_str().unwrap_or_default();
    assert!(error.contains("bytes") || error.contains("longer") || error.contains("large"), "{status}");
}

async fn large_messages_share_no_batch_that_is_too_large(kind: Kind) {
    let world = World::new(kind).await;
    let lines: Vec<_> = (1..=10).map(|id| large(id, 100 << 10)).collect();
    let sent = world.env.run_with_input(&["send", "orders", "--file", "-"], lines.join("\n").as_bytes()).await;
    assert_eq!(sent.code, Some(0), "{sent:?}"); // what an injected fault kept back is published by whoever runs
    world.settles_at(&world.queue, 10).await;
    world.drain().await;
    world.assert_exact(10).await;
}
