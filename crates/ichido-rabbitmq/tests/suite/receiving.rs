//! The source hands out deliveries, and each settlement does what it says.

use std::collections::HashSet;

use ichido_rabbitmq::{Envelope, Id, Kind, REASON, Settled};

use crate::bench::{Bench, next, order, text};

#[tokio::test]
async fn a_delivery_says_what_was_sent() {
    let bench = Bench::new().await;
    let message = order("7").header("colour", "blue");
    bench.publisher().publish(&[message.expect("short names")]).await.pop().expect("a fate").expect("confirmed");
    let source = bench.source(1);
    let delivery = next(&source).await;
    assert_eq!(delivery.id(), Id::Of("7".to_owned()));
    assert_eq!((delivery.origin().as_deref(), delivery.queue().as_deref()), (Some("here"), Some("orders")));
    assert_eq!((delivery.message_id(), delivery.content_type()), (Some("7"), Some("application/json")));
    assert_eq!(delivery.header("colour").as_deref(), Some("blue"));
    assert!(!delivery.is_redelivered() && delivery.is_current());
    assert_eq!(source.ack(&delivery).await, Settled::Told);
    assert_eq!(source.ack(&delivery).await, Settled::Gone, "settled before");
    bench.settles_at("orders", 0, 0).await;
}

#[tokio::test]
async fn a_foreign_message_has_no_id() {
    let bench = Bench::new().await;
    let foreign = Envelope::new("", "orders", "x").expect("short names");
    bench.publisher().publish(&[foreign]).await.pop().expect("a fate").expect("confirmed");
    assert_eq!(next(&bench.source(1)).await.id(), Id::Missing);
}

#[tokio::test]
async fn no_more_than_the_prefetch_are_out() {
    let (bench, source) = Bench::holding(10, 3).await;
    let first = next(&source).await;
    bench.settles_at("orders", 7, 3).await;
    source.ack(&first).await;
    bench.settles_at("orders", 6, 3).await;
}

#[tokio::test]
async fn what_is_released_comes_again() {
    let (_bench, source) = Bench::holding(1, 1).await;
    assert_eq!(source.release(&next(&source).await).await, Settled::Told);
    let again = next(&source).await;
    assert!(again.is_redelivered() && text(&again) == "0");
}

#[tokio::test]
async fn a_busy_delivery_comes_back_later_as_it_was_and_as_often_as_it_takes() {
    for kind in [Kind::Quorum, Kind::Classic] {
        let (bench, source) = Bench::of(kind, 1, 5).await;
        for _ in 0..4 {
            let delivery = next(&source).await;
            assert_eq!((delivery.id(), text(&delivery)), (Id::Of("0".to_owned()), "0"));
            assert_eq!(source.busy(&delivery).await.expect("put aside"), Settled::Told);
        }
        source.ack(&next(&source).await).await;
        for queue in ["orders", "orders.busy", "orders.dead"] {
            bench.settles_at(queue, 0, 0).await;
        }
    }
}

/// A node that crashed just after the queue was declared starts it anew, without the delay that it was declared with (RabbitMQ 3.10 at least).
#[tokio::test]
async fn a_busy_delivery_comes_back_also_if_the_broker_has_forgotten_the_delay() {
    let (bench, source) = Bench::holding(1, 5).await;
    let forget = "Server = amqqueue:get_pid(Q), \
         Known = #{name => element(1, Server), queue_resource => amqqueue:get_name(Q), dead_letter_handler => at_least_once}, \
         rabbit_fifo_client:update_machine_state(Server, Known)";
    assert_eq!(bench.eval_queue("orders.busy", forget), "ok");
    assert_eq!(source.busy(&next(&source).await).await.expect("put aside"), Settled::Told);
    source.ack(&next(&source).await).await;
    bench.settles_at("orders.busy", 0, 0).await;
}

#[tokio::test]
async fn a_dead_letter_has_its_reason_and_everything_else() {
    for kind in [Kind::Quorum, Kind::Classic] {
        let (bench, source) = Bench::of(kind, 1, 5).await;
        let delivery = next(&source).await;
        assert_eq!(source.dead_letter(&delivery, "no mutex row").await.expect("put aside"), Settled::Told);
        bench.settles_at("orders", 0, 0).await;
        bench.settles_at("orders.dead", 1, 0).await;
        let dead = bench.dead_letter().await;
        assert_eq!(dead.header(REASON).as_deref(), Some("no mutex row"));
        assert_eq!((dead.id(), dead.origin().as_deref(), text(&dead)), (Id::Of("0".to_owned()), Some("here"), "0"));
    }
}

#[tokio::test]
async fn what_cannot_be_put_aside_is_not_acknowledged() {
    let bench = Bench::new().await;
    bench.send(0..1).await;
    let mut topology = bench.topology.clone();
    (topology.declare, topology.busy_queue) = (false, "gone".to_owned());
    let source = ichido_rabbitmq::Subscription::start(bench.broker(), topology, 1, bench.publisher());
    let delivery = next(&source).await;
    source.busy(&delivery).await.expect_err("there is no such queue");
    bench.settles_at("orders", 0, 1).await;
    assert_eq!(source.release(&delivery).await, Settled::Told);
}

#[tokio::test]
async fn workers_that_wait_together_get_everything() {
    let bench = Bench::new().await;
    let source = std::sync::Arc::new(bench.source(4));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let source = std::sync::Arc::clone(&source);
            tokio::spawn(async move {
                let mut got = Vec::new();
                for _ in 0..25 {
                    let delivery = next(&source).await;
                    source.ack(&delivery).await;
                    got.push(text(&delivery).to_owned());
                }
                got
            })
        })
        .collect();
    bench.send(0..100).await;
    let mut all = HashSet::new();
    for worker in workers {
        all.extend(worker.await.expect("no panic"));
    }
    assert_eq!(all.len(), 100);
    bench.settles_at("orders", 0, 0).await;
}

#[tokio::test]
async fn a_closed_source_gives_back_what_nobody_took_and_lets_the_rest_be_settled() {
    let (bench, source) = Bench::holding(5, 5).await;
    let taken = next(&source).await;
    bench.settles_at("orders", 0, 5).await;
    source.close().await;
    source.changed().await;
    assert!(source.try_next().is_none());
    bench.settles_at("orders", 4, 1).await;
    assert_eq!(source.ack(&taken).await, Settled::Told);
    bench.settles_at("orders", 4, 0).await;
}

/// Whatever it was doing: connecting, declaring, or waiting for the answer to its first question.
#[tokio::test]
async fn a_source_that_is_dropped_while_it_opens_gives_everything_back() {
    let bench = Bench::new().await;
    bench.send(0..5).await;
    for milliseconds in 0..60 {
        let source = bench.source(5);
        tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
        drop(source);
    }
    bench.settles_at("orders", 5, 0).await;
}

#[tokio::test]
async fn a_dropped_source_gives_everything_back() {
    let (bench, source) = Bench::holding(5, 5).await;
    let _taken = next(&source).await;
    drop(source);
    bench.settles_at("orders", 5, 0).await;
}
