//! Groups: one at a time and in order within a group, whatever happens to its first message; other groups go on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ichido::{
    Context, Delivery, Inspect, MessageId, NewMessage, Operate, Outcome, Pool, Process, Queue, Result, RetryPolicy,
    Status, Table,
    store::{Database, Failure, Processes, Queues, Transactions},
};
use serde::Deserialize;

use crate::fixture::{Fixture, Player, effect_here, effects};

/// A managed queue, a table whose group can be null, and one whose group cannot, and whose done rows are deleted.
const QUEUES: [&str; 3] = ["mail", "transfers", "bookings"];

const TABLES: &str = "
create table transfer (id integer primary key, n integer, account varchar(20), status char(1) default '0' not null, process_id char(36));
create table booking (id integer primary key, n integer, seat varchar(20) not null, status varchar(5) default 'new' not null, process_id char(36));
";

fn queues() -> Vec<Queue> {
    let transfers = Table::new("transfer", "process_id", Status::new("status", "0", "1").failed("2"));
    let bookings = Table::new("booking", "process_id", Status::new("status", "new", "done").failed("bad"));
    vec![
        Queue::managed("mail"),
        Queue::table("transfers", transfers.group_by("account")),
        Queue::table("bookings", bookings.group_by("seat").delete_done()),
    ]
}

/// Three players on a fresh database; the messages `n` of each queue and group are sent in the order given.
struct Scene<F: Fixture> {
    fixture: F,
    one: Player<F>,
    other: Player<F>,
}

impl<F: Fixture> Scene<F> {
    async fn with(messages: &[(Option<&str>, i64)]) -> Self {
        let fixture = F::fresh().await;
        fixture.sql(TABLES).await;
        for queue in QUEUES {
            send(&fixture, queue, messages).await;
        }
        let (one, other) = (join(&fixture).await, join(&fixture).await);
        Scene { fixture, one, other }
    }
}

async fn join<F: Fixture>(fixture: &F) -> Player<F> {
    Player::join_with(fixture.store_with(queues()), &QUEUES).await
}

async fn send<F: Fixture>(fixture: &F, queue: &str, messages: &[(Option<&str>, i64)]) {
    let store = fixture.store_with(queues());
    let column = if queue == "transfers" { "account" } else { "seat" };
    let new = |(group, n): &(Option<&str>, i64)| match (queue, group) {
        ("mail", Some(group)) => NewMessage::new(format!(r#"{{"n":{n}}}"#)).group(*group),
        ("mail", None) => NewMessage::new(format!(r#"{{"n":{n}}}"#)),
        (_, Some(group)) => NewMessage::new(format!(r#"{{"id":{n},"n":{n},"{column}":"{group}"}}"#)),
        (_, None) => NewMessage::new(format!(r#"{{"id":{n},"n":{n}}}"#)),
    };
    let messages: Vec<_> = messages.iter().map(new).collect();
    let mut tx = store.begin().await.unwrap();
    store.send(F::Store::connection(&mut tx), queue, &messages).await.unwrap();
    store.commit(tx).await.unwrap();
}

#[derive(Deserialize)]
struct Payload {
    n: i64,
}

fn number(delivery: &Delivery) -> i64 {
    delivery.message.decode::<Payload>().unwrap().n
}

fn numbers(deliveries: &[Delivery]) -> Vec<i64> {
    let mut numbers: Vec<_> = deliveries.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

pub async fn only_the_first_of_a_group_can_be_claimed<F: Fixture>() {
    let Scene { fixture: _fixture, one, other } =
        Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2), (Some("b"), 3), (Some("b"), 4), (Some("c"), 5)]).await;
    for queue in QUEUES {
        assert_eq!(numbers(&one.claim(queue, 2).await), [1, 3], "{queue}: in order, one of each group");
        assert_eq!(numbers(&other.claim(queue, 10).await), [5], "{queue}: of a group that nobody holds");
    }
}

pub async fn the_next_of_a_group_follows_when_the_first_is_done<F: Fixture>() {
    let Scene { fixture, one, other } = Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2), (Some("a"), 3)]).await;
    for queue in QUEUES {
        for (n, player) in [(1, &one), (2, &other), (3, &one)] {
            let delivery = player.claim_one(queue).await;
            assert_eq!(number(&delivery), n, "{queue}");
            assert!(one.claim(queue, 10).await.is_empty() && other.claim(queue, 10).await.is_empty(), "{queue}");
            player.finish(&delivery).await.unwrap();
        }
    }
    assert_eq!(effects(&fixture).await, 9);
    assert_eq!(fixture.number("select count(*) from ichido_group").await, 0);
}

pub async fn a_group_waits_for_the_retry_of_its_first_and_others_go_on<F: Fixture>() {
    let Scene { fixture, one, other } = Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2), (Some("b"), 3)]).await;
    for queue in QUEUES {
        let first = one.claim_one(queue).await;
        assert!(one.store.park(&first, &Failure::waiting("later", 1, Duration::from_hours(1))).await.unwrap());
        assert_eq!(numbers(&other.claim(queue, 10).await), [3], "{queue}");
        fixture.sql("update ichido_parked set due_at = parked_at").await;
        assert_eq!(other.store.return_due(&other.registration).await.unwrap(), 1);
        let again = other.claim_one(queue).await;
        assert_eq!((number(&again), again.attempt), (1, 2), "{queue}");
        other.finish(&again).await.unwrap();
        assert_eq!(numbers(&one.claim(queue, 10).await), [2], "{queue}");
    }
}

