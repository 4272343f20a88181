//! A queue at RabbitMQ through the seam that the core calls: what is published arrives, and each settlement does what it says.

use std::time::Duration;

use ichido::broker::{Broker as _, Outgoing, Received, Settlement, Source as _, Unpublished};
use ichido_rabbitmq::{Deliveries, Envelope, Kind, PublisherSettings, REASON, RabbitMq, Server};
use ichido_test_servers::{RabbitMq as Node, proxy::Proxy};
use ichido_testkit::{eventually, in_time};

use crate::bench::{Bench, outgoing};

fn queue(bench: &Bench) -> RabbitMq {
    RabbitMq::new(bench.broker(), bench.topology.clone(), PublisherSettings::default())
}

async fn publish(queue: &RabbitMq, messages: &[Outgoing]) {
    for fate in queue.publish(messages).await {
        fate.expect("confirmed");
    }
}

async fn next(source: &Deliveries) -> Received {
    let next = async {
        loop {
            if let Some(received) = source.try_next() {
                return received;
            }
            source.changed().await;
        }
    };
    in_time("a delivery is received", next).await
}

/// The source of a queue with one message.
async fn with_one(queue: &RabbitMq) -> Deliveries {
    publish(queue, &[outgoing("1")]).await;
    queue.receive(1)
}

async fn settle(source: &Deliveries, received: &Received, settlement: Settlement) {
    source.settle(received.tag, settlement).await.expect("settled");
}

#[tokio::test]
async fn what_is_published_is_received_as_it_was() {
    let bench = Bench::new().await;
    let queue = queue(&bench);
    assert_eq!(queue.trouble(), None, "nobody has needed it yet");
    let mut message = outgoing("7");
    message.headers.insert("colour".to_owned(), "blue".to_owned());
    publish(&queue, &[message]).await;
    let source = queue.receive(1);
    let received = next(&source).await;
    assert_eq!((received.id.as_deref(), received.message_id.as_deref()), (Ok("7"), Some("7")));
    assert_eq!((received.origin.as_deref(), received.queue.as_deref()), (Some("here"), Some("orders")));
    assert_eq!(&*received.payload, b"7");
    assert_eq!(received.headers.into_iter().collect::<Vec<_>>(), [("colour".to_owned(), "blue".to_owned())]);
    assert!(!received.redelivered && source.is_current(received.tag));
    assert_eq!((queue.trouble(), source.trouble()), (None, None));
}

#[tokio::test]
async fn what_has_no_mutex_here_names_no_queue() {
    let bench = Bench::new().await;
    let queue = queue(&bench);
    publish(&queue, &[Outgoing { queue: None, ..outgoing("7") }]).await;
    let received = next(&queue.receive(1)).await;
    assert_eq!((received.id.as_deref(), received.queue), (Ok("7"), None));
}

#[tokio::test]
async fn an_id_that_cannot_be_read_is_told_with_the_reason() {
    let bench = Bench::new().await;
    let foreign = Envelope::new("", "orders", "x").expect("short names");
    let long = foreign.clone().header("x-message-mutex", &"7".repeat(256)).expect("short names");
    assert!(bench.publisher().publish(&[foreign, long]).await.iter().all(Result::is_ok));
    let source = queue(&bench).receive(2);
    assert_eq!(next(&source).await.id, Err("it has no mutex id".to_owned()));
    assert!(next(&source).await.id.expect_err("too long").contains("longer than 255 bytes"));
}

#[tokio::test]
async fn an_acknowledged_delivery_is_forgotten() {
    let bench = Bench::new().await;
    let source = with_one(&queue(&bench)).await;
    let received = next(&source).await;
    settle(&source, &received, Settlement::Ack).await;
    bench.settles_at("orders", 0, 0).await;
    assert!(!source.is_current(received.tag));
    settle(&source, &received, Settlement::Release).await;
    bench.settles_at("orders", 0, 0).await;
}

#[tokio::test]
async fn a_released_delivery_comes_again_and_says_so() {
    let bench = Bench::new().await;
    let source = with_one(&queue(&bench)).await;
    let first = next(&source).await;
    settle(&source, &first, Settlement::Release).await;
    let again = next(&source).await;
    assert!(again.redelivered && again.tag != first.tag && !source.is_current(first.tag));
    settle(&source, &again, Settlement::Ack).await;
}

#[tokio::test]
async fn a_busy_delivery_comes_back_and_what_it_was_before_is_kept() {
    for kind in [Kind::Quorum, Kind::Classic] {
        let bench = Bench::with(Node::shared(), |topology| topology.kind = kind).await;
        let queue = queue(&bench);
        let source = with_one(&queue).await;
        settle(&source, &next(&source).await, Settlement::Busy).await;
        let back = next(&source).await;
        assert!(!back.redelivered, "somebody has settled it: {kind:?}");
        settle(&source, &back, Settlement::Release).await;
        for _ in 0..3 {
            let again = next(&source).await;
            assert!(again.redelivered && again.headers.is_empty(), "{kind:?}: {again:?}");
            settle(&source, &again, Settlement::Busy).await;
        }
        let last = next(&source).await;
        settle(&source, &last, Settlement::Ack).await;
        for queue in ["orders", "orders.busy", "orders.dead"] {
            bench.settles_at(queue, 0, 0).await;
        }
    }
}

#[tokio::test]
async fn a_dead_letter_is_kept_with_its_reason_however_long_that_is() {
    let bench = Bench::new().await;
    let source = with_one(&queue(&bench)).await;
    let reason = "é".repeat(200_000);
    settle(&source, &next(&source).await, Settlement::DeadLetter(reason.clone())).await;
    let dead = bench.dead_letter().await;
    let kept = dead.header(REASON).expect("a reason");
    assert!(reason.starts_with(&kept) && kept.len() == 2000, "{}", kept.len());
    bench.settles_at("orders", 0, 0).await;
}

