//! A cluster of three nodes under load: one is killed, and another one when the first is back. Every order has its effect once, and
//! consumers go on. The full size has both kinds of replicated queues.

use std::time::Instant;

use ichido_test_servers::RabbitMqCluster;
use ichido_testkit::size;
use tokio::task::block_in_place;

use crate::{
    rabbitmq::world::{QUEUE, World},
    testenv::Kind,
};

#[tokio::test(flavor = "multi_thread")]
async fn whatever_node_is_killed_every_order_is_done_once() {
    let cluster = block_in_place(RabbitMqCluster::start);
    run(&cluster, "quorum").await;
    if size(0, 1) == 1 {
        run(&cluster, "mirrored").await;
    }
}

async fn run(cluster: &RabbitMqCluster, kind: &str) {
    let urls: Vec<String> = cluster.fresh_vhost().iter().map(|url| format!("\"{url}?heartbeat=2\"")).collect();
    let world = World::at(Kind::Postgres, &cluster.nodes()[2]).await;
    let management = cluster.nodes()[2].management_url();
    let place = format!("type = \"{kind}\", management = \"{management}\", url = [{}]", urls.join(", "));
    world.configure(|config| config.replace(&format!("url = \"{}\"", world.url), &place));
    let orders: u32 = size(300, 6000);
    let each = orders / 3;
    let mut processes = world.start(["one", "two"], &[]);
    world.send(1..=each).await;
    for (round, number) in [0, 1].into_iter().enumerate() {
        let round = u32::try_from(round).unwrap();
        let node = &cluster.nodes()[number];
        node.kill();
        let killed = Instant::now();
        let first = (round + 1) * each + 1;
        world.send(first..first + each).await;
        world.env.until(&format!("select count(*) from project where id >= {first}"), 1).await;
        // Time itself, at the full size, which has the machine to itself.
        let late = size(0, 1) == 1 && killed.elapsed().as_secs() >= 10;
        assert!(!late, "{kind}: consumers went on after {:?}", killed.elapsed());
        block_in_place(|| {
            node.start_again();
            cluster.is_whole();
        });
    }
    world.shipped(orders).await;
    world.env.until_none("ichido_mutex").await;
    for process in &mut processes {
        process.stop().await;
    }
    let double = "select count(*) from (select 1 from project group by id having count(*) > 1) d";
    let (effects, double) = (world.env.number("select count(*) from project").await, world.env.number(double).await);
    println!("{kind}: {orders} orders, 2 nodes killed: LOST {}, DOUBLE {double}", i64::from(orders) - effects);
    assert_eq!((effects, double), (orders.into(), 0));
    assert_eq!(world.unpublished().await, 0, "{QUEUE}");
}
