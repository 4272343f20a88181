//! Dead letters are read without being taken, and none is lost.

use std::collections::BTreeSet;

use ichido_rabbitmq::{
    Envelope, Error, Kind, Management, PublisherSettings, RabbitMq, Settled, Subscription, Topology,
};
use ichido_test_servers::RabbitMq as Node;
use ichido_testkit::size;

use crate::bench::{Bench, next, outgoing, text};

fn queue(bench: &Bench) -> RabbitMq {
    RabbitMq::new(bench.broker(), bench.topology.clone(), PublisherSettings::default())
}

/// Letters with the numbers as ids, as if they had been put there one after the other.
async fn put_aside(bench: &Bench, numbers: std::ops::Range<u32>) {
    let letter = |number: u32| {
        let mut message = outgoing(&number.to_string());
        message.routing_key.clone_from(&bench.topology.dead_letter_queue);
        Envelope::of(&message).and_then(|message| message.header("x-ichido-reason", "tired")).expect("short names")
    };
    let letters: Vec<Envelope> = numbers.map(letter).collect();
    assert!(bench.publisher().publish(&letters).await.iter().all(Result::is_ok));
}

/// A queue with so many letters.
async fn with_letters(kind: Kind, letters: u32) -> (Bench, RabbitMq) {
    let bench = Bench::with(Node::shared(), |topology| topology.kind = kind).await;
    put_aside(&bench, 0..letters).await;
    let queue = queue(&bench);
    (bench, queue)
}

/// Reads all letters, and gives them back.
async fn read(queue: &RabbitMq) -> Vec<u32> {
    let mut letters = queue.dead_letters().await.expect("a reading");
    let mut numbers = Vec::new();
    while let Some(letter) = letters.next().await.expect("a letter") {
        numbers.push(text(&letter).parse().expect("a number"));
    }
    letters.close().await.expect("closed");
    numbers
}

#[tokio::test]
async fn letters_are_read_in_their_order_however_often_and_stay() {
    for kind in [Kind::Quorum, Kind::Classic] {
        let bench = Bench::with(Node::shared(), |topology| topology.kind = kind).await;
        let queue = queue(&bench);
        assert!(read(&queue).await.is_empty(), "{kind:?}");
        put_aside(&bench, 0..250).await;
        for _ in 0..5 {
            assert_eq!(read(&queue).await, (0..250).collect::<Vec<_>>(), "{kind:?}");
        }
        put_aside(&bench, 250..300).await;
        assert_eq!(read(&queue).await, (0..300).collect::<Vec<_>>(), "{kind:?}");
        bench.settles_at("orders.dead", 300, 0).await;
    }
}

