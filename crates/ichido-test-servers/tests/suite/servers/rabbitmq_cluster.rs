//! A cluster of RabbitMQ nodes keeps what the servers promise.

use std::fs;

use ichido_test_servers::RabbitMqCluster;

#[test]
fn three_nodes_are_one_broker_after_a_kill_a_cut_and_a_standstill() {
    let cluster = RabbitMqCluster::start();
    let [_, second, third] = cluster.nodes();
    assert_eq!(second.eval("erl_epmd:names()"), "{error, address}", "nobody maps ports");
    second.kill();
    cluster.is_without(1);
    second.start_again();
    cluster.is_whole();

    cluster.cut_off(2);
    cluster.is_without(2);
    cluster.join(2);

    cluster.freeze(2);
    cluster.is_without(2);
    third.kill();
    third.start_again();
    cluster.is_whole();

    let folders = cluster.nodes().each_ref().map(|node| node.folder().to_owned());
    drop(cluster);
    assert!(folders.iter().all(|folder| fs::metadata(folder).is_err()), "gone with their folders");
}
