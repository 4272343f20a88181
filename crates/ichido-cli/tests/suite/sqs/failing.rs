//! Messages whose action fails: the row holds the truth, the dead-letter queue a copy, and operators work on the row; the doctor
//! finds what is left and puts it right.

use serde_json::Value;

use crate::{sqs::world::World, testenv::Kind};

crate::on_all!(
    a_failed_order_is_dead_lettered_and_runs_again_on_demand,
    what_is_discarded_is_gone_with_its_dead_letter,
    the_doctor_retries_what_has_failed,
    the_doctor_publishes_what_was_lost,
    dead_letters_of_others_are_shown_and_never_touched,
);

/// An order that no attempt can bring into the table: it has no name.
const NAMELESS: &str = r#"{"id":1,"name":null}"#;

/// Sends an order that fails, and runs it until it has failed for good.
async fn fail(world: &World) -> String {
    let id = world.env.ok(&["send", "orders", NAMELESS]).await.trim().to_owned();
    let [mut process] = world.start(["failing"], &[]);
    world.env.until("select count(*) from ichido_parked where state = 'dead'", 1).await;
    world.settles_at(&world.dead(), 1).await;
    world.settles_at(&world.queue, 0).await;
    process.stop().await;
    id
}

/// The findings of the doctor and its exit code.
async fn doctor(world: &World, args: &[&str]) -> (Vec<Value>, i32) {
    let ended = world.env.run(&[&["doctor", "--json"], args].concat()).await;
    println!("{}{}", ended.stdout, ended.stderr);
    let lines = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    (lines.filter(|line| line.get("ready").is_none()).collect(), ended.code.expect("an exit code"))
}

async fn a_failed_order_is_dead_lettered_and_runs_again_on_demand(kind: Kind) {
    let world = World::new(kind).await;
    let id = fail(&world).await;
    let list = world.env.ok(&["failed", "list"]).await;
    assert!(list.contains(&id), "{list}");
    let shown: Value = serde_json::from_str(&world.env.ok(&["failed", "show", &id, "--json"]).await).unwrap();
    assert_eq!(shown["attempts"], 3, "{shown}");
    let letter = world.look(&world.dead()).remove(0);
    assert!(letter["MessageAttributes"]["x-ichido-reason"]["StringValue"].is_string(), "{letter}");
    world.configure(|config| config.replace(":name,", "'nobody',"));
    world.env.ok(&["failed", "retry", &id]).await;
    world.drain().await;
    assert_eq!(world.env.number("select count(*) from project where name = 'nobody'").await, 1);
    assert_eq!(world.env.number("select count(*) from ichido_mutex").await, 0);
    world.settles_at(&world.queue, 0).await;
    world.settles_at(&world.dead(), 1).await; // the copy stays where it is
    let (findings, _) = doctor(&world, &["--fix"]).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    world.settles_at(&world.dead(), 0).await;
}

async fn what_is_discarded_is_gone_with_its_dead_letter(kind: Kind) {
    let world = World::new(kind).await;
    let id = fail(&world).await;
    world.env.ok(&["failed", "discard", &id]).await;
    world.settles_at(&world.dead(), 0).await;
    for table in ["ichido_mutex", "ichido_outbox", "ichido_parked"] {
        assert_eq!(world.env.number(&format!("select count(*) from {table}")).await, 0, "{table}");
    }
}

async fn the_doctor_retries_what_has_failed(kind: Kind) {
    let world = World::new(kind).await;
    fail(&world).await;
    let (findings, code) = doctor(&world, &[]).await;
    assert_eq!((findings.len(), code), (1, 1), "{findings:?}");
    assert_eq!((&findings[0]["verdict"], &findings[0]["dead_letter"]), (&"retry".into(), &true.into()), "{findings:?}");
    world.settles_at(&world.dead(), 1).await;
    world.configure(|config| config.replace(":name,", "'nobody',"));
    doctor(&world, &["--fix"]).await;
    world.drain().await;
    assert_eq!(world.env.number("select count(*) from project").await, 1);
    world.settles_at(&world.dead(), 0).await;
    let (findings, code) = doctor(&world, &[]).await;
    assert_eq!((findings.len(), code), (0, 0), "{findings:?}");
}

async fn the_doctor_publishes_what_was_lost(kind: Kind) {
    let world = World::new(kind).await;
    world.send([1]).await;
    world.at(&world.queue, "PurgeQueue", serde_json::json!({}));
    ichido_testkit::eventually("the doctor publishes it again", async || {
        doctor(&world, &["--fix"]).await;
        world.waiting(&world.queue).visible == 1
    })
    .await;
    world.drain().await;
    world.assert_exact(1).await;
}

async fn dead_letters_of_others_are_shown_and_never_touched(kind: Kind) {
    let world = World::new(kind).await;
    world.send([1]).await;
    world.drain().await;
    let theirs = serde_json::json!({ "MessageBody": "not ours" });
    world.at(&world.dead(), "SendMessage", theirs);
    let (findings, code) = doctor(&world, &["--fix"]).await;
    assert_eq!((findings.len(), code), (1, 1), "{findings:?}");
    world.settles_at(&world.dead(), 1).await;
}
