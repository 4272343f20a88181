//! What the core sees of SQS: messages arrive as they were sent, each has its fate, and calls are for ten at a time.

use std::time::Duration;

use ichido::broker::{Broker as _, Outgoing, Received, Settlement, Source, Unpublished};
use ichido_sqs::{Settings, Sqs, Topology};
use ichido_test_servers::injector::Injector;
use ichido_testkit::{
    eventually,
    fixture::{BrokerFixture as _, Part},
    in_time, run,
};

use crate::fixture::AtSqs;

pub(crate) fn outgoing(queue: &str, id: &str) -> Outgoing {
    Outgoing {
        id: id.to_owned(),
        edition: 0,
        origin: "here".into(),
        queue: Some("orders".into()),
        exchange: String::new(),
        routing_key: queue.to_owned(),
        headers: ichido::Headers::new(),
        payload: b"{}".to_vec(),
    }
}

pub(crate) async fn publish(queue: &Sqs, messages: &[Outgoing]) {
    for fate in queue.publish(messages).await {
        fate.expect("taken by SQS");
    }
}

/// A queue behind an injector, so far without faults.
pub(crate) async fn behind_injector(at: &AtSqs, name: &str) -> (Sqs, Injector) {
    let injector = Injector::start(at.node().address(), 1);
    let queue = Sqs::new(at.server(&injector.endpoint()), Topology::new(name), Settings::default());
    queue.declare().await.expect("made");
    (queue, injector)
}

/// The next delivery, whenever it comes.
pub(crate) async fn next(source: &impl Source) -> Received {
    let coming = async {
        loop {
            if let Some(received) = source.try_next() {
                return received;
            }
            source.changed().await;
        }
    };
    in_time("a delivery", coming).await
}

#[test]
fn a_message_arrives_as_it_was_sent() {
    run(async {
        let at = AtSqs::fresh().await;
        let queue = at.queue("orders");
        let source = queue.receive(10);
        for payload in [&b"{\"a\": \"\xc3\xa9\r\n\"}"[..], b"", b"\xff\0\xfe", b"-"] {
            let mut message = outgoing("orders", "1");
            message.payload = payload.to_vec();
            let headers = (0..20).map(|n| (format!("header {n}"), format!("\u{0}value {n}\u{ffff}")));
            message.headers = headers.collect();
            publish(&queue, std::slice::from_ref(&message)).await;
            let received = next(&source).await;
            assert_eq!((&*received.payload, &received.headers), (payload, &message.headers));
            assert_eq!(received.id.as_deref(), Ok("1"));
            assert_eq!((received.origin.as_deref(), received.queue.as_deref()), (Some("here"), Some("orders")));
            assert!(!received.redelivered && received.sent_at.is_some());
            source.settle(received.tag, Settlement::Ack).await.expect("settled");
        }
    });
}

#[test]
fn what_is_too_large_is_refused_and_the_others_are_sent() {
    run(async {
        let at = AtSqs::fresh().await;
        let queue = at.queue("orders");
        let large = |size| Outgoing { payload: vec![b'x'; size], ..outgoing("orders", "large") };
        // Three of them are more than a batch may have.
        let messages = [outgoing("orders", "1"), large(2 << 20), large(120 << 10), large(120 << 10), large(120 << 10)];
        let fates = queue.publish(&messages).await;
        assert!(matches!(&fates[1], Err(Unpublished::Refused(why)) if why.contains("at most")), "{fates:?}");
        assert_eq!(fates.iter().filter(|fate| fate.is_ok()).count(), 4, "{fates:?}");
        assert_eq!(at.depth("orders", Part::Queue).await, (4, 0));
    });
}

#[test]
fn what_cannot_be_routed_says_why() {
    run(async {
        let at = AtSqs::fresh().await;
        let mut topology = Topology::new("nowhere");
        topology.declare = false;
        let queue = Sqs::new(at.server(&at.node().endpoint()), topology, Settings::default());
        let exchange = Outgoing { exchange: "shop".to_owned(), ..outgoing("nowhere", "2") };
        let fates = queue.publish(&[outgoing("nowhere", "1"), exchange]).await;
        let why = |fate: &Result<(), Unpublished>| match fate {
            Err(Unpublished::Unroutable(why)) => why.clone(),
            other => panic!("{other:?}"),
        };
        assert!(why(&fates[0]).contains("does not exist"), "{fates:?}");
        assert!(why(&fates[1]).contains("no exchanges"), "{fates:?}");
        let look = queue.topology().look(queue.server()).await.expect_err("it is missing");
        assert!(look.to_string().contains("set declare = true"), "{look}");
    });
}

#[test]
fn calls_are_for_ten_messages_at_a_time() {
    run(async {
        let at = AtSqs::fresh().await;
        let (queue, counting) = behind_injector(&at, "orders").await;
        let messages: Vec<_> = (0..100).map(|n| outgoing("orders", &n.to_string())).collect();
        publish(&queue, &messages).await;
        let source = queue.receive(64);
        let mut under_way = Vec::new();
        for _ in 0..100 {
            let received = next(&source).await;
            under_way.push(received.tag);
            if under_way.len() == 32 {
                futures(&source, &mut under_way).await;
            }
        }
        futures(&source, &mut under_way).await;
        eventually("all are gone", async || match at.depth("orders", Part::Queue).await {
            (0, 0) => Ok(()),
            depth => Err(format!("{depth:?}")),
        })
        .await;
        let calls = counting.calls();
        let of = |action: &str| calls.get(action).copied().unwrap_or_default();
        assert_eq!(of("SendMessageBatch"), 10, "{calls:?}");
        assert!((10..=16).contains(&of("ReceiveMessage")), "{calls:?}");
        assert!((10..=16).contains(&of("DeleteMessageBatch")), "{calls:?}");
    });
}

/// Settles all of them at the same time, as workers do.
async fn futures(source: &impl Source, tags: &mut Vec<u64>) {
    let mut all: Vec<_> = tags.drain(..).map(|tag| Box::pin(source.settle(tag, Settlement::Ack))).collect();
    let settled = std::future::poll_fn(|cx| {
        all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    });
    tokio::time::timeout(Duration::from_mins(1), settled).await.expect("settled in time");
}
