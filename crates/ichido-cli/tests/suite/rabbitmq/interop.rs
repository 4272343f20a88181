//! With programs that know nothing of ichido: a client in another language, on another library, publishes what was made ready with
//! plain SQL, and consumes what ichido has sent.

use std::{path::Path, process::Stdio};

use ichido_testkit::LIMIT;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

use crate::{
    clients::{how, send_plain},
    rabbitmq::world::{DEAD, QUEUE, World},
    testenv::Kind,
};

crate::on_all!(
    what_another_client_publishes_for_a_row_of_plain_sql_is_done_once,
    what_has_no_row_or_no_id_is_a_dead_letter_whoever_sent_it,
    another_client_s_messages_pass_the_inbox_once,
    another_client_consumes_what_ichido_has_sent,
    what_plain_sql_sends_is_published_and_done_once,
    another_client_s_number_of_attempts_counts_and_rubbish_does_not,
);

/// Runs the other client, and returns what it printed.
async fn other_client(world: &World<'_>, args: &[&str], input: &[Value]) -> Vec<Value> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = here.join("../../target/python");
    assert!(packages.join("pika").is_dir(), "pika is not in {}: run ./test, which installs it", packages.display());
    let mut client = Command::new("python3");
    client
        .arg(here.join("tests/suite/rabbitmq/other_client.py"))
        .arg(&world.url)
        .args(args)
        .env("PYTHONPATH", packages);
    let client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.kill_on_drop(true).spawn().expect("python3 starts");
    let lines = input.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    client.stdin.take().unwrap().write_all(lines.as_bytes()).await.unwrap();
    let ended = timeout(LIMIT, client.wait_with_output()).await.expect("the other client ends").unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn message(header: &str, id: &Value, order: u32) -> Value {
    json!({ "headers": { header: id }, "body": World::order(order) })
}

async fn what_another_client_publishes_for_a_row_of_plain_sql_is_done_once(kind: Kind) {
    let world = World::new(kind).await;
    let process = world.start(["one"], &[]);
    world.env.sql("insert into ichido_mutex (id, queue) values ('text', 'orders')").await;
    for id in ["7", "70000", "7000000000", "bytes", "old", "09"] {
        world.env.sql(&format!("insert into ichido_mutex (id, queue) values ('{id}', 'orders')")).await;
    }
    process[0].until_logged("process starts").await;
    let ids = [
        ("x-message-mutex", json!("text")),
        ("x-message-mutex", json!(7)),
        ("x-message-mutex", json!(70_000)),
        ("x-message-mutex", json!(7_000_000_000_i64)),
        ("x-message-mutex", json!({ "bytes": "Ynl0ZXM=" })),
        ("x-mutex-id", json!("old")),
        ("x-mutex-id", json!("09")),
    ];
    let messages: Vec<_> = ids.iter().zip(1..).map(|((header, id), order)| message(header, id, order)).collect();
    world.until_served().await;
    other_client(&world, &["publish", QUEUE], &messages).await;
    world.shipped(7).await;
    world.comes_to_rest().await;
    assert_eq!(world.env.number("select count(*) from ichido_mutex").await, 0);
    // A copy of something of which nobody knows that it was ours is not acknowledged away.
    other_client(&world, &["publish", QUEUE], &messages[..2]).await;
    world.settles_at(DEAD, 2).await;
    assert_eq!(world.env.number("select count(*) from project").await, 7);
    for process in process {
        process.kill().await;
    }
}

async fn what_has_no_row_or_no_id_is_a_dead_letter_whoever_sent_it(kind: Kind) {
    let world = World::new(kind).await;
    let process = world.start(["one"], &[]);
    world.until_served().await;
    let nothing = json!({ "body": World::order(1) });
    let strange = [json!([1]), json!(true), json!(""), json!("x".repeat(300)), json!("nobody's")];
    let mut messages: Vec<_> = strange.iter().map(|id| message("x-message-mutex", id, 1)).collect();
    messages.push(nothing);
    other_client(&world, &["publish", QUEUE], &messages).await;
    world.settles_at(DEAD, 6).await;
    assert_eq!(world.env.number("select count(*) from project").await, 0);
    for process in process {
        process.kill().await;
    }
}

async fn another_client_s_messages_pass_the_inbox_once(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("guard = \"inbox\"");
    let process = world.start(["one"], &[]);
    world.until_served().await;
    let messages: Vec<_> = (1..=5).map(|n| json!({ "message_id": format!("m{n}"), "body": World::order(n) })).collect();
    other_client(&world, &["publish", QUEUE], &messages).await;
    other_client(&world, &["publish", QUEUE], &messages).await;
    world.shipped(5).await;
    world.comes_to_rest().await;
    assert_eq!(world.env.number("select count(*) from project").await, 5);
    for process in process {
        process.kill().await;
    }
}

async fn another_client_consumes_what_ichido_has_sent(kind: Kind) {
    let world = World::new(kind).await;
    let ids = world.send(1..=3).await;
    let origin = world.env.text("select id from ichido_origin").await;
    let seen = other_client(&world, &["consume", QUEUE, "3"], &[]).await;
    assert_eq!(seen.len(), 3, "{seen:?}");
    for ((id, order), message) in ids.iter().zip(1..).zip(&seen) {
        let id = id.strip_prefix("orders/").unwrap();
        assert_eq!(message["headers"]["x-message-mutex"], id, "{message}");
        assert_eq!(message["headers"]["x-ichido-origin"], origin.as_str(), "{message}");
        assert_eq!(message["headers"]["x-ichido-queue"], "orders", "{message}");
        assert_eq!((&message["message_id"], &message["delivery_mode"]), (&json!(id), &json!(2)), "{message}");
        assert_eq!(message["content_type"], "application/json", "{message}");
        assert_eq!(message["body"], World::order(order).as_str(), "{message}");
    }
}

/// The statements that `ichido send --sql` prints write the mutex and what is to be published.
async fn what_plain_sql_sends_is_published_and_done_once(kind: Kind) {
    let world = World::new(kind).await;
    let [mut process] = world.start(["one"], &[]);
    let how = how(&world.env, "orders", &[]).await;
    let order = |id: u32, more: Value| {
        let mut line = json!({ "how": how, "message": { "id": id, "name": "é" } });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let lines = [
        order(1, json!({})),
        order(2, json!({ "headers": { "tenant": "x" }, "id": "0190f3c2-0000-7000-8000-000000000002" })),
        order(3, json!({ "delay": 20 })),
        json!({ "end": "commit" }),
        order(4, json!({})),
        order(5, json!({ "delay": 20 })),
        json!({ "end": "rollback" }),
    ];
    send_plain(&world.env, &lines).await;
    world.shipped(3).await;
    world.comes_to_rest().await;
    process.stop().await;
    world.assert_exact(3).await;
    assert_eq!(world.env.number("select count(*) from ichido_parked").await, 0);
}

async fn another_client_s_number_of_attempts_counts_and_rubbish_does_not(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("guard = \"inbox\"");
    let process = world.start(["one"], &[]);
    world.until_served().await;
    let values =
        [json!(1), json!("2"), json!(5), json!(0), json!(-4), json!("many"), json!([3]), json!(true), json!("")];
    let failing = |(value, n): (&Value, u32)| {
        let headers = json!({ "x-ichido-attempts": value });
        json!({ "message_id": format!("m{n}"), "headers": headers, "body": r#"{"id":1,"name":null}"# })
    };
    let messages: Vec<_> = values.iter().zip(0..).map(failing).collect();
    other_client(&world, &["publish", QUEUE], &messages).await;
    world.env.until("select count(*) from ichido_parked where state = 'dead'", 9).await;
    for (attempts, messages) in [(1, 1), (2, 1), (5, 1), (3, 6)] {
        let dead = format!("select count(*) from ichido_parked where state = 'dead' and attempts = {attempts}");
        assert_eq!(world.env.number(&dead).await, messages, "{attempts}");
    }
    for process in process {
        process.kill().await;
    }
}
