//! After whatever ends a connection, publisher and source come back by themselves.

use std::{collections::BTreeSet, time::Duration};

use ichido_rabbitmq::{Envelope, Kind, Publisher, PublisherSettings, Settled, State, Subscription, Topology};
use ichido_test_servers::RabbitMq;
use ichido_testkit::eventually;

use crate::bench::{Bench, next, order, text, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_broker_loses_nothing_that_was_confirmed() {
    let node: &'static RabbitMq = Box::leak(Box::new(RabbitMq::start(&[])));
    for kind in [Kind::Quorum, Kind::Classic] {
        let bench = Bench::with(node, |topology| topology.kind = kind).await;
        let mut settings = PublisherSettings::default();
        settings.publish_deadline = Duration::from_mins(10);
        let (publisher, source) = (Publisher::new(bench.broker(), settings), bench.source(1));
        assert!(publisher.publish(&[order("1"), order("2")]).await.iter().all(Result::is_ok));
        let held = next(&source).await;

        node.kill();
        let late = tokio::spawn({
            let publisher = publisher.clone();
            async move { publisher.publish(&[order("3")]).await.pop().expect("a fate") }
        });
        // Before it has seen the end it may well write to a socket that nobody reads any more.
        until("away", || source.state(), |state| matches!(state, State::Away(_))).await;
        assert_eq!(source.ack(&held).await, Settled::Gone, "nobody is there to hear it");
        tokio::task::block_in_place(|| node.start_again());
        late.await.expect("no panic").expect("confirmed within the deadline");

        // A copy may come: of what was confirmed when nobody listened, or settled when nobody heard.
        let mut got = BTreeSet::new();
        let all = async || {
            while let Some(delivery) = source.try_next() {
                source.ack(&delivery).await;
                got.insert(text(&delivery).to_owned());
            }
            let depth = bench.depth("orders");
            if depth == (0, 0) && got.len() == 3 { Ok(()) } else { Err(format!("{got:?}, {depth:?} left")) }
        };
        eventually("all three, and an empty queue", all).await;
        assert_eq!(got, ["1", "2", "3"].map(str::to_owned).into(), "{kind:?}");
    }
    node.stop();
}

#[tokio::test]
async fn an_acknowledgement_that_takes_too_long_costs_the_channel_and_not_the_source() {
    let node: &'static RabbitMq = Box::leak(Box::new(RabbitMq::start(&[("consumer_timeout", "1000")])));
    // Channels look at it once a minute, which no setting changes.
    node.eval("application:set_env(rabbit, channel_tick_interval, 500)");
    let bench = Bench::with(node, |_| {}).await;
    bench.send(0..1).await;
    let source = bench.source(1);
    let slow = next(&source).await;
    let again = next(&source).await;
    assert!(again.is_redelivered() && !slow.is_current());
    assert_eq!(source.ack(&slow).await, Settled::Gone, "also if the new channel has the same number");
    // On a busy machine it may be late as well.
    let mut told = source.ack(&again).await;
    while told == Settled::Gone {
        told = source.ack(&next(&source).await).await;
    }
    bench.settles_at("orders", 0, 0).await;
    node.stop();
}

#[tokio::test]
async fn a_deleted_queue_is_declared_again() {
    let (bench, source) = Bench::holding(1, 1).await;
    let held = next(&source).await;
    bench.eval_queue("orders", r#"element(1, rabbit_amqqueue:delete(Q, false, false, <<"test">>))"#);
    // Nobody has declared it but the source.
    let publisher = bench.publisher();
    let message = Envelope::new("", "orders", "after").expect("short names");
    while publisher.publish(std::slice::from_ref(&message)).await.pop().expect("a fate").is_err() {}
    let delivery = next(&source).await;
    assert_eq!(text(&delivery), "after");
    assert_eq!(source.ack(&held).await, Settled::Gone);
    assert_eq!(source.ack(&delivery).await, Settled::Told);
}

#[tokio::test]
async fn a_source_without_a_queue_says_so_until_there_is_one() {
    let bench = Bench::new().await;
    let mut missing = Topology::new("invoices");
    missing.declare = false;
    let source = Subscription::start(bench.broker(), missing.clone(), 1, bench.publisher());
    let says_so = |state: &State| matches!(state, State::Away(why) if why.contains("invoices"));
    until("missing", || source.state(), says_so).await;
    missing.declare = true;
    missing.declare(&bench.broker()).await.expect("declared");
    until("there", || source.state(), |state| *state == State::Connected).await;
}
