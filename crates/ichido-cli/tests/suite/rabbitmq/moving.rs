//! Messages at a broker, moved in time: copies that the broker has already are turned away, and what is due is published again.

use serde_json::Value;

use crate::{
    rabbitmq::world::{DEAD, QUEUE, World},
    testenv::Kind,
};

crate::on_all!(a_message_at_the_broker_waits_and_runs_when_it_is_told,);

async fn a_message_at_the_broker_waits_and_runs_when_it_is_told(kind: Kind) {
    let world = World::new(kind).await;
    let env = &world.env;
    let ids = world.send(1..=4).await;
    world.settles_at(QUEUE, 4).await;
    let listed = env.ok(&["messages", "list", "--state", "ready", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["messages"].as_array().unwrap().len(), 4, "{listed}");
    for id in &ids[..2] {
        let moved = env.ok(&["messages", "reschedule", id, "--delay", "1h"]).await;
        assert!(moved.contains("rescheduled; due 2"), "{moved}");
    }
    let [mut process] = world.start(["process"], &[]);
    world.shipped(2).await;
    world.settles_at(QUEUE, 0).await;
    assert_eq!(env.number("select count(*) from project where id <= 2").await, 0, "they wait");
    env.ok(&["messages", "run-now", &ids[0]]).await;
    world.shipped(3).await;
    let shown = env.ok(&["messages", "show", &ids[1]]).await;
    assert!(shown.contains("state     waiting") && shown.contains("order 2"), "{shown}");
    env.ok(&["messages", "run-now", &ids[1]]).await;
    world.shipped(4).await;
    env.until_none("ichido_mutex").await;
    process.stop().await;
    world.settles_at(DEAD, 0).await;
    world.assert_exact(4).await;
    env.run(&["messages", "show", &ids[0]]).await.assert_refused(1, &["is not there"]);
}
