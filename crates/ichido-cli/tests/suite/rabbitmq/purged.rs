//! A queue that an operator has purged by mistake, while consumers run: the reconciler counts, and publishes again what is missing.

use ichido_testkit::size;

use crate::{
    rabbitmq::world::{QUEUE, World},
    testenv::Kind,
};

crate::on_all!(what_was_purged_in_the_middle_of_a_run_is_published_again_and_processed_once);

async fn what_was_purged_in_the_middle_of_a_run_is_published_again_and_processed_once(kind: Kind) {
    let world = World::managed(kind).await;
    let slow = world.env.slow(if kind == Kind::Sqlite { 20 } else { size(500, 100) });
    let managed = format!("relay_after = \"1s\", management = \"{}\"", world.node.management_url());
    world.configure(|config| config.replace("SLOW", &slow).replace("relay_after = \"1s\"", &managed));
    let orders = size(100, 1000);
    world.send(1..=orders).await;
    let mut processes = world.start(["one", "two"], &[]);
    world.shipped(5).await;
    assert!(world.purge(QUEUE) > 0, "the {orders} orders were all handed out before the queue was purged");
    world.shipped(orders).await;
    world.env.until_none("ichido_mutex").await;
    for process in &mut processes {
        process.stop().await;
    }
    let logs: String = processes.iter().map(crate::testenv::Process::log).collect();
    assert!(logs.contains("the broker lost messages"), "{logs}");
    // What was published again without need has nobody left who would take it.
    world.purge(QUEUE);
    world.assert_exact(orders).await;
}
