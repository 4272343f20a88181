//! Dead letters of queues that an inbox guards: copies of what has failed, has been retried or is done go; another message with the
//! same id never does.

use ichido_rabbitmq::Envelope;

use crate::{
    rabbitmq::{
        doctor::{doctor, foreign, nothing},
        world::{DEAD, QUEUE, World},
    },
    testenv::Kind,
};

crate::on_all!(
    copies_of_what_has_failed_go_when_it_is_retried,
    copies_of_what_is_done_go_and_another_message_stays,
    what_fans_out_leaves_nothing_behind_when_it_is_retried,
    copies_of_what_is_discarded_go,
    a_message_without_an_id_is_told_so,
);

const NAMELESS: &str = r#"{"id":1,"name":null}"#;

/// Another program's message, twice, has failed.
async fn failed_twice(kind: Kind) -> World<'static> {
    let world = World::new(kind).await;
    world.configure_queue("guard = \"inbox\"");
    let [mut process] = world.start(["failing"], &[]);
    world.until_served().await;
    world.publish(&[foreign("theirs", NAMELESS)]).await;
    world.settles_at(DEAD, 1).await;
    world.publish(&[foreign("theirs", NAMELESS)]).await;
    world.settles_at(DEAD, 2).await;
    world.comes_to_rest().await;
    process.stop().await;
    world.configure(|config| config.replace(":name,", "coalesce(:name, 'nobody'),"));
    world.env.reconfigure(|config| config.replace("relay_after = \"1s\"", "relay_after = \"1s\", guard = \"inbox\""));
    world
}

async fn drain(world: &World<'_>) {
    let [mut process] = world.start(["drain"], &["--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    world.comes_to_rest().await;
}

async fn copies_of_what_has_failed_go_when_it_is_retried(kind: Kind) {
    let world = failed_twice(kind).await;
    let (findings, counts, code) = doctor(&world, &["--fix"]).await;
    assert_eq!((findings.len(), code), (2, 0), "{findings:?} {counts}");
    world.settles_at(DEAD, 0).await;
    drain(&world).await;
    world.shipped(1).await;
    nothing(&world).await;
}

async fn copies_of_what_is_done_go_and_another_message_stays(kind: Kind) {
    let world = failed_twice(kind).await;
    let [mut process] = world.start(["another"], &[]);
    world.publish(&[foreign("theirs", &World::order(2))]).await;
    world.settles_at(DEAD, 3).await;
    world.comes_to_rest().await;
    process.stop().await;
    world.env.ok(&["failed", "retry", "--all"]).await;
    drain(&world).await;
    world.shipped(1).await;
    let (findings, _, _) = doctor(&world, &[]).await;
    let deleted = findings.iter().filter(|found| found["verdict"] == "delete").count();
    assert_eq!((findings.len(), deleted), (3, 2), "{findings:?}");
    doctor(&world, &["--fix"]).await;
    world.settles_at(DEAD, 1).await;
    let (findings, _, code) = doctor(&world, &["--fix"]).await;
    assert_eq!((findings.len(), code), (1, 1), "{findings:?}");
    assert_eq!(findings[0]["verdict"], "investigate", "{findings:?}");
    world.settles_at(DEAD, 1).await;
}

async fn what_fans_out_leaves_nothing_behind_when_it_is_retried(kind: Kind) {
    let world = World::new(kind).await;
    let inboxes = |name: &str| {
        // Copies are counted: nobody but the command that sends may publish, however long it takes.
        let route = "guard = \"inbox\", exchange = \"amq.fanout\", routing_key = \"x\", relay_after = \"10m\"";
        let audit = format!(
            "[queues.audit]\nrabbitmq = {{ url = \"{}\", queue = \"audit\", busy_delay = \"200ms\", {route} }}\n\
             [actions.Audit]\nfrom = \"audit\"\nretry = {{ attempts = 1 }}\n\
             sql = [\"insert into project (id, name, made_by) values (:id, {name}, 'audit')\"]\n",
            world.url
        );
        world.configure(|config| {
            let config = config.replace("relay_after = \"1s\"", route);
            let once = config.replace("attempts = 3", "attempts = 1");
            format!("{}\n{audit}", once.replace(":name,", &format!("{name},")))
        });
    };
    inboxes(":name");
    let mut process = world.env.start("failing", &["run"]);
    world.until_all_served(&[QUEUE, "audit"]).await;
    world.env.ok(&["send", "orders", NAMELESS]).await;
    world.settles_at(DEAD, 1).await;
    world.settles_at("audit.dead", 1).await;
    // A retry goes the way of the send, to both.
    world.env.ok(&["failed", "retry", "--queue", "orders", "--all"]).await;
    world.settles_at("audit.dead", 2).await;
    world.settles_at(DEAD, 2).await;
    process.stop().await;
    inboxes("coalesce(:name, 'nobody')");
    world.env.ok(&["failed", "retry", "--all"]).await;
    let mut process = world.env.start("mended", &["run", "--drain"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    let fixed = world.env.run(&["doctor", "--fix"]).await;
    assert_eq!(fixed.code, Some(0), "{fixed:?}");
    world.settles_at(DEAD, 0).await;
    world.settles_at("audit.dead", 0).await;
    assert_eq!(world.env.number("select count(*) from project").await, 2);
}

async fn copies_of_what_is_discarded_go(kind: Kind) {
    let world = failed_twice(kind).await;
    world.env.ok(&["failed", "discard", "--all"]).await;
    world.settles_at(DEAD, 0).await;
    nothing(&world).await;
    assert_eq!(world.env.number("select count(*) from project").await, 0);
}

async fn a_message_without_an_id_is_told_so(kind: Kind) {
    let world = World::new(kind).await;
    world.configure_queue("guard = \"inbox\"");
    let [mut process] = world.start(["process"], &[]);
    world.until_served().await;
    world.publish(&[Envelope::new("", QUEUE, World::order(1)).unwrap()]).await;
    world.settles_at(DEAD, 1).await;
    process.stop().await;
    let log = process.log();
    assert!(log.contains("it has no message id") && !log.contains("mutex id"), "{log}");
    let (findings, _, code) = doctor(&world, &[]).await;
    let meaning = findings[0]["meaning"].as_str().unwrap();
    assert!(code == 1 && meaning.contains("it has no message id") && !meaning.contains("mutex"), "{meaning}");
}
