//! The publisher tells the fate of each message.

use std::time::Duration;

use ichido::broker::Unpublished;
use ichido_rabbitmq::{Envelope, Kind, Publisher, PublisherSettings, State};
use ichido_test_servers::RabbitMq;

use crate::bench::{Bench, next, order, text, until};

#[tokio::test]
async fn what_is_confirmed_is_in_the_queue_in_its_order() {
    let (_bench, source) = Bench::holding(600, 600).await;
    for n in 0..600 {
        assert_eq!(text(&next(&source).await), n.to_string());
    }
}

#[tokio::test]
async fn a_large_message_arrives_whole_and_an_empty_one_too() {
    let bench = Bench::new().await;
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let messages = [&large[..], &[]].map(|payload| Envelope::new("", "orders", payload).expect("short names"));
    assert!(bench.publisher().publish(&messages).await.iter().all(Result::is_ok));
    let source = bench.source(2);
    assert!(next(&source).await.payload() == large);
    assert!(next(&source).await.payload().is_empty());
}

#[tokio::test]
async fn a_message_that_cannot_be_routed_is_told_from_its_neighbours() {
    let bench = Bench::new().await;
    let lost = |n: u32| Envelope::new("", "nowhere", n.to_string()).expect("short names");
    let messages: Vec<Envelope> = (0..300).map(|n| if n % 7 == 3 { lost(n) } else { order(&n.to_string()) }).collect();
    let fates = bench.publisher().publish(&messages).await;
    for (n, fate) in fates.iter().enumerate() {
        match fate {
            Err(Unpublished::Unroutable(why)) if n % 7 == 3 => assert!(why.contains("nowhere"), "{why}"),
            Ok(()) if n % 7 != 3 => {}
            other => panic!("{n}: {other:?}"),
        }
    }
    bench.settles_at("orders", 300 - 43, 0).await;
}

#[tokio::test]
async fn one_that_closes_the_channel_does_not_take_the_others_with_it() {
    let bench = Bench::new().await;
    let bad = Envelope::new("no such exchange", "k", "bad").expect("short names");
    let fates = bench.publisher().publish(&[order("1"), bad, order("2")]).await;
    assert!(fates[0].is_ok() && fates[2].is_ok(), "{fates:?}");
    let error = fates[1].as_ref().expect_err("no such exchange");
    assert!(matches!(error, Unpublished::Unroutable(_)), "{error}");
    assert!(error.to_string().contains("no such exchange"), "{error}");
}

#[tokio::test]
async fn a_full_queue_refuses() {
    for kind in [Kind::Quorum, Kind::Classic] {
        let limited = |topology: &mut ichido_rabbitmq::Topology| {
            topology.kind = kind;
            topology.max_length = Some(2);
        };
        let bench = Bench::with(RabbitMq::shared(), limited).await;
        let publisher = bench.publisher();
        let mut refused = 0;
        // A quorum queue notices a little late.
        for n in 0..50 {
            match publisher.publish(&[order(&n.to_string())]).await.pop().expect("a fate") {
                Ok(()) => {}
                Err(Unpublished::Refused(_)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(refused > 0, "{kind:?}");
        bench.settles_at("orders", 50 - refused, 0).await;
    }
}

#[tokio::test]
async fn while_the_broker_is_away_messages_are_told_unsent_in_time() {
    let settings = || {
        let mut settings = PublisherSettings::default();
        settings.publish_deadline = Duration::from_secs(3);
        settings
    };
    let broker = ichido_rabbitmq::Server::new(["amqp://u:hunter2@127.0.0.1:1/v"]).expect("a URL");
    let publisher = Publisher::new(broker, settings());
    let fates = publisher.publish(&[order("1"), order("2")]).await;
    for fate in fates {
        let error = fate.expect_err("away");
        assert!(matches!(error, Unpublished::Unsent(_)), "{error}");
        assert!(error.to_string().contains("127.0.0.1:1") && !error.to_string().contains("hunter2"), "{error}");
    }
    assert!(matches!(publisher.state(), State::Away(_)));
}

#[tokio::test]
async fn many_calls_at_once_all_learn_their_fate() {
    let bench = Bench::new().await;
    let publisher = bench.publisher();
    let calls: Vec<_> = (0..40)
        .map(|call| {
            let publisher = publisher.clone();
            tokio::spawn(async move {
                let lost = Envelope::new("", "nowhere", call.to_string()).expect("short names");
                publisher.publish(&[order(&call.to_string()), lost]).await
            })
        })
        .collect();
    for call in calls {
        let fates = call.await.expect("no panic");
        assert!(fates[0].is_ok() && matches!(fates[1], Err(Unpublished::Unroutable(_))), "{fates:?}");
    }
    bench.settles_at("orders", 40, 0).await;
}

#[tokio::test]
async fn a_broker_that_blocks_publishers_is_told_and_loses_nothing() {
    let node: &'static RabbitMq = Box::leak(Box::new(RabbitMq::start(&[])));
    let bench = Bench::with(node, |_| {}).await;
    bench.send(0..1).await;
    let mut settings = PublisherSettings::default();
    settings.publish_deadline = Duration::from_secs(2);
    let publisher = Publisher::new(bench.broker(), settings);
    // Several calls at once, so that there are channels that nobody uses when the alarm comes.
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let publisher = publisher.clone();
            tokio::spawn(async move { while publisher.publish(&[order("1")]).await.pop().expect("a fate").is_err() {} })
        })
        .collect();
    for call in calls {
        call.await.expect("no panic");
    }

    node.memory_alarm(true);
    let error = publisher.publish(&[order("2")]).await.pop().expect("a fate").expect_err("blocked");
    assert!(matches!(error, Unpublished::Unknown(_) | Unpublished::Unsent(_)), "{error}");
    until("blocked", || publisher.state(), |state| matches!(state, State::Blocked(_))).await;
    let error = publisher.publish(&[order("3")]).await.pop().expect("a fate").expect_err("blocked");
    assert!(matches!(error, Unpublished::Unsent(_)) && error.to_string().contains("accepts no messages"), "{error}");
    let source = bench.source(10);
    for _ in 0..5 {
        let delivery = next(&source).await;
        source.ack(&delivery).await;
    }

    node.memory_alarm(false);
    until("unblocked", || publisher.state(), |state| *state == State::Connected).await;
    while publisher.publish(&[order("4")]).await.pop().expect("a fate").is_err() {}
    node.stop();
}
