//! `ichido doctor`: each row of the table in docs/contract.md produced for real; what `--fix` does about it, also while
//! consumers run; and what it never touches.

use ichido::{Headers, broker::Outgoing};
use ichido_rabbitmq::Envelope;
use ichido_testkit::{eventually, size};
use serde_json::Value;

use crate::{
    rabbitmq::{
        waiting::commit,
        world::{BUSY, DEAD, QUEUE, World},
    },
    testenv::{Env, Kind},
};

crate::on_all!(
    a_duplicate_while_the_first_waits_is_left_alone,
    a_duplicate_while_the_first_is_processed_is_left_alone,
    what_has_failed_is_retried_and_its_dead_letter_deleted,
    what_waits_its_turn_is_healthy,
    what_was_committed_and_not_published_is_published_when_it_is_old,
    what_the_broker_has_lost_is_published_again,
    copies_of_what_is_done_are_deleted_from_the_dead_letters,
    a_copy_whose_ack_is_on_the_way_is_nothing,
    dead_letters_of_others_are_shown_and_never_touched,
    what_another_program_published_before_its_row_was_there_is_published_again,
    what_another_program_sent_is_ours_when_it_has_failed,
    a_broker_that_refuses_us_is_no_broker_without_the_queue,
    a_broker_that_is_away_hides_nothing_of_the_others,
    many_dead_letters_are_judged_and_deleted,
    mending_in_the_middle_of_live_traffic_loses_and_doubles_nothing,
    rows_that_belong_to_nobody_are_given_back,
    another_body_is_nobodys_copy_and_stays,
);

/// What the doctor says, and its exit code: the findings, and the counts of the queue.
pub(crate) async fn doctor(world: &World<'_>, args: &[&str]) -> (Vec<Value>, Value, i32) {
    let ended = world.env.run(&[&["doctor", "--json"], args].concat()).await;
    println!("{}{}", ended.stdout, ended.stderr);
    let lines: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (counts, findings): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.get("ready").is_some());
    assert_eq!(counts.len(), 1, "{ended:?}");
    (findings, counts[0].clone(), ended.code.expect("an exit code"))
}

/// The only finding.
pub(crate) async fn one(world: &World<'_>, args: &[&str], code: i32) -> Value {
    let (mut findings, counts, ended) = doctor(world, args).await;
    assert_eq!((findings.len(), ended), (1, code), "{findings:?} {counts}");
    findings.remove(0)
}

pub(crate) async fn nothing(world: &World<'_>) -> Value {
    let (findings, counts, code) = doctor(world, &[]).await;
    assert_eq!((findings.len(), code), (0, 0), "{findings:?} {counts}");
    counts
}

fn assert_judged(finding: &Value, [mutex, in_queue, verdict]: [&str; 3], dead: bool) {
    let found = (&finding["mutex"], &finding["in_queue"], &finding["verdict"], &finding["dead_letter"]);
    assert_eq!(found, (&mutex.into(), &in_queue.into(), &verdict.into(), &dead.into()), "{finding}");
}

/// A copy of what was sent, as a dead letter; or as somebody else's.
async fn dead_letter(world: &World<'_>, message: &str, origin: Option<&str>) -> Envelope {
    copy(world, message, origin, DEAD).await
}

/// The same in any queue.
async fn copy(world: &World<'_>, message: &str, origin: Option<&str>, queue: &str) -> Envelope {
    let origin = match origin {
        Some(origin) => origin.to_owned(),
        None => world.env.text("select id from ichido_origin").await,
    };
    let outgoing = Outgoing {
        edition: 0,
        id: message.strip_prefix("orders/").unwrap_or(message).to_owned(),
        origin: origin.into(),
        queue: Some("orders".into()),
        exchange: String::new(),
        routing_key: queue.to_owned(),
        headers: Headers::new(),
        payload: World::order(1).into_bytes(),
    };
    Envelope::of(&outgoing).expect("short names")
}

