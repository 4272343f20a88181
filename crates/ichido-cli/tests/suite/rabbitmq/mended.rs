//! What `doctor --fix` says it did, and did: what the broker does not take is left, and so is what another doctor is at.

use ichido_rabbitmq::{PublisherSettings, Server, Topology};
use ichido_test_servers::RabbitMq;

use crate::{
    rabbitmq::{
        doctor::{doctor, nothing, one, ship},
        waiting::commit,
        world::{DEAD, QUEUE, World},
    },
    testenv::Kind,
};

crate::on_all!(what_the_broker_does_not_take_is_left, what_a_running_process_publishes_for_us_is_published);

async fn what_the_broker_does_not_take_is_left(kind: Kind) {
    let world = World::new(kind).await;
    ship(&world, 1).await;
    world.configure_queue("exchange = \"amq.direct\", routing_key = \"nobody\", declare = false");
    let sent = world.env.run(&["send", "orders", &World::order(2)]).await;
    assert!(sent.stderr.contains("unroutable"), "{sent:?}");
    long_ago(&world).await;
    for _ in 0..2 {
        let (findings, counts, code) = doctor(&world, &["--fix"]).await;
        assert_eq!((findings.len(), code), (1, 1), "{findings:?}");
        let done = findings[0]["done"].as_str().unwrap();
        assert!(done.starts_with("not published: ") && done.contains("unroutable"), "{done}");
        assert_eq!((&counts["unpublished"], &counts["healthy"]), (&1.into(), &0.into()), "{counts}");
    }
    assert_eq!(one(&world, &[], 1).await["verdict"], "publish");
}

/// What is to be published has been so for long: nobody takes it for young, however slow the doctor is.
async fn long_ago(world: &World<'_>) {
    world.env.sql("update ichido_outbox set created_at = '2020-01-01T00:00:00.000'").await;
}

/// A lease of another relay is no trouble: it publishes, and is waited for.
async fn what_a_running_process_publishes_for_us_is_published(kind: Kind) {
    let world = World::new(kind).await;
    ship(&world, 1).await;
    commit(&world, 2..=2).await;
    long_ago(&world).await;
    let until = match kind {
        Kind::Sqlite => "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+2 seconds')",
        Kind::Postgres => "now() + interval '2 seconds'",
        Kind::MariaDb => "utc_timestamp(6) + interval 2 second",
    };
    let (owner, other) = ("insert into ichido_relay (queue, owner, until)", uuid::Uuid::now_v7());
    world.env.sql(&format!("{owner} values ('orders', '{other}', {until})")).await;
    let mended = one(&world, &["--fix"], 0).await;
    assert_eq!(mended["done"], "published again");
    world.settles_at(QUEUE, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_with_an_alarm_takes_nothing_and_the_doctor_says_so() {
    let node = RabbitMq::start(&[]);
    let world = World::at(Kind::Sqlite, &node).await;
    ship(&world, 1).await;
    commit(&world, 2..=3).await;
    world.configure_queue("publish_deadline = \"1s\"");
    long_ago(&world).await;
    node.memory_alarm(true);
    let (findings, counts, code) = doctor(&world, &["--fix"]).await;
    assert_eq!((findings.len(), code), (2, 1), "{findings:?}");
    for found in &findings {
        assert!(found["done"].as_str().unwrap().starts_with("not published: "), "{found}");
    }
    assert_eq!(counts["unpublished"], 2, "{counts}");
    node.memory_alarm(false);
    let (findings, counts, code) = doctor(&world, &["--fix"]).await;
    assert_eq!((findings.len(), code, &counts["unpublished"]), (2, 0, &0.into()), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_set_up_is_healthy() {
    let world = World::new(Kind::Sqlite).await;
    let counts = nothing(&world).await;
    assert_eq!((&counts["ready"], &counts["rows"]), (&0.into(), &0.into()), "{counts}");
    let text = world.env.ok(&["doctor"]).await;
    assert!(text.contains("no problems found"), "{text}");
    world.configure_queue("declare = false");
    assert_eq!(one(&world, &[], 1).await["verdict"], "investigate", "nobody else will declare it");
}

/// Reads the dead letters as another doctor does.
async fn another(world: &World<'_>) -> ichido_rabbitmq::DeadLetters {
    let broker = Server::new([&world.url]).unwrap();
    let queue = ichido_rabbitmq::RabbitMq::new(broker, Topology::new(QUEUE), PublisherSettings::default());
    queue.dead_letters().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_doctor_waits_for_the_first() {
    let world = World::new(Kind::Sqlite).await;
    ship(&world, 1).await;
    let first = another(&world).await;
    let mut second = world.env.start("second", &["doctor"]);
    second.until_logged("waiting for it").await;
    first.close().await.unwrap();
    assert_eq!(second.exit_code().await, 0, "{}", second.log());
    let first = another(&world).await;
    let late = world.env.run(&["doctor"]).await;
    assert_eq!(late.code, Some(14), "{late:?}");
    assert!(late.stderr.contains("dead letters in queue") && late.stderr.contains("run it again"), "{late:?}");
    first.close().await.unwrap();
    world.settles_at(DEAD, 0).await;
}
