//! FIFO queues: a group is handed out one message at a time, a failure keeps its place, and a retry is not taken for a duplicate.

use std::time::Duration;

use ichido::{
    broker::{Broker as _, Outgoing, Received, Settlement, Source as _},
    message::GROUP,
};
use ichido_sqs::Deliveries;
use ichido_test_servers::injector::Faults;
use ichido_testkit::{fixture::BrokerFixture as _, run};

use crate::{
    fixture::AtSqs,
    seam::{behind_injector, next, outgoing, publish},
};

const QUEUE: &str = "line.fifo";

fn of(id: &str, group: &str) -> Outgoing {
    let mut message = outgoing(QUEUE, id);
    message.headers.insert(GROUP.into(), group.into());
    message
}

/// What receives these messages, which are in the queue.
async fn line(at: &AtSqs, messages: &[Outgoing]) -> Deliveries {
    let queue = at.queue(QUEUE);
    publish(&queue, messages).await;
    queue.receive(10)
}

fn id(received: &Received) -> &str {
    received.id.as_deref().expect("an id")
}

async fn after(source: &Deliveries, done: &Received, settlement: Settlement) -> Received {
    source.settle(done.tag, settlement).await.expect("settled");
    next(source).await
}

#[test]
fn messages_of_a_group_are_handed_out_one_at_a_time() {
    run(async {
        let at = AtSqs::fresh().await;
        let source = line(&at, &[of("a1", "a"), of("a2", "a"), of("a3", "a")]).await;
        let first = next(&source).await;
        assert!(source.try_next().is_none(), "the others wait for the first");
        let second = after(&source, &first, Settlement::Ack).await;
        let third = after(&source, &second, Settlement::Ack).await;
        assert_eq!([&first, &second, &third].map(id), ["a1", "a2", "a3"]);
        assert_eq!(first.headers.get(GROUP).map(String::as_str), Some("a"));
    });
}

#[test]
fn the_next_of_a_group_does_not_wait_for_a_delete() {
    run(async {
        let at = AtSqs::fresh().await;
        let (queue, injector) = behind_injector(&at, QUEUE).await;
        publish(&queue, &[of("a1", "a"), of("a2", "a")]).await;
        let source = queue.receive(10);
        let first = next(&source).await;
        // Nobody answers the delete.
        injector.inject(Faults { throttling: 100, ..Faults::none() });
        let second = tokio::select! {
            biased;
            _ = source.settle(first.tag, Settlement::Ack) => panic!("the delete was waited for"),
            second = next(&source) => second,
        };
        assert_eq!([&first, &second].map(id), ["a1", "a2"]);
    });
}

#[test]
fn other_groups_go_on_beside_one_that_waits() {
    run(async {
        let at = AtSqs::fresh().await;
        let source = line(&at, &[of("a1", "a"), of("a2", "a"), of("b1", "b"), outgoing(QUEUE, "x")]).await;
        let mut found = [next(&source).await, next(&source).await, next(&source).await].map(|it| id(&it).to_owned());
        found.sort();
        assert_eq!(found, ["a1", "b1", "x"]);
    });
}

#[test]
fn what_failed_comes_again_before_those_behind_it() {
    run(async {
        let at = AtSqs::fresh().await;
        let source = line(&at, &[of("a1", "a"), of("a2", "a"), of("a3", "a")]).await;
        let first = next(&source).await;
        let again = after(&source, &first, Settlement::Later(Some(Duration::from_secs(1)))).await;
        let second = after(&source, &again, Settlement::Ack).await;
        assert_eq!([&first, &again, &second].map(id), ["a1", "a1", "a2"]);
        assert!(again.redelivered);
    });
}

#[test]
fn a_retry_is_not_dropped_as_a_duplicate_and_a_copy_is() {
    run(async {
        let at = AtSqs::fresh().await;
        let retry = Outgoing { edition: 1, ..of("a1", "a") };
        let source = line(&at, &[of("a1", "a"), of("a1", "a"), retry, of("end", "a")]).await;
        let mut received = next(&source).await;
        let mut found = vec![id(&received).to_owned()];
        while id(&received) != "end" {
            received = after(&source, &received, Settlement::Ack).await;
            found.push(id(&received).to_owned());
        }
        assert_eq!(found, ["a1", "a1", "end"], "one for each edition");
    });
}

#[test]
fn dead_letters_of_a_group_can_all_be_read() {
    run(async {
        let at = AtSqs::fresh().await;
        let queue = at.queue(QUEUE);
        let messages: Vec<_> = (0..12).map(|n| of(&format!("a{n:02}"), "a")).collect();
        publish(&queue, &messages).await;
        let source = queue.receive(20);
        for _ in &messages {
            let received = next(&source).await;
            source.settle(received.tag, Settlement::DeadLetter("why".into())).await.expect("dead-lettered");
        }
        assert_eq!(at.dead_letters(QUEUE).await.len(), messages.len());
    });
}