/// Sends an order and runs it.
pub(crate) async fn ship(world: &World<'_>, order: u32) -> String {
    let id = world.send([order]).await.remove(0);
    let [mut process] = world.start(["shipping"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    world.comes_to_rest().await;
    id
}

/// How long nothing is old, or how long nothing is young.
fn relay_after(world: &World<'_>, time: &str) {
    world.configure(|config| config.replace("relay_after = \"1s\"", &format!("relay_after = \"{time}\"")));
}

async fn a_duplicate_while_the_first_waits_is_left_alone(kind: Kind) {
    let world = World::new(kind).await;
    let id = world.send([1]).await.remove(0);
    world.publish(&[dead_letter(&world, &id, None).await]).await;
    for args in [&[][..], &["--fix"]] {
        let found = one(&world, args, 0).await;
        assert_judged(&found, ["free", "not empty", "wait"], true);
        assert_eq!(found["message"], *id);
    }
    world.settles_at(DEAD, 1).await;
    world.settles_at(QUEUE, 1).await;
}

async fn a_duplicate_while_the_first_is_processed_is_left_alone(kind: Kind) {
    let world = World::new(kind).await;
    world.never_end();
    let id = world.send([1]).await.remove(0);
    world.publish(&[dead_letter(&world, &id, None).await]).await;
    let [process] = world.start(["slow"], &[]);
    world.settles_with(QUEUE, 0, 1).await;
    let found = eventually("its mutex is held", async || {
        let found = one(&world, &["--fix"], 0).await;
        if found["mutex"] == "held" { Ok(found) } else { Err(found) }
    })
    .await;
    assert_judged(&found, ["held", "yes", "wait"], true);
    process.kill().await;
}

async fn what_has_failed_is_retried_and_its_dead_letter_deleted(kind: Kind) {
    let world = World::new(kind).await;
    let id = super::failing::fail(&world).await;
    assert_judged(&one(&world, &[], 1).await, ["failed", "no", "retry"], true);
    let mended = one(&world, &["--fix"], 0).await;
    assert_eq!(
        (&mended["message"], &mended["done"]),
        (&(*id).into(), &"published again, and its dead letter deleted".into())
    );
    world.settles_at(DEAD, 0).await;
    world.settles_at(QUEUE, 1).await;
    world.configure(|config| config.replace(":name,", "'nobody',"));
    let [mut process] = world.start(["mended"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    world.assert_exact(1).await;
    nothing(&world).await;
}

async fn what_waits_its_turn_is_healthy(kind: Kind) {
    let world = World::new(kind).await;
    world.send([1, 2]).await;
    let counts = nothing(&world).await;
    assert_eq!((&counts["ready"], &counts["rows"], &counts["healthy"]), (&2.into(), &2.into(), &2.into()), "{counts}");
}

async fn what_was_committed_and_not_published_is_published_when_it_is_old(kind: Kind) {
    let world = World::new(kind).await;
    ship(&world, 1).await;
    relay_after(&world, "10m");
    commit(&world, 2..=3).await;
    let counts = nothing(&world).await;
    assert_eq!((&counts["unpublished"], &counts["rows"]), (&2.into(), &2.into()), "{counts}");
    relay_after(&world, "1ms");
    let (findings, _, code) = doctor(&world, &[]).await;
    assert_eq!((findings.len(), code), (2, 1), "{findings:?}");
    for found in &findings {
        assert_judged(found, ["unpublished", "no", "publish"], false);
    }
    let (findings, counts, code) = doctor(&world, &["--fix"]).await;
    assert_eq!((findings.len(), code), (2, 0), "{findings:?}");
    let after = [("unpublished", 0), ("ready", 2), ("rows", 2), ("healthy", 2)];
    assert!(after.iter().all(|(count, wanted)| counts[count] == *wanted), "after the fix: {counts}");
    world.settles_at(QUEUE, 2).await;
}

async fn what_the_broker_has_lost_is_published_again(kind: Kind) {
    let world = World::new(kind).await;
    relay_after(&world, "1ms");
    world.send([1]).await;
    world.settles_at(QUEUE, 1).await;
    world.purge(QUEUE);
    world.settles_at(QUEUE, 0).await;
    assert_judged(&one(&world, &[], 1).await, ["free", "no", "publish"], false);
    assert_eq!(one(&world, &["--fix"], 0).await["done"], "published again");
    world.settles_at(QUEUE, 1).await;
    let [mut process] = world.start(["process"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    world.assert_exact(1).await;
}

async fn copies_of_what_is_done_are_deleted_from_the_dead_letters(kind: Kind) {
    let world = World::new(kind).await;
    let id = ship(&world, 1).await;
    let letter = dead_letter(&world, &id, None).await;
    world.publish(std::slice::from_ref(&letter)).await;
    assert_judged(&one(&world, &[], 1).await, ["no", "no", "delete"], true);
    assert_eq!(one(&world, &["--fix"], 0).await["done"], "deleted");
    world.settles_at(DEAD, 0).await;
    // With a copy in the queue too, which whoever consumes acknowledges.
    world.publish(&[letter, world.copy(&id, 1).await]).await;
    world.settles_at(QUEUE, 1).await;
    assert_judged(&one(&world, &[], 1).await, ["no", "not empty", "investigate"], true);
    assert_eq!(one(&world, &["--fix"], 0).await["done"], "deleted");
    world.settles_at(DEAD, 0).await;
    world.settles_at(QUEUE, 1).await;
}

async fn a_copy_whose_ack_is_on_the_way_is_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let id = ship(&world, 1).await;
    assert_eq!(nothing(&world).await["rows"], 0, "done, and nothing anywhere");
    world.publish(&[world.copy(&id, 1).await]).await;
    world.settles_at(QUEUE, 1).await;
    assert_eq!(nothing(&world).await["ready"], 1);
}

async fn dead_letters_of_others_are_shown_and_never_touched(kind: Kind) {
    let world = World::new(kind).await;
    ship(&world, 1).await;
    world.publish(&[dead_letter(&world, "theirs", Some("another database")).await]).await;
    for _ in 0..2 {
        let found = one(&world, &["--fix"], 1).await;
        assert_judged(&found, ["no", "unknown", "investigate"], true);
        assert!(found["meaning"].as_str().unwrap().contains("theirs comes from another database"), "{found}");
        assert!(found["done"].is_null(), "{found}");
    }
    world.settles_at(DEAD, 1).await;
}

/// What another program publishes for a row of its own making.
pub(crate) fn foreign(id: &str, payload: &str) -> Envelope {
    let message = Envelope::new("", QUEUE, payload).expect("short names");
    message.header("x-message-mutex", id).expect("a short name")
}

async fn run_until_dead(world: &World<'_>) {
    let [mut process] = world.start(["process"], &[]);
    world.settles_at(DEAD, 1).await;
    world.comes_to_rest().await;
    process.stop().await;
}

async fn what_another_program_published_before_its_row_was_there_is_published_again(kind: Kind) {
    let world = World::new(kind).await;
    ship(&world, 1).await;
    world.publish(&[foreign("early", &World::order(2))]).await;
    run_until_dead(&world).await;
    world.env.sql("insert into ichido_mutex (id, queue) values ('early', 'orders')").await;
    relay_after(&world, "1ms");
    let found = one(&world, &[], 1).await;
    assert_judged(&found, ["free", "no", "retry"], true);
    assert_eq!(found["message"], "orders/early", "{found}");
    assert_eq!(one(&world, &["--fix"], 0).await["done"], "published again, and its dead letter deleted");
    let [mut process] = world.start(["mended"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    world.assert_exact(2).await;
}

async fn what_another_program_sent_is_ours_when_it_has_failed(kind: Kind) {
    let world = World::new(kind).await;
    ship(&world, 1).await;
    world.env.sql("insert into ichido_mutex (id, queue) values ('theirs', 'orders')").await;
    world.publish(&[foreign("theirs", r#"{"id":2,"name":null}"#)]).await;
    run_until_dead(&world).await;
    assert_judged(&one(&world, &[], 1).await, ["failed", "no", "retry"], true);
    world.configure(|config| config.replace(":name,", "coalesce(:name, 'nobody'),"));
    world.env.ok(&["failed", "retry", "orders/theirs"]).await;
    let [mut process] = world.start(["mended"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    world.comes_to_rest().await;
    assert_judged(&one(&world, &[], 1).await, ["no", "no", "delete"], true);
    assert_eq!(one(&world, &["--fix"], 0).await["done"], "deleted");
    world.assert_exact(2).await;
}

/// Somebody has published another body under the id of a message that has failed, and of one that is done since.
async fn another_body_is_nobodys_copy_and_stays(kind: Kind) {
    let world = World::new(kind).await;
    let ids = world.env.ok(&["send", "orders", r#"{"id":1,"name":null}"#]).await;
    run_until_dead(&world).await;
    let forged = copy(&world, ids.trim(), None, QUEUE).await;
    world.publish(&[forged]).await;
    let [mut process] = world.start(["forged"], &[]);
    world.settles_at(DEAD, 2).await;
    process.stop().await;
    let told = |found: &[Value]| {
        found.iter().filter(|found| found["meaning"].as_str().unwrap().contains("its body is not")).count()
    };
    let (found, _, _) = doctor(&world, &[]).await;
    assert_eq!((found.len(), told(&found)), (2, 1), "{found:?}");
    world.configure(|config| config.replace(":name,", "coalesce(:name, 'nobody'),"));
    let (found, _, code) = doctor(&world, &["--fix"]).await;
    assert_eq!((found.len(), told(&found), code), (2, 1, 1), "{found:?}");
    let [mut process] = world.start(["mended"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    let (found, _, _) = doctor(&world, &["--fix"]).await;
    assert_eq!((found.len(), told(&found)), (1, 1), "it stays when the genuine one is done: {found:?}");
    assert_eq!(world.env.number("select count(*) from project where name = 'nobody'").await, 1);
    world.settles_at(DEAD, 1).await;
}

async fn a_broker_that_refuses_us_is_no_broker_without_the_queue(kind: Kind) {
    let world = World::new(kind).await;
    relay_after(&world, "1ms");
    world.send([1]).await;
    let (_, place) = world.url.split_once('@').expect("a user and a place");
    let stranger = format!("amqp://nobody:wrong@{place}");
    world.env.reconfigure(|config| config.replace(&world.url, &stranger));
    let ended = world.env.run(&["doctor", "--fix"]).await;
    assert_eq!((ended.code, &*ended.stdout), (Some(127), ""), "{ended:?}");
    assert!(ended.stderr.contains("refused user \"nobody\""), "{ended:?}");
    assert_eq!(world.unpublished().await, 0, "nothing is published again");
}

async fn a_broker_that_is_away_hides_nothing_of_the_others(kind: Kind) {
    let world = World::new(kind).await;
    let id = super::failing::fail(&world).await;
    let away = "\n[queues.away]\nrabbitmq = { url = \"amqp://127.0.0.1:1\", queue = \"away\" }\n";
    world.env.reconfigure(|config| config + away);
    let ended = world.env.run(&["doctor"]).await;
    assert_eq!(ended.code, Some(20), "{ended:?}");
    assert!(ended.stdout.contains(&id) && ended.stderr.contains("queues.away"), "{ended:?}");
}

async fn many_dead_letters_are_judged_and_deleted(kind: Kind) {
    let world = World::new(kind).await;
    ship(&world, 1).await;
    let many = size(300, 10_000);
    let (mut letters, origin) = (Vec::new(), world.env.text("select id from ichido_origin").await);
    for number in 0..many {
        letters.push(dead_letter(&world, &format!("done {number}"), Some(&origin)).await);
    }
    letters.push(dead_letter(&world, "theirs", Some("another database")).await);
    world.publish(&letters).await;
    world.settles_at(DEAD, many + 1).await;
    let (findings, counts, code) = doctor(&world, &["--fix"]).await;
    assert_eq!((findings.len(), code), (many as usize + 1, 1), "{counts}");
    world.settles_at(DEAD, 1).await;
}

async fn mending_in_the_middle_of_live_traffic_loses_and_doubles_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let orders = size(30, 300);
    let mut processes = world.start(["one", "two"], &[]);
    for at in 1..=orders / 3 {
        let id = world.send([3 * at]).await.remove(0);
        // A copy in each place, and another program's letter now and then.
        world.publish(&[world.copy(&id, 3 * at).await, dead_letter(&world, &id, None).await]).await;
        let nameless = format!(r#"{{"id":{},"name":null}}"#, 3 * at - 1);
        world.env.ok(&["send", "orders", &nameless]).await;
        world.send([3 * at - 2]).await;
        if at % 5 == 0 {
            world.publish(&[dead_letter(&world, "theirs", Some("another database")).await]).await;
            let (_, counts, code) = doctor(&world, &["--fix"]).await;
            assert_eq!(code, 1, "the other's letters are left: {counts}");
        }
    }
    for process in &mut processes {
        process.stop().await;
    }
    world.configure(|config| config.replace(":name,", "coalesce(:name, 'nobody'),"));
    let mut processes = world.start(["three", "four"], &[]);
    eventually("all of them are done", async || {
        doctor(&world, &["--fix"]).await;
        let left = world.env.number("select count(*) from ichido_mutex").await;
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    world.comes_to_rest().await;
    doctor(&world, &["--fix"]).await;
    for process in &mut processes {
        process.stop().await;
    }
    world.settles_at(BUSY, 0).await;
    world.settles_at(DEAD, orders / 15).await;
    world.purge(DEAD);
    world.assert_exact(orders).await;
}

async fn rows_that_belong_to_nobody_are_given_back(kind: Kind) {
    let env = Env::new(kind).await;
    env.send_orders(1..=4).await;
    let unknown = uuid::Uuid::now_v7();
    env.sql(&format!("update received_order set process_id = '{unknown}' where id in (1, 2)")).await;
    env.sql("update received_order set process_id = '00000000-0000-0000-0000-000000000000' where id = 3").await;
    let found = env.run(&["doctor"]).await;
    assert_eq!((found.code, found.stdout.lines().count()), (Some(1), 3), "{found:?}");
    assert!(found.stdout.contains("orders/1  ") && found.stdout.contains(&unknown.to_string()), "{found:?}");
    let mended = env.run(&["doctor", "--fix"]).await;
    assert_eq!((mended.code, mended.stdout.matches("released").count()), (Some(0), 3), "{mended:?}");
    assert_eq!(env.ok(&["doctor"]).await, "no problems found\n");
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    env.assert_exact(4).await;
}
