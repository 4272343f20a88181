//! A connection that is cut at any step of a message loses nothing.

use std::collections::HashSet;
use std::time::Duration;

use ichido::broker::Unpublished;
use ichido_rabbitmq::{Envelope, Publisher, PublisherSettings, REASON, Server, Settled, State, Subscription};
use ichido_test_servers::proxy::{Cut, Proxy};
use ichido_testkit::{eventually, in_time};

use crate::bench::{Bench, next, order, text, until};

fn through(bench: &Bench) -> (Proxy, Server) {
    let proxy = Proxy::start_amqp(bench.node.address());
    let broker = Server::new([proxy.url(&bench.url)]).expect("a URL");
    (proxy, broker)
}

/// A source of so many messages that is cut at every so many of these steps, so many times.
async fn receiving(
    messages: u32,
    prefetch: u16,
    (place, every, times): (Cut, u32, u32),
) -> (Bench, Proxy, Subscription) {
    let bench = Bench::new().await;
    bench.send(0..messages).await;
    let (proxy, broker) = through(&bench);
    proxy.cut(place, every, times);
    let source = Subscription::start(broker, bench.topology.clone(), prefetch, bench.publisher());
    (bench, proxy, source)
}

async fn cut(proxy: &Proxy) {
    in_time("the connection is cut", proxy.all_cut()).await;
}

#[tokio::test]
async fn a_publish_that_is_cut_is_unknown_unless_its_confirm_was_heard() {
    for (place, confirmed, arrives) in [
        (Cut::BeforePublish, false, 0),
        (Cut::AfterPublish, false, 1),
        (Cut::BeforeConfirm, false, 1),
        (Cut::AfterConfirm, true, 1),
    ] {
        let bench = Bench::new().await;
        let (proxy, broker) = through(&bench);
        let publisher = Publisher::new(broker, PublisherSettings::default());
        proxy.cut(place, 1, 1);
        match publisher.publish(&[order("1")]).await.pop().expect("a fate") {
            Ok(()) => assert!(confirmed, "{place:?}"),
            Err(Unpublished::Unknown(_)) => assert!(!confirmed, "{place:?}"),
            Err(other) => panic!("{place:?}: {other}"),
        }
        cut(&proxy).await;
        // A publisher that has not noticed the cut yet learns of it by this.
        while publisher.publish(&[order("2")]).await.pop().expect("a fate").is_err() {}
        bench.settles_at("orders", arrives + 1, 0).await;
    }
}

#[tokio::test]
async fn what_is_sent_until_it_is_confirmed_arrives_in_its_order() {
    for place in [Cut::BeforePublish, Cut::AfterPublish, Cut::BeforeConfirm, Cut::AfterConfirm] {
        let bench = Bench::new().await;
        let (proxy, broker) = through(&bench);
        let mut settings = PublisherSettings::default();
        settings.window = 20;
        let publisher = Publisher::new(broker, settings);
        // Confirms are fewer than messages: one may be for several.
        proxy.cut(place, 3, 5);
        let mut left: Vec<Envelope> = (0..200).map(|n| order(&n.to_string())).collect();
        while !left.is_empty() {
            let fates = publisher.publish(&left).await;
            left = left.into_iter().zip(fates).filter_map(|(message, fate)| fate.is_err().then_some(message)).collect();
        }
        assert!(proxy.cuts() > 0, "{place:?}");
        let source = bench.source(400);
        let (mut seen, mut first) = (HashSet::new(), Vec::new());
        while seen.len() < 200 {
            let delivery = next(&source).await;
            let n: u32 = text(&delivery).parse().expect("a number");
            if seen.insert(n) {
                first.push(n);
            }
        }
        assert!(first.is_sorted(), "{place:?}: {first:?}");
    }
}

#[tokio::test]
async fn a_delivery_that_is_cut_comes_again_unless_its_ack_was_heard() {
    for place in [Cut::BeforeDeliver, Cut::AfterDeliver, Cut::BeforeAck, Cut::AfterAck] {
        let (bench, proxy, source) = receiving(1, 1, (place, 1, 1)).await;
        let first = next(&source).await;
        let at_delivery = matches!(place, Cut::BeforeDeliver | Cut::AfterDeliver);
        if at_delivery {
            cut(&proxy).await;
        }
        let told = source.ack(&first).await;
        cut(&proxy).await;
        // After the delivery, the source may have noticed the cut first, and this is the second one.
        if place == Cut::BeforeAck || at_delivery && told == Settled::Gone {
            let second = next(&source).await;
            assert!(second.is_redelivered(), "{place:?}");
            assert_eq!(source.ack(&second).await, Settled::Told, "{place:?}");
        }
        bench.settles_at("orders", 0, 0).await;
    }
}

