//! What is in hand is out of sight of others for as long as it is, and no longer. These tests take their time, for they are about time.

use std::time::{Duration, Instant};

use ichido::broker::{Broker as _, Settlement, Source as _};
use ichido_testkit::{
    eventually,
    fixture::{BrokerFixture as _, Part},
    run,
};

use crate::{
    fixture::AtSqs,
    seam::{next, outgoing, publish},
};

const SHORT: Duration = Duration::from_secs(3);

#[test]
fn a_delivery_in_hand_is_renewed_past_its_visibility() {
    run(async {
        let at = AtSqs::fresh().await;
        let queue = at.queue_with("orders", |settings| settings.visibility = SHORT);
        publish(&queue, &[outgoing("orders", "1")]).await;
        let source = queue.receive(1);
        let received = next(&source).await;
        let since = Instant::now();
        while since.elapsed() < SHORT * 3 {
            assert_eq!(at.depth("orders", Part::Queue).await, (0, 1), "after {:?}", since.elapsed());
            assert!(source.is_current(received.tag));
            tokio::time::sleep(SHORT / 10).await;
        }
        drop(source);
        eventually("it is back", async || match at.depth("orders", Part::Queue).await {
            (1, 0) => Ok(()),
            depth => Err(format!("{depth:?}")),
        })
        .await;
    });
}

#[test]
fn what_expired_is_not_current_any_more() {
    run(async {
        let at = AtSqs::fresh().await;
        let line = at.line();
        let queue = ichido_testkit::fixture::Line::queue(&line, "orders");
        publish(&queue, &[outgoing("orders", "1")]).await;
        let source = queue.receive(1);
        let received = next(&source).await;
        ichido_testkit::fixture::Line::close(&line);
        eventually(
            "its receipt expires",
            async || if source.is_current(received.tag) { Err(String::new()) } else { Ok(()) },
        )
        .await;
        source.settle(received.tag, Settlement::Ack).await.expect("nothing to settle");
    });
}

#[test]
fn what_is_released_comes_at_once_and_what_is_busy_after_a_while() {
    run(async {
        let at = AtSqs::fresh().await;
        let queue = at.queue_with("orders", |settings| settings.busy_delay = SHORT);
        publish(&queue, &[outgoing("orders", "1")]).await;
        let source = queue.receive(1);
        let first = next(&source).await;
        source.settle(first.tag, Settlement::Release).await.expect("released");
        let again = next(&source).await;
        assert!(again.redelivered);
        let since = Instant::now();
        source.settle(again.tag, Settlement::Busy).await.expect("put off");
        next(&source).await;
        assert!(since.elapsed() >= SHORT.checked_sub(Duration::from_millis(100)).unwrap(), "{:?}", since.elapsed());
    });
}

#[test]
fn a_source_that_closes_gives_back_what_nobody_took() {
    run(async {
        let at = AtSqs::fresh().await;
        let queue = at.queue("orders");
        let messages: Vec<_> = (0..5).map(|n| outgoing("orders", &n.to_string())).collect();
        publish(&queue, &messages).await;
        let source = queue.receive(8);
        let taken = next(&source).await;
        eventually("all are in hand", async || match at.depth("orders", Part::Queue).await {
            (0, 5) => Ok(()),
            depth => Err(format!("{depth:?}")),
        })
        .await;
        source.close().await;
        assert_eq!(at.depth("orders", Part::Queue).await, (4, 1));
        source.settle(taken.tag, Settlement::Ack).await.expect("what was taken can be settled");
        assert_eq!(at.depth("orders", Part::Queue).await, (4, 0));
    });
}