async fn fail_first<F: Fixture>(player: &Player<F>, queue: &str) -> MessageId {
    let first = player.claim_one(queue).await;
    assert!(player.store.park(&first, &Failure::dead("no such account", 3)).await.unwrap());
    assert!(player.claim(queue, 10).await.is_empty(), "{queue}: a failed message holds its group");
    first.message.id()
}

pub async fn a_failed_message_holds_its_group_until_an_operator_decides<F: Fixture>() {
    let Scene { fixture, one, other } =
        Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2), (Some("a"), 3), (Some("a"), 4)]).await;
    for queue in QUEUES {
        let first = fail_first(&one, queue).await;
        assert!(one.store.retry(&first).await.unwrap());
        let again = other.claim_one(queue).await;
        assert_eq!((number(&again), again.attempt), (1, 1), "{queue}: in order even now");
        other.finish(&again).await.unwrap();
        let second = fail_first(&one, queue).await;
        assert!(one.store.discard(&second).await.unwrap());
        let third = other.claim_one(queue).await;
        assert_eq!(number(&third), 3, "{queue}");
        other.finish(&third).await.unwrap();
    }
    assert_eq!(fixture.number("select count(*) from ichido_group").await, 0);
}

pub async fn operators_see_the_oldest_and_which_groups_are_held_up<F: Fixture>() {
    let Scene { fixture, one, .. } = Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2)]).await;
    let seen = async || {
        let queues = fixture.store_with(queues()).overview().await.unwrap().queues;
        queues.into_iter().map(|seen| (seen.oldest_seconds, seen.held_groups, seen.ready)).collect::<Vec<_>>()
    };
    let fresh = seen().await;
    assert!(fresh[0].0.is_some_and(|seconds| (0..60).contains(&seconds)), "{fresh:?}");
    assert_eq!([fresh[1].0, fresh[2].0], [None, None], "nothing tells when these rows were sent");
    for queue in QUEUES {
        fail_first(&one, queue).await;
    }
    assert_eq!(seen().await.iter().map(|seen| (seen.1, seen.2)).collect::<Vec<_>>(), [(1, 1); 3]);
}

pub async fn a_failed_row_that_is_gone_or_new_by_hand_frees_its_group<F: Fixture>() {
    let Scene { fixture, one, other } = Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2), (Some("a"), 3)]).await;
    fail_first(&one, "transfers").await;
    fixture.sql("update transfer set status = '0' where n = 1").await;
    one.tidy().await;
    let again = other.claim_one("transfers").await;
    assert_eq!((number(&again), again.attempt), (1, 1));
    other.finish(&again).await.unwrap();
    fail_first(&one, "transfers").await;
    fixture.sql("delete from transfer where n = 2").await;
    one.tidy().await;
    assert_eq!(numbers(&other.claim("transfers", 10).await), [3]);
}

pub async fn what_a_dead_process_held_goes_on_with_its_first<F: Fixture>() {
    let Scene { fixture, one, other } = Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2)]).await;
    for queue in QUEUES {
        one.claim_one(queue).await;
    }
    one.die(&fixture).await;
    assert_eq!(other.store.rescue(&other.registration).await.unwrap().messages, 3);
    for queue in QUEUES {
        let first = other.claim_one(queue).await;
        assert_eq!((number(&first), first.is_suspect()), (1, true), "{queue}");
        other.finish(&first).await.unwrap();
        assert_eq!(numbers(&other.claim(queue, 10).await), [2], "{queue}");
    }
}