#[tokio::test]
async fn whatever_is_cut_while_messages_are_received_each_arrives_and_the_queue_ends_empty() {
    for place in [Cut::BeforeDeliver, Cut::AfterDeliver, Cut::BeforeAck, Cut::AfterAck] {
        let (bench, proxy, source) = receiving(60, 5, (place, 9, 4)).await;
        let mut seen = HashSet::new();
        let look = async || {
            while let Some(delivery) = source.try_next() {
                seen.insert(text(&delivery).to_owned());
                source.ack(&delivery).await;
            }
            let depth = bench.depth("orders");
            if seen.len() == 60 && depth == (0, 0) { Ok(()) } else { Err(format!("{} seen, {depth:?}", seen.len())) }
        };
        eventually("each arrives and the queue is empty", look).await;
        assert_eq!(proxy.cuts(), 4, "{place:?}");
    }
}

#[tokio::test]
async fn nothing_is_lost_on_its_way_to_the_busy_queue_or_the_dead_letters() {
    for place in [Cut::BeforePublish, Cut::AfterPublish, Cut::BeforeConfirm, Cut::AfterConfirm] {
        let bench = Bench::new().await;
        bench.send(0..1).await;
        let (proxy, broker) = through(&bench);
        let publisher = Publisher::new(broker, PublisherSettings::default());
        let source = Subscription::start(bench.broker(), bench.topology.clone(), 5, publisher);
        let first = next(&source).await;
        proxy.cut(place, 1, 1);
        while source.busy(&first).await.is_err() {}
        let second = next(&source).await;
        proxy.cut(place, 1, 1);
        while source.dead_letter(&second, "tired").await.is_err() {}
        let dead = bench.dead_letter().await;
        assert_eq!((dead.header(REASON).as_deref(), text(&dead)), (Some("tired"), "0"), "{place:?}");
    }
}

#[tokio::test]
async fn a_black_hole_ends_with_the_deadline() {
    let bench = Bench::new().await;
    let (proxy, broker) = through(&bench);
    let mut settings = PublisherSettings::default();
    settings.publish_deadline = Duration::from_secs(2);
    let publisher = Publisher::new(broker, settings);
    while publisher.publish(&[order("1")]).await.pop().expect("a fate").is_err() {}
    proxy.hold();
    let fates = publisher.publish(&[order("2"), order("3")]).await;
    assert!(fates.iter().all(|fate| matches!(fate, Err(Unpublished::Unknown(_)))), "{fates:?}");
    proxy.resume();
    while publisher.publish(&[order("4")]).await.pop().expect("a fate").is_err() {}
}

#[tokio::test]
async fn cut_again_and_again_they_come_back() {
    let bench = Bench::new().await;
    let (proxy, broker) = through(&bench);
    let publisher = Publisher::new(broker.clone(), PublisherSettings::default());
    let source = Subscription::start(broker, bench.topology.clone(), 1, publisher.clone());
    for round in 0..10 {
        let message = order(&round.to_string());
        while publisher.publish(std::slice::from_ref(&message)).await.pop().expect("a fate").is_err() {}
        while source.ack(&next(&source).await).await == Settled::Gone {}
        proxy.sever_all();
    }
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_lost_and_made_again() {
    let bench = Bench::new().await;
    let proxy = Proxy::start_amqp(bench.node.address());
    let broker = Server::new([format!("{}?heartbeat=1", proxy.url(&bench.url))]).expect("a URL");
    let source = Subscription::start(broker, bench.topology.clone(), 1, bench.publisher());
    until("connected", || source.state(), |state| *state == State::Connected).await;
    bench.send(0..1).await;
    let held = next(&source).await;
    proxy.hold();
    until("lost", || source.state(), |state| matches!(state, State::Away(_))).await;
    assert_eq!(source.ack(&held).await, Settled::Gone);
    proxy.resume();
    let again = next(&source).await;
    assert!(again.is_redelivered());
    assert_eq!(source.ack(&again).await, Settled::Told);
}

#[tokio::test]
async fn what_nobody_took_before_a_cut_is_not_handed_out_after_it() {
    let bench = Bench::new().await;
    bench.send(0..3).await;
    let (proxy, broker) = through(&bench);
    let source = Subscription::start(broker, bench.topology.clone(), 5, bench.publisher());
    bench.settles_at("orders", 0, 3).await;
    proxy.refuse(true);
    proxy.sever_all();
    until("lost", || source.state(), |state| matches!(state, State::Away(_))).await;
    bench.settles_at("orders", 3, 0).await;
    proxy.refuse(false);
    until("back", || source.state(), |state| *state == State::Connected).await;
    for _ in 0..3 {
        let delivery = next(&source).await;
        assert_eq!(source.ack(&delivery).await, Settled::Told);
    }
    bench.settles_at("orders", 0, 0).await;
}
