//! Queues that keep the order of groups: it is kept over a failure too, a retry within five minutes is not dropped as a duplicate, and dead
//! letters have a queue of the same kind.

use ichido_test_servers::injector::Faults;

use crate::{
    sqs::world::World,
    testenv::{Env, Kind},
};

crate::on_all!(
    groups_keep_their_order_over_processes,
    a_retry_within_five_minutes_keeps_its_place,
    what_fails_for_good_is_in_a_fifo_queue_and_can_run_again,
    a_message_without_a_group_waits_for_nobody,
);

/// What was done, in the order in which it was.
const DONE: &str = "create table done (n NUMBER, grp varchar(10) not null, id integer not null)";

async fn world(kind: Kind) -> World {
    let world = World::fifo(kind).await;
    let number = match kind {
        Kind::Sqlite => "integer primary key autoincrement",
        Kind::Postgres => "serial primary key",
        Kind::MariaDb => "integer auto_increment primary key",
    };
    world.env.sql(&DONE.replace("NUMBER", number)).await;
    world.configure(|config| {
        let also = ", \"insert into done (grp, id) values (:name, :id)\"";
        config.replace("SLOW", also)
    });
    world
}

async fn send(world: &World, group: &str, ids: impl IntoIterator<Item = u32>) {
    let lines: Vec<_> = ids.into_iter().map(|id| format!(r#"{{"id":{id},"name":"{group}"}}"#)).collect();
    let args = ["send", "orders", "--file", "-", "--group", group];
    let sent = world.env.run_with_input(&args, lines.join("\n").as_bytes()).await;
    assert_eq!(sent.code, Some(0), "{sent:?}"); // what an injected fault kept back is published by whoever runs
}

/// How often a message of a group was done before one that was sent earlier.
async fn inversions(env: &Env) -> i64 {
    env.number("select count(*) from done a join done b on a.grp = b.grp where a.n < b.n and a.id > b.id").await
}

async fn groups_keep_their_order_over_processes(kind: Kind) {
    let world = world(kind).await;
    world.injector.inject(Faults { entries: 5, throttling: 5, false_empties: 10, cuts: 1, ..Faults::none() });
    let mut fleet = world.start(["one", "two", "three"], &[]);
    for (at, group) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let first = u32::try_from(at).expect("few") * 15 + 1;
        send(&world, group, first..first + 15).await;
    }
    world.shipped(60).await;
    world.env.until_none("ichido_mutex").await;
    world.injector.inject(Faults::none());
    for process in &mut fleet {
        process.stop().await;
    }
    assert_eq!(inversions(&world.env).await, 0);
    world.assert_exact(60).await;
}

async fn a_retry_within_five_minutes_keeps_its_place(kind: Kind) {
    let world = world(kind).await;
    // Until the gate opens, the second order cannot be written.
    world.configure(|config| {
        let also = r#", "insert into done (grp, id) values (:name, :id)", "insert into gate (id, needs) select id, null from done where id = :id and id = 2""#;
        config.replace("SLOW", also).replace("attempts = 3, first = \"10ms\", max = \"50ms\"", "attempts = 1000, first = \"100ms\", max = \"1s\"")
    });
    world.env.sql("create table gate (id integer, needs integer not null)").await;
    send(&world, "a", 1..=5).await;
    let [mut process] = world.start(["process"], &[]);
    world.env.until("select count(*) from ichido_parked", 1).await;
    world.shipped(1).await;
    world.env.sql("drop table gate; create table gate (id integer, needs integer)").await;
    world.shipped(5).await;
    world.env.until_none("ichido_mutex").await;
    // Its retry was published behind its group as well, and is a duplicate by now.
    world.settles_at(&world.queue, 0).await;
    process.stop().await;
    assert_eq!(inversions(&world.env).await, 0);
    world.assert_exact(5).await;
}

async fn what_fails_for_good_is_in_a_fifo_queue_and_can_run_again(kind: Kind) {
    let world = world(kind).await;
    let nameless = r#"{"id":1,"name":null}"#;
    let id = world.env.ok(&["send", "orders", nameless, "--group", "a"]).await.trim().to_owned();
    let [mut process] = world.start(["failing"], &[]);
    world.env.until("select count(*) from ichido_parked where state = 'dead'", 1).await;
    assert!(world.dead().ends_with("-dead.fifo"));
    world.settles_at(&world.dead(), 1).await;
    process.stop().await;
    world.configure(|config| config.replace(":name,", "'nobody',"));
    world.env.ok(&["failed", "retry", &id]).await;
    world.drain().await;
    assert_eq!(world.env.number("select count(*) from project").await, 1);
    let fixed = world.env.run(&["doctor", "--fix"]).await;
    println!("{fixed:?}");
    world.settles_at(&world.dead(), 0).await;
}

async fn a_message_without_a_group_waits_for_nobody(kind: Kind) {
    let world = world(kind).await;
    world.send(1..=20).await;
    world.settles_at(&world.queue, 20).await;
    world.drain().await;
    world.assert_exact(20).await;
}