pub async fn what_is_released_or_left_behind_goes_on_with_its_first<F: Fixture>() {
    let Scene { fixture, one, other } = Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2)]).await;
    for queue in QUEUES {
        let first = one.claim_one(queue).await;
        one.store.release(&[first]).await.unwrap();
        assert_eq!(numbers(&other.claim(queue, 10).await), [1], "{queue}");
    }
    other.store.deregister(other.registration.id).await.unwrap();
    assert_eq!(fixture.number("select count(*) from ichido_group").await, 0);
    for queue in QUEUES {
        assert_eq!(numbers(&one.claim(queue, 10).await), [1], "{queue}");
    }
}

pub async fn a_dead_process_leaves_no_group_of_a_row_changed_by_hand<F: Fixture>() {
    let Scene { fixture, one, other } = Scene::<F>::with(&[(Some("a"), 1), (Some("a"), 2), (Some("b"), 3)]).await;
    let third = join(&fixture).await;
    for queue in QUEUES {
        assert_eq!(numbers(&one.claim(queue, 10).await), [1, 3], "{queue}");
    }
    fixture.sql("delete from transfer where n = 1; update transfer set account = 'c' where n = 3").await;
    fixture
        .sql("update booking set status = 'done', process_id = null where n = 1; delete from booking where n = 3")
        .await;
    fixture.sql("delete from ichido_message where group_key = 'a' and payload like '%1%'").await;
    one.die(&fixture).await;
    other.store.rescue(&other.registration).await.unwrap();
    for (queue, left) in QUEUES.into_iter().zip([&[2, 3][..], &[2, 3], &[2]]) {
        assert_eq!(numbers(&other.claim(queue, 10).await), left, "{queue}");
    }
    fixture.sql("delete from transfer where n = 2").await;
    other.store.deregister(other.registration.id).await.unwrap();
    send(&fixture, "transfers", &[(Some("a"), 4)]).await;
    assert_eq!(numbers(&third.claim("transfers", 10).await), [3, 4]);
}

pub async fn a_row_that_comes_late_waits_for_the_one_in_flight<F: Fixture>() {
    let Scene { fixture, one, other } = Scene::<F>::with(&[(Some("a"), 5)]).await;
    for queue in ["transfers", "bookings"] {
        let fifth = one.claim_one(queue).await;
        send(&fixture, queue, &[(Some("a"), 1)]).await;
        assert!(other.claim(queue, 10).await.is_empty(), "{queue}: one at a time");
        one.finish(&fifth).await.unwrap();
        assert_eq!(numbers(&other.claim(queue, 10).await), [1], "{queue}");
    }
}

pub async fn messages_with_and_without_a_group_share_a_queue<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture.sql(TABLES).await;
    let one = join(&fixture).await;
    for queue in ["mail", "transfers"] {
        let mut messages: Vec<_> = (1..=20).map(|n| (None, n)).collect();
        messages.extend((21..=24).map(|n| (Some("a"), n)));
        send(&fixture, queue, &messages).await;
        let mut order = Vec::new();
        for _ in 0..24 {
            let delivery = one.claim_one(queue).await;
            order.push(number(&delivery));
            one.finish(&delivery).await.unwrap();
        }
        assert!(one.claim(queue, 1).await.is_empty());
        assert!(order[..12].contains(&24), "{queue}: the group does not wait for the others: {order:?}");
        let plain: Vec<_> = order.iter().filter(|n| **n <= 20).collect();
        assert!(plain.is_sorted(), "{queue}: {order:?}");
        send(&fixture, queue, &[(None, 30), (None, 31), (Some("a"), 32), (Some("a"), 33)]).await;
        assert_eq!(numbers(&one.claim(queue, 10).await), [30, 31, 32], "{queue}: whatever can run is claimed");
    }
}

