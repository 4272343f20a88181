//! Several processes that receive from one queue: all that is sent is done once, however long it takes, and whatever is delivered twice.

use ichido_test_servers::injector::{Fault, Faults};
use serde_json::json;

use crate::{sqs::world::World, testenv::Kind};

crate::on_all!(
    a_fleet_does_everything_once,
    an_action_longer_than_the_visibility_has_its_effects_once,
    what_a_killed_process_held_is_done_by_another,
    a_stopped_process_gives_back_what_it_has_not_begun,
    a_message_without_a_row_of_ours_is_dead_lettered,
    an_inbox_runs_what_others_send_once,
    a_redriven_message_is_the_same_message,
);

async fn a_fleet_does_everything_once(kind: Kind) {
    let world = World::new(kind).await;
    world.injector.inject(Faults { duplicates: 20, ..Faults::none() });
    let mut fleet = world.start(["one", "two", "three"], &[]);
    world.send(1..=60).await;
    world.shipped(60).await;
    world.env.until_none("ichido_mutex").await;
    assert!(world.injector.injected().contains_key(&Fault::SentTwice));
    world.injector.inject(Faults::none());
    world.assert_exact(60).await;
    for process in &mut fleet {
        process.stop().await;
    }
    world.assert_exact(60).await;
}

async fn an_action_longer_than_the_visibility_has_its_effects_once(kind: Kind) {
    let world = World::new(kind).await;
    world.hide_for("2s", &world.env.slow(5000));
    let mut fleet = world.start(["one", "two"], &[]);
    world.send(1..=3).await;
    world.shipped(3).await;
    world.env.until_none("ichido_mutex").await;
    assert!(world.calls("ChangeMessageVisibility") > 0, "{:?}", world.injector.calls());
    world.assert_exact(3).await;
    for process in &mut fleet {
        process.stop().await;
    }
}

async fn what_a_killed_process_held_is_done_by_another(kind: Kind) {
    let world = World::new(kind).await;
    world.hide_for("5s", &world.env.slow(5000));
    world.send(1..=6).await;
    let [victim] = world.start(["victim"], &[]);
    world.env.until_running().await;
    victim.kill().await;
    world.configure(|config| config);
    let [mut heir] = world.start(["heir"], &[]);
    world.shipped(6).await;
    world.env.until_none("ichido_mutex").await;
    heir.stop().await;
    world.assert_exact(6).await;
}

async fn a_stopped_process_gives_back_what_it_has_not_begun(kind: Kind) {
    let world = World::new(kind).await;
    // Long enough that nobody can have waited for it.
    world.hide_for("12h", "");
    world.send(1..=40).await;
    let [mut process] = world.start(["process"], &["--max-messages", "3"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    let done = u32::try_from(world.env.number("select count(*) from project").await).expect("few");
    assert!((3..40).contains(&done), "{done}");
    world.settles_at(&world.queue, 40 - done).await;
    world.drain().await;
    world.assert_exact(40).await;
}

async fn a_message_without_a_row_of_ours_is_dead_lettered(kind: Kind) {
    let world = World::new(kind).await;
    world.send([1]).await;
    world.at(&world.queue, "SendMessage", json!({ "MessageBody": World::order(2) }));
    let attribute = |text: &str| json!({ "DataType": "String", "StringValue": text });
    let theirs = json!({ "x-message-mutex": attribute("theirs"), "x-ichido-origin": attribute("elsewhere") });
    let request = json!({ "MessageBody": World::order(3), "MessageAttributes": theirs });
    world.at(&world.queue, "SendMessage", request);
    let [mut process] = world.start(["process"], &[]);
    world.shipped(1).await;
    world.settles_at(&world.dead(), 2).await;
    process.stop().await;
    let reasons = world.look(&world.dead());
    let reason = |part: &str| {
        reasons.iter().any(|letter| letter["MessageAttributes"]["x-ichido-reason"].to_string().contains(part))
    };
    assert!(reason("no mutex id") && reason("no mutex row"), "{reasons:?}");
    assert_eq!(world.env.number("select count(*) from project").await, 1);
}

async fn an_inbox_runs_what_others_send_once(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("guard = \"inbox\"");
    let [mut process] = world.start(["process"], &[]);
    process.until_logged("ichido starts").await;
    ichido_testkit::eventually("a queue", async || world.api.queue_url(&world.queue).is_some()).await;
    let id = json!({ "x-message-mutex": { "DataType": "String", "StringValue": "theirs" } });
    for _ in 0..3 {
        world.at(&world.queue, "SendMessage", json!({ "MessageBody": World::order(1), "MessageAttributes": id }));
    }
    world.settles_at(&world.queue, 0).await;
    // One without an id of its own has SQS's, also when it comes twice.
    world.injector.inject(Faults { duplicates: 100, ..Faults::none() });
    world.at(&world.queue, "SendMessage", json!({ "MessageBody": World::order(2) }));
    world.shipped(2).await;
    world.injector.inject(Faults::none());
    world.settles_at(&world.queue, 0).await;
    process.stop().await;
    world.settles_at(&world.dead(), 0).await;
    for order in [1, 2] {
        assert_eq!(world.env.number(&format!("select count(*) from project where id = {order}")).await, 1, "{order}");
    }
}

/// Whoever moves a dead letter back gives it another id of SQS; ours stays.
async fn a_redriven_message_is_the_same_message(kind: Kind) {
    let world = World::new(kind).await;
    let sent = world.send([1]).await;
    let before = world.look(&world.queue).remove(0);
    let copy = json!({ "MessageBody": before["Body"], "MessageAttributes": before["MessageAttributes"] });
    for _ in 0..2 {
        let again = world.at(&world.queue, "SendMessage", copy.clone());
        assert_ne!(again["MessageId"], before["MessageId"]);
    }
    let id = before["MessageAttributes"]["x-message-mutex"]["StringValue"].as_str().expect("an id");
    assert_eq!(sent, [format!("orders/{id}")]);
    let [mut process] = world.start(["process"], &[]);
    world.shipped(1).await;
    world.settles_at(&world.queue, 0).await;
    process.stop().await;
    world.assert_exact(1).await;
}
