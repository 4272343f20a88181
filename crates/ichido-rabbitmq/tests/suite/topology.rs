//! The topology is declared so that it loses nothing, or refused.

use std::time::Duration;

use ichido_rabbitmq::{Depths, Envelope, Kind, Publisher, PublisherSettings, Server, Subscription, Topology};
use ichido_test_servers::RabbitMq;

use crate::bench::{Bench, next, text};

#[tokio::test]
async fn the_version_is_the_servers_own_word() {
    let broker = Server::new([RabbitMq::shared().url("")]).expect("a URL");
    let version = broker.version().await.expect("a version");
    assert_eq!(
        format!("\"{version}"),
        RabbitMq::shared().eval("rabbit_misc:version()").rsplit_once('.').expect("dots").0
    );
}

#[tokio::test]
async fn a_second_declaration_changes_nothing() {
    for kind in [Kind::Quorum, Kind::Classic, Kind::Mirrored] {
        let bench = Bench::with(RabbitMq::shared(), |topology| topology.kind = kind).await;
        bench.send(0..1).await;
        bench.topology.declare(&bench.broker()).await.expect("the same again");
        bench.settles_at("orders", 1, 0).await;
    }
}

#[tokio::test]
async fn a_queue_with_other_arguments_is_named_with_the_way_out() {
    let bench = Bench::new().await;
    let mut other = bench.topology.clone();
    other.max_length = Some(10);
    let error = other.declare(&bench.broker()).await.expect_err("other arguments");
    assert!(!error.is_transient());
    for words in ["queue \"orders\"", "x-max-length", "declare = false"] {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

#[tokio::test]
async fn without_declare_it_is_only_looked_for() {
    let bench = Bench::new().await;
    let mut look = bench.topology.clone();
    look.declare = false;
    look.max_length = Some(10);
    look.declare(&bench.broker()).await.expect("it is there, whatever its arguments");

    let mut missing = Topology::new("invoices");
    missing.declare = false;
    let error = missing.declare(&bench.broker()).await.expect_err("not there");
    assert!(!error.is_transient() && error.to_string().contains("\"invoices.dead\" does not exist"), "{error}");
}

#[tokio::test]
async fn what_this_server_accepts_and_ignores_is_refused() {
    let bench = Bench::new().await;
    let mut topology = Topology::new("slow");
    topology.ack_timeout = Some(Duration::from_hours(1));
    let error = topology.declare(&bench.broker()).await.expect_err("3.10 does not know it");
    assert!(error.to_string().contains("ignores a queue's acknowledgement timeout"), "{error}");
}

#[tokio::test]
async fn a_binding_needs_its_exchange() {
    let bench = Bench::new().await;
    let mut topology = bench.topology.clone();
    topology.bindings = vec![("amq.direct".to_owned(), "new".to_owned())];
    topology.declare(&bench.broker()).await.expect("an exchange that is always there");
    topology.bindings = vec![("shop".to_owned(), "new".to_owned())];
    let error = topology.declare(&bench.broker()).await.expect_err("no such exchange");
    assert!(!error.is_transient() && error.to_string().contains("exchange \"shop\" does not exist"), "{error}");
}

#[tokio::test]
async fn who_may_not_enter_is_told_so_without_the_password() {
    let url = RabbitMq::shared().fresh_vhost();
    for bad in [url.replace(":once@", ":hunter2@"), format!("{url}x")] {
        let broker = Server::new([&bad]).expect("a URL");
        let error = Topology::new("q").declare(&broker).await.expect_err("refused");
        assert!(!error.is_transient(), "{error:?}");
        let told = format!("{error} {error:?} {broker:?}");
        assert!(told.contains("ichido") && !told.contains("hunter2") && !told.contains("once"), "{told}");
    }
}

#[tokio::test]
async fn several_addresses_are_tried_in_turn() {
    let url = RabbitMq::shared().fresh_vhost();
    let broker = Server::new(["amqp://u:p@127.0.0.1:1/v", &url]).expect("two URLs");
    Topology::new("q").declare(&broker).await.expect("the second answers");
    let error = Topology::new("q").declare(&Server::new(["amqp://u:p@127.0.0.1:1/v"]).expect("a URL")).await;
    let error = error.expect_err("nobody answers");
    assert!(error.is_transient() && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn an_encrypted_broker_is_trusted_by_its_certificate() {
    let node = RabbitMq::shared();
    let (url, certificates) = node.encrypted(&node.fresh_vhost());
    let broker = Server::new([&url]).expect("a URL");
    let error = Topology::new("q").declare(&broker).await.expect_err("nobody knows this authority");
    assert!(error.to_string().to_lowercase().contains("certificate") && error.is_transient(), "{error}");

    let broker = broker.trusting(certificates).expect("certificates");
    Topology::new("q").declare(&broker).await.expect("trusted");
    let publisher = Publisher::new(broker.clone(), PublisherSettings::default());
    let message = Envelope::new("", "q", "secret").expect("short names");
    publisher.publish(&[message]).await.pop().expect("a fate").expect("confirmed");
    let source = Subscription::start(broker, Topology::new("q"), 1, publisher);
    assert_eq!(text(&next(&source).await), "secret");
}

#[tokio::test]
async fn the_depths_are_those_of_the_queues() {
    let (bench, source) = Bench::holding(3, 1).await;
    let first = next(&source).await;
    let depths = async || bench.topology.depths(&bench.broker()).await.expect("three queues");
    assert_eq!(depths().await, Depths { queue: 2, busy: 0, dead: 0, consumers: 1 });
    source.dead_letter(&first, "tired").await.expect("put aside");
    assert_eq!(depths().await.dead, 1);
    let error = Topology::new("none").depths(&bench.broker()).await.expect_err("not declared");
    assert!(!error.is_transient() && error.to_string().contains("\"none\" does not exist"), "{error}");
}
