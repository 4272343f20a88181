//! What the management API tells and does.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use ichido_rabbitmq::{Counts, Envelope, Id, Kind, Management, PublisherSettings, RabbitMq, Server, Topology};
use ichido_test_servers::RabbitMq as Node;
use ichido_testkit::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bench::{Bench, next};

/// One for all tests of this file.
fn node() -> &'static Node {
    static NODE: std::sync::OnceLock<Node> = std::sync::OnceLock::new();
    NODE.get_or_init(|| Node::start_managed(&[("collect_statistics_interval", "500")]))
}

fn management(bench: &Bench) -> Management {
    Management::new(&node().management_url(), &bench.broker()).expect("a URL")
}

/// The API collects now and then.
async fn counts(management: &Management, queue: &str, wanted: Counts) {
    let look = async || match management.counts(queue).await {
        Ok(found) if found == wanted => Ok(()),
        found => Err(format!("{found:?}")),
    };
    eventually(format!("{queue} has {wanted:?}"), look).await;
}

#[tokio::test]
async fn what_is_out_is_counted_too() {
    for kind in [Kind::Quorum, Kind::Classic] {
        let bench = Bench::with(node(), |topology| topology.kind = kind).await;
        bench.send(0..5).await;
        let source = bench.source(2);
        let first = next(&source).await;
        let management = management(&bench);
        counts(&management, "orders", Counts { ready: 3, unacknowledged: 2, total: 5 }).await;
        source.busy(&first).await.expect("put aside");
        drop(source);
        counts(&management, "orders", Counts { ready: 5, unacknowledged: 0, total: 5 }).await;
    }
}