#[tokio::test]
async fn what_cannot_be_put_aside_stays_with_its_receiver() {
    let bench = Bench::new().await;
    let mut topology = bench.topology.clone();
    (topology.declare, topology.busy_queue) = (false, "gone".to_owned());
    let queue = queue(&bench).beside(topology);
    let source = with_one(&queue).await;
    let received = next(&source).await;
    let error = source.settle(received.tag, Settlement::Busy).await.expect_err("there is no such queue");
    assert!(error.is_its_own(), "{error}");
    bench.settles_at("orders", 0, 1).await;
    assert!(source.is_current(received.tag));
    settle(&source, &received, Settlement::Release).await;
    assert!(next(&source).await.redelivered);
}

#[tokio::test]
async fn what_is_settled_too_late_is_no_error_and_comes_again() {
    let bench = Bench::new().await;
    publish(&queue(&bench), &[outgoing("1"), outgoing("2")]).await;
    let proxy = Proxy::start_amqp(bench.node.address());
    let broker = Server::new([proxy.url(&bench.url)]).expect("a URL");
    let source = RabbitMq::new(broker, bench.topology.clone(), PublisherSettings::default()).receive(2);
    let late = [next(&source).await, next(&source).await];
    proxy.sever_all();
    let again = [next(&source).await, next(&source).await];
    assert!(again.iter().all(|received| received.redelivered && source.is_current(received.tag)));
    let reason = || Settlement::DeadLetter("tired".to_owned());
    for settlement in [Settlement::Ack, Settlement::Release, Settlement::Busy, reason()] {
        assert!(!source.is_current(late[0].tag));
        settle(&source, &late[0], settlement).await;
    }
    for received in &again {
        settle(&source, received, Settlement::Ack).await;
    }
    for queue in ["orders", "orders.busy", "orders.dead"] {
        bench.settles_at(queue, 0, 0).await;
    }
}

#[tokio::test]
async fn what_amqp_cannot_carry_is_refused_and_the_others_go_their_way() {
    let bench = Bench::new().await;
    let long = Outgoing { routing_key: "k".repeat(256), ..outgoing("2") };
    let mut heavy = outgoing("3");
    heavy.headers.insert("note".to_owned(), "x".repeat(200_000));
    let lost = Outgoing { routing_key: "nowhere".to_owned(), ..outgoing("4") };
    let fates = queue(&bench).publish(&[outgoing("1"), long, heavy, lost, outgoing("5")]).await;
    assert!(fates[0].is_ok() && fates[4].is_ok(), "{fates:?}");
    assert!(matches!(&fates[1], Err(Unpublished::Refused(why)) if why.contains("AMQP's limit")), "{fates:?}");
    assert!(matches!(&fates[2], Err(Unpublished::Refused(why)) if why.contains("headers")), "{fates:?}");
    assert!(matches!(&fates[3], Err(Unpublished::Unroutable(_))), "{fates:?}");
    bench.settles_at("orders", 2, 0).await;
}

#[tokio::test]
async fn the_largest_headers_that_are_taken_arrive() {
    let bench = Bench::new().await;
    let queue = queue(&bench);
    let mut message = outgoing("1");
    message.headers.insert("note".to_owned(), "x".repeat(100 * 1024 - 10));
    publish(&queue, &[message]).await;
    assert_eq!(next(&queue.receive(1)).await.headers["note"].len(), 100 * 1024 - 10);
}

#[tokio::test]
async fn trouble_is_told_while_the_broker_is_away_or_takes_nothing_and_not_after() {
    let node: &'static Node = Box::leak(Box::new(Node::start(&[])));
    let bench = Bench::with(node, |_| {}).await;
    let mut settings = PublisherSettings::default();
    settings.publish_deadline = Duration::from_secs(2);
    let queue = RabbitMq::new(bench.broker(), bench.topology.clone(), settings);
    while queue.publish(&[outgoing("1")]).await.pop().expect("a fate").is_err() {}

    node.memory_alarm(true);
    let blocked = async || {
        queue.publish(&[outgoing("2")]).await.pop().expect("a fate").expect_err("blocked");
        queue.trouble().is_some_and(|trouble| trouble.contains("accepts no messages"))
    };
    eventually("each call ends, and the broker's word is heard", blocked).await;
    node.memory_alarm(false);
    while queue.publish(&[outgoing("3")]).await.pop().expect("a fate").is_err() {}
    assert_eq!(queue.trouble(), None);

    node.kill();
    let error = queue.publish(&[outgoing("4")]).await.pop().expect("a fate").expect_err("away");
    assert!(!error.is_its_own(), "{error}");
    while queue.publish(&[outgoing("4")]).await.pop().expect("a fate").is_err() && queue.trouble().is_none() {}
    let trouble = queue.trouble().expect("nobody answers");
    assert!(trouble.contains("127.0.0.1") && !trouble.contains("once"), "{trouble}");
    node.start_again();
    while queue.publish(&[outgoing("5")]).await.pop().expect("a fate").is_err() {}
    assert_eq!(queue.trouble(), None);
    node.stop();
}

#[tokio::test]
async fn a_closed_source_hands_nothing_out_and_lets_the_rest_be_settled() {
    let bench = Bench::new().await;
    let queue = queue(&bench);
    publish(&queue, &[outgoing("1"), outgoing("2")]).await;
    let source = queue.receive(2);
    let taken = next(&source).await;
    source.close().await;
    source.changed().await;
    assert!(source.try_next().is_none() && source.is_current(taken.tag));
    settle(&source, &taken, Settlement::Ack).await;
    bench.settles_at("orders", 1, 0).await;
}