pub async fn every_one_of_many_groups_is_reached<F: Fixture>() {
    let groups: Vec<String> = (0..600).map(|group| format!("group {group:03}")).collect();
    let messages: Vec<_> = groups.iter().zip(1..).map(|(group, n)| (Some(group.as_str()), n)).collect();
    let Scene { fixture: _fixture, one, other } = Scene::<F>::with(&messages).await;
    for queue in QUEUES {
        let mut found = Vec::new();
        for player in [&one, &other].into_iter().cycle().take(20) {
            found.extend(numbers(&player.claim(queue, 37).await));
        }
        found.sort_unstable();
        assert_eq!(found, (1..=600).collect::<Vec<_>>(), "{queue}");
    }
}

pub async fn an_empty_or_endless_group_is_refused_and_a_table_has_its_own<F: Fixture>() {
    let Scene { fixture: _fixture, one, .. } = Scene::<F>::with(&[]).await;
    let mut tx = one.store.begin().await.unwrap();
    for (queue, message) in [
        ("mail", NewMessage::new("1").group("")),
        ("mail", NewMessage::new("1").group("x".repeat(256))),
        ("transfers", NewMessage::new(r#"{"id":1}"#).group("a")),
        ("transfers", NewMessage::new(r#"{"id":1}"#).unique("a")),
    ] {
        let refused = one.store.send(F::Store::connection(&mut tx), queue, &[message]).await;
        assert!(matches!(refused, Err(ichido::Error::Refused(_))), "{refused:?}");
    }
    one.store.rollback(tx).await.unwrap();
}

/// What an action of the test saw: who runs now, and what was done in which order, by group.
#[derive(Default)]
struct Seen {
    running: Mutex<BTreeSet<String>>,
    done: Mutex<BTreeMap<String, Vec<i64>>>,
    overlap: AtomicBool,
}

async fn book<F: Fixture>(cx: &mut Context<F::Store>, n: i64, seen: &Seen) -> Result<Outcome> {
    let group = cx.delivery()?.claim.as_ref().and_then(|claim| claim.group.clone()).unwrap_or_default();
    if !seen.running.lock().unwrap().insert(group.clone()) {
        seen.overlap.store(true, Ordering::Relaxed);
    }
    effect_here::<F>(cx).await?;
    tokio::task::yield_now().await;
    seen.running.lock().unwrap().remove(&group);
    // Every seventh fails at first.
    if n % 7 == 0 && cx.attempt() < 3 {
        return Ok(Outcome::retry());
    }
    seen.done.lock().unwrap().entry(group).or_default().push(n);
    Ok(Outcome::Done)
}

struct Book<F>(Arc<Seen>, std::marker::PhantomData<fn() -> F>);

impl<F: Fixture> ichido::Action<F::Store> for Book<F> {
    type Message = Payload;

    async fn handle(&self, cx: &mut Context<F::Store>, message: Payload) -> Result<Outcome> {
        book::<F>(cx, message.n, &self.0).await
    }
}

pub async fn groups_keep_their_order_over_processes_and_retries<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture.sql(TABLES).await;
    let groups: Vec<String> = (0..10).map(|group| format!("g{group}")).collect();
    let messages: Vec<_> = (1..=100).map(|n| (Some(groups[n % 10].as_str()), i64::try_from(n).unwrap())).collect();
    for queue in QUEUES {
        send(&fixture, queue, &messages).await;
    }
    let seen: Vec<_> = QUEUES.iter().map(|_| Arc::new(Seen::default())).collect();
    let run = || {
        let retry =
            RetryPolicy { attempts: 5, first: Duration::from_millis(1), max: Duration::from_millis(2), factor: 1.0 };
        let process = Process::new(fixture.store_with(queues())).poll(Duration::from_millis(20)).drain();
        let pools = QUEUES.iter().zip(&seen).map(|(queue, seen)| {
            (Pool::new(*queue).concurrency(3).retry(retry), Book::<F>(seen.clone(), std::marker::PhantomData))
        });
        let process = pools.fold(process, |process, (pool, action)| process.action(pool, action));
        tokio::spawn(process.run())
    };
    for process in [run(), run(), run()] {
        assert_eq!(process.await.unwrap().unwrap(), 0);
    }
    for (queue, seen) in QUEUES.iter().zip(&seen) {
        assert!(!seen.overlap.load(Ordering::Relaxed), "{queue}: two of a group ran at once");
        let done = seen.done.lock().unwrap();
        assert!(
            done.len() == 10 && done.values().all(|order| order.len() == 10 && order.is_sorted()),
            "{queue}: {done:?}"
        );
    }
    assert_eq!(effects(&fixture).await, 300);
}