#[tokio::test]
async fn what_waits_for_a_queue_that_is_gone_is_counted_though_it_is_neither_ready_nor_out() {
    let bench = Bench::with(node(), |topology| topology.busy_delay = Duration::from_millis(1)).await;
    bench.eval_queue("orders", r#"element(1, rabbit_amqqueue:delete(Q, false, false, <<"test">>))"#);
    let busy = Envelope::new("", "orders.busy", "x").expect("short names");
    bench.publisher().publish(&[busy]).await.pop().expect("a fate").expect("confirmed");
    counts(&management(&bench), "orders.busy", Counts { ready: 0, unacknowledged: 0, total: 1 }).await;
}

#[tokio::test]
async fn a_queue_that_is_not_there_has_no_counts() {
    let bench = Bench::with(node(), |_| {}).await;
    let error = management(&bench).counts("a/b c").await.expect_err("not declared");
    assert!(!error.is_transient() && error.to_string().contains("\"a/b c\""), "{error}");
}

#[tokio::test]
async fn who_may_not_ask_or_finds_nobody_is_told_so_without_the_password() {
    let bench = Bench::with(node(), |_| {}).await;
    let wrong = node().management_url().replace(":once@", ":hunter2@");
    let error = Management::new(&wrong, &bench.broker()).expect("a URL").counts("orders").await.expect_err("refused");
    assert!(!error.is_transient() && !error.to_string().contains("hunter2"), "{error}");
    let nobody = Management::new("http://u:hunter2@127.0.0.1:1", &bench.broker()).expect("a URL");
    let error = nobody.counts("orders").await.expect_err("nobody answers");
    assert!(error.is_transient() && error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[tokio::test]
async fn the_brokers_name_and_password_do_if_the_url_has_none() {
    let bench = Bench::with(node(), |_| {}).await;
    let url = node().management_url().replace("ichido:once@", "");
    let management = Management::new(&url, &bench.broker()).expect("a URL");
    assert_eq!(management.bindings("").await.expect("let in").len(), 3, "each queue by its name");
}

#[tokio::test]
async fn a_mutex_is_refused_where_another_queue_is_bound() {
    let bench = Bench::with(node(), |topology| topology.bindings = vec![binding("amq.topic", "order.new")]).await;
    let queue = RabbitMq::new(bench.broker(), bench.topology.clone(), PublisherSettings::default());
    let asking = queue.clone().managed(management(&bench));
    asking.refuse_fan_out("amq.topic", "order.new", &[]).await.expect("nobody else is bound");

    let mut audit = Topology::new("audit");
    audit.bindings = vec![binding("amq.topic", "order.*")];
    audit.declare(&bench.broker()).await.expect("a second queue");
    let error = asking.refuse_fan_out("amq.topic", "order.new", &[]).await.expect_err("two queues");
    assert!(!error.is_transient() && error.to_string().contains("\"audit\""), "{error}");
    queue.refuse_fan_out("amq.topic", "order.new", &[]).await.expect("nobody can be asked");
    queue.refuse_fan_out("amq.topic", "order.new", &[&audit]).await.expect_err("this one is known");
    asking.refuse_fan_out("", "orders", &[&audit]).await.expect("by its name");
    asking.refuse_fan_out("amq.topic", "order.new", &[]).await.expect_err("still");
    let error = asking.refuse_fan_out("no such", "order.new", &[]).await.expect_err("no exchange");
    assert!(!error.is_transient() && error.to_string().contains("\"no such\""), "{error}");
}

#[tokio::test]
async fn an_exchange_behind_an_exchange_is_found() {
    let bench = Bench::with(node(), |topology| topology.bindings = vec![binding("amq.topic", "order.new")]).await;
    let mut audit = Topology::new("audit");
    audit.bindings = vec![binding("amq.fanout", "")];
    audit.declare(&bench.broker()).await.expect("a second queue");
    bench.bind_exchange("amq.fanout", "amq.topic", "#");
    bench.bind_exchange("amq.topic", "amq.fanout", "round.and.round");
    let mut reached: Vec<_> =
        management(&bench).bindings("amq.topic").await.expect("bindings").into_iter().map(|b| b.queue).collect();
    reached.sort();
    assert_eq!(reached, ["audit", "orders"]);
}

#[tokio::test]
async fn a_mirrored_queue_gets_its_policy_and_no_other_queue_does() {
    let bench = Bench::with(node(), |topology| topology.kind = Kind::Mirrored).await;
    let queue = RabbitMq::new(bench.broker(), bench.topology.clone(), PublisherSettings::default());
    let queue = queue.managed(management(&bench));
    for _ in 0..2 {
        queue.declare().await.expect("declared");
    }
    Topology::new("orders2").declare(&bench.broker()).await.expect("another");
    for (name, policy) in [("orders", true), ("orders.dead", true), ("orders.busy", false), ("orders2", false)] {
        let found = bench.eval_queue(name, r#"rabbit_policy:name(Q) =:= <<"ichido orders">>"#);
        assert_eq!(found, policy.to_string(), "{name}");
    }
}

#[tokio::test]
async fn a_plain_queue_is_not_mirrored() {
    let bench = Bench::with(node(), |_| {}).await;
    let error = management(&bench).mirror(&bench.topology).await.expect_err("quorum");
    assert!(!error.is_transient(), "{error}");
}

#[test]
fn a_url_that_is_none_is_not_repeated() {
    let broker = Server::new(["amqp://u:p@h/v"]).expect("a URL");
    let error = Management::new("amqp://u:hunter2@h", &broker).expect_err("not HTTP");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

fn binding(exchange: &str, key: &str) -> (String, String) {
    (exchange.to_owned(), key.to_owned())
}

/// Publishes to `orders` as anybody can who may write to it: with headers of so many tables within tables.
async fn publish_nested(bench: &Bench, depth: usize) {
    let url = node().management_url();
    let (login, address) = url.trim_start_matches("http://").split_once('@').expect("a login");
    let vhost = bench.url.rsplit('/').next().expect("a vhost");
    let nested = format!("{}1{}", r#"{"n":"#.repeat(depth), "}".repeat(depth));
    let body = format!(
        r#"{{"properties":{{"headers":{nested}}},"routing_key":"orders","payload":"x","payload_encoding":"string"}}"#
    );
    let head = format!(
        "POST /api/exchanges/{vhost}/amq.default/publish HTTP/1.1\r\nhost: {address}\r\nauthorization: Basic {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        BASE64_STANDARD.encode(login),
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the management API");
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.contains(r#"{"routed":true}"#), "{answer}");
}

#[tokio::test]
async fn headers_that_are_nested_without_end_do_no_harm() {
    let bench = Bench::with(node(), |_| {}).await;
    publish_nested(&bench, 15_000).await;
    publish_nested(&bench, 3).await;
    let source = bench.source(2);
    for _ in 0..2 {
        let delivery = next(&source).await;
        assert_eq!((delivery.payload(), delivery.id()), (&b"x"[..], Id::Missing));
        source.dead_letter(&delivery, "not ours").await.expect("put aside");
    }
    bench.settles_at("orders.dead", 2, 0).await;
}