#[tokio::test]
async fn many_letters_are_no_more_in_memory_than_a_page() {
    let bench = Bench::new().await;
    let many = size(2_000, 10_000);
    put_aside(&bench, 0..many).await;
    for _ in 0..2 {
        assert_eq!(read(&queue(&bench)).await, (0..many).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn what_comes_while_they_are_read_is_for_the_next_reading_and_stays_behind() {
    for kind in [Kind::Quorum, Kind::Classic] {
        let (bench, queue) = with_letters(kind, 150).await;
        let mut letters = queue.dead_letters().await.expect("a reading");
        let first = letters.next().await.expect("a letter").expect("there are some");
        assert_eq!((text(&first), first.header("x-ichido-reason").as_deref()), ("0", Some("tired")));
        put_aside(&bench, 150..160).await;
        let mut read_now = 1;
        while letters.next().await.expect("a letter").is_some() {
            read_now += 1;
        }
        assert_eq!(read_now, 150, "{kind:?}");
        letters.close().await.expect("closed");
        assert_eq!(read(&queue).await, (0..160).collect::<Vec<_>>(), "{kind:?}");
    }
}

#[tokio::test]
async fn chosen_letters_are_deleted_or_moved_and_the_others_stay_in_their_order() {
    for kind in [Kind::Quorum, Kind::Classic] {
        let (bench, queue) = with_letters(kind, 250).await;
        let mut letters = queue.dead_letters().await.expect("a reading");
        while let Some(letter) = letters.next().await.expect("a letter") {
            let number: u32 = text(&letter).parse().expect("a number");
            let settled = match number {
                0 | 99 | 100..200 => letters.delete(&letter).await,
                3 | 249 => letters.move_to(&letter, "", "orders").await.expect("moved"),
                _ => continue,
            };
            assert_eq!(settled, Settled::Told, "{number}");
        }
        letters.close().await.expect("closed");
        let left: Vec<u32> = (1..99).chain(200..249).filter(|number| *number != 3).collect();
        assert_eq!(read(&queue).await, left, "{kind:?}");
        let source = bench.source(2);
        for moved in ["3", "249"] {
            let delivery = next(&source).await;
            assert_eq!((text(&delivery), delivery.header("x-ichido-reason")), (moved, None), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn many_that_are_deleted_last_do_not_mix_the_others() {
    let (_bench, queue) = with_letters(Kind::Quorum, 500).await;
    let mut letters = queue.dead_letters().await.expect("a reading");
    let mut last = Vec::new();
    while let Some(letter) = letters.next().await.expect("a letter") {
        if text(&letter).parse::<u32>().expect("a number") >= 300 {
            last.push(letter);
        }
    }
    for letter in &last {
        letters.delete(letter).await;
    }
    letters.close().await.expect("closed");
    assert_eq!(read(&queue).await, (0..300).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_cannot_be_moved_stays() {
    let (_bench, queue) = with_letters(Kind::Quorum, 1).await;
    let mut letters = queue.dead_letters().await.expect("a reading");
    let letter = letters.next().await.expect("a letter").expect("there is one");
    assert!(letters.move_to(&letter, "", "nowhere").await.expect_err("no queue").is_its_own());
    letters.close().await.expect("closed");
    assert_eq!(read(&queue).await, [0]);
}

#[tokio::test]
async fn a_second_reading_is_refused_until_the_first_ends() {
    let bench = Bench::new().await;
    put_aside(&bench, 0..3).await;
    let queue = queue(&bench);
    let first = queue.dead_letters().await.expect("a reading");
    let error = queue.dead_letters().await.map(drop).expect_err("being read");
    assert!(matches!(error, Error::Busy(_)) && error.is_transient(), "{error}");
    first.close().await.expect("closed");
    assert_eq!(read(&queue).await, [0, 1, 2]);
}

#[tokio::test]
async fn a_reading_that_is_dropped_loses_nothing() {
    let bench = Bench::new().await;
    put_aside(&bench, 0..150).await;
    let mut letters = queue(&bench).dead_letters().await.expect("a reading");
    for _ in 0..120 {
        letters.next().await.expect("a letter").expect("there are some");
    }
    drop(letters);
    bench.settles_at("orders.dead", 150, 0).await;
}

#[tokio::test]
async fn letters_are_read_while_others_take_some_and_none_is_lost() {
    let bench = Bench::new().await;
    put_aside(&bench, 0..400).await;
    let mut dead = Topology::new("orders.dead");
    dead.declare = false;
    let other = Subscription::start(bench.broker(), dead, 1, bench.publisher());
    let mut taken = BTreeSet::new();
    let queue = queue(&bench);
    let mut letters = queue.dead_letters().await.expect("a reading");
    for _ in 0..40 {
        letters.next().await.expect("a letter").expect("there are some");
        let delivery = next(&other).await;
        taken.insert(text(&delivery).parse::<u32>().expect("a number"));
        assert_eq!(other.ack(&delivery).await, Settled::Told);
    }
    letters.close().await.expect("closed");
    drop(other);
    bench.settles_at("orders.dead", 360, 0).await;
    let left = read(&queue).await;
    assert!(left.iter().all(|number| taken.insert(*number)), "none twice");
    assert_eq!(taken.len(), 400, "none lost");
}

#[tokio::test]
async fn a_queue_that_may_drop_what_is_looked_at_is_not_touched() {
    let node = Node::start_managed(&[]);
    let node: &'static Node = Box::leak(Box::new(node));
    let bench = Bench::with(node, |topology| topology.dead_letter_queue = "own.dead".to_owned()).await;
    let with = |name: &str, arguments: &str| {
        bench.declare_queue(name, arguments);
        let mut topology = bench.topology.clone();
        (topology.declare, topology.dead_letter_queue) = (false, name.to_owned());
        queue(&bench).beside(topology)
    };
    let quorum = r#"{<<"x-queue-type">>, longstr, <<"quorum">>}"#;
    let three = with("three.dead", &format!(r#"{quorum}, {{<<"x-delivery-limit">>, long, 3}}"#));
    let unlimited = with("unlimited.dead", quorum);

    for unknown in [&three, &unlimited] {
        let error = unknown.dead_letters().await.map(drop).expect_err("nobody knows its limit");
        assert!(!error.is_transient() && error.to_string().contains("management API"), "{error}");
    }
    let management = Management::new(&node.management_url(), &bench.broker()).expect("a URL");
    let error = three.clone().managed(management.clone()).dead_letters().await.map(drop).expect_err("3");
    assert!(!error.is_transient() && error.to_string().contains("after 3 deliveries"), "{error}");
    assert!(read(&unlimited.managed(management.clone())).await.is_empty());
    assert!(read(&queue(&bench).managed(management)).await.is_empty());
    node.stop();
}
