//! Failure, waiting, failure for good, and what operators do about it.

use std::time::Duration;

use ichido::{
    Delivery, Inspect, MessageId, Operate,
    inspect::{Parked, ParkedFilter, ParkedState},
    store::{Failure, Queues},
};

use crate::fixture::{
    Fixture, Player, claimed_after_another, effects, one_claimed, order_and_mail, send, send_orders, with_orders,
};

async fn park_dead<F: Fixture>(process: &Player<F>, queue: &str) -> Delivery {
    let delivery = process.claim_one(queue).await;
    assert!(process.store.park(&delivery, &Failure::dead("no such customer", 3)).await.unwrap());
    delivery
}

fn id(text: &str) -> MessageId {
    text.parse().unwrap()
}

pub async fn a_waiting_message_is_claimable_when_due_with_its_attempts<F: Fixture>() {
    let (fixture, process) = order_and_mail::<F>().await;
    for queue in ["orders", "mail"] {
        let delivery = process.claim_one(queue).await;
        assert!(process.store.park(&delivery, &Failure::waiting("later", 1, Duration::from_hours(1))).await.unwrap());
        assert_eq!(process.store.return_due(&process.registration).await.unwrap(), 0, "it is not due yet");
        assert!(process.claim(queue, 1).await.is_empty());
        assert!(!process.store.is_drained(queue).await.unwrap(), "it waits for a retry");
    }
    fixture.sql("update ichido_parked set due_at = parked_at").await;
    assert_eq!(process.store.return_due(&process.registration).await.unwrap(), 2);
    for queue in ["orders", "mail"] {
        let delivery = process.claim_one(queue).await;
        assert_eq!((delivery.attempt, delivery.is_suspect()), (2, false));
        process.finish(&delivery).await.unwrap();
    }
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn a_message_that_failed_for_good_has_its_status_and_its_reason<F: Fixture>() {
    let (fixture, process) = order_and_mail::<F>().await;
    park_dead(&process, "orders").await;
    park_dead(&process, "mail").await;
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '2' and process_id is null").await,
        1
    );
    let failed = process.store.parked(&ParkedFilter::default()).await.unwrap();
    let seen: Vec<_> = failed.iter().map(|parked| (parked.state, parked.attempts, parked.error.as_str())).collect();
    assert_eq!(seen, [(ParkedState::Dead, 3, "no such customer"); 2]);
    for queue in ["orders", "mail"] {
        assert!(process.claim(queue, 1).await.is_empty());
        assert!(process.store.is_drained(queue).await.unwrap(), "what has failed for good is not unprocessed");
    }
}

/// What an operator sees first is what went wrong last; a snooze is nothing that went wrong.
pub async fn the_last_failures_come_first<F: Fixture>() {
    let fixture = F::fresh().await;
    let ids = send(&fixture, "mail", &["1", "2", "3", "4"]).await;
    let process = Player::join(&fixture).await;
    let deliveries = process.claim("mail", 4).await;
    let hour = Duration::from_hours(1);
    for (at, failure) in [
        (1, Failure::dead("first", 3)),
        (0, Failure::waiting("second", 1, hour)),
        (2, Failure::dead("third", 0)),
        (3, Failure::snoozed(0, hour)),
    ] {
        assert!(process.store.park(&deliveries[at], &failure).await.unwrap());
        tokio::time::sleep(Duration::from_millis(5)).await; // the next one is later, also by a clock of milliseconds
    }
    let mut filter = ParkedFilter::default();
    (filter.newest, filter.waiting, filter.limit) = (true, true, 2);
    let seen =
        |page: &[Parked]| page.iter().map(|parked| (parked.id.clone(), parked.error.clone())).collect::<Vec<_>>();
    let first = process.store.parked(&filter).await.unwrap();
    assert_eq!(seen(&first), [(ids[2].clone(), "third".to_owned()), (ids[0].clone(), "second".to_owned())]);
    filter.after = first.last().cloned();
    assert_eq!(seen(&process.store.parked(&filter).await.unwrap()), [(ids[1].clone(), "first".to_owned())]);
}

pub async fn a_row_set_to_new_by_hand_runs_as_attempt_one<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let process = Player::join(&fixture).await;
    park_dead(&process, "orders").await;
    fixture.sql("update received_order set status = '0'").await;
    let delivery = process.claim_one("orders").await;
    assert_eq!(delivery.attempt, 1);
    process.finish(&delivery).await.unwrap();
    assert!(process.store.parked(&ParkedFilter::default()).await.unwrap().is_empty(), "it has not failed any more");
    fixture.sql("update received_order set status = '0'").await;
    process.finish(&process.claim_one("orders").await).await.unwrap();
    assert_eq!(effects(&fixture).await, 2, "done rows can be run again by hand too");
}

pub async fn an_operator_retries_as_attempt_one<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let ids = send(&fixture, "mail", &["{}"]).await;
    let process = Player::join(&fixture).await;
    park_dead(&process, "orders").await;
    park_dead(&process, "mail").await;
    for (queue, message) in [("orders", id("orders/1")), ("mail", id(&ids[0]))] {
        assert!(process.store.retry(&message).await.unwrap());
        assert!(!process.store.retry(&message).await.unwrap(), "it has not failed any more");
        let delivery = process.claim_one(queue).await;
        assert_eq!((delivery.message.id(), delivery.attempt), (message, 1));
        process.finish(&delivery).await.unwrap();
    }
    assert!(!process.store.retry(&id("orders/2")).await.unwrap(), "it has never failed");
    assert!(!process.store.retry(&id("orders/99")).await.unwrap(), "it is not there");
}

pub async fn an_operator_discards_with_a_note<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let ids = send(&fixture, "mail", &["{}"]).await;
    let process = Player::join(&fixture).await;
    assert!(!process.store.discard(&id("orders/1")).await.unwrap(), "it has not failed");
    park_dead(&process, "orders").await;
    park_dead(&process, "mail").await;
    assert!(process.store.discard(&id("orders/1")).await.unwrap());
    assert!(process.store.discard(&id(&ids[0])).await.unwrap());
    assert!(process.store.parked(&ParkedFilter::default()).await.unwrap().is_empty());
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 0);
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '2'").await,
        1,
        "a row of the user's own stays"
    );
    assert_eq!(
        fixture
            .number("select count(*) from ichido_audit where verb = 'discard' and detail like '%no such customer%'")
            .await,
        2
    );
}

pub async fn a_failure_of_a_lost_claim_is_not_written<F: Fixture>() {
    let (fixture, (old, stale), (new, fresh)) = claimed_after_another::<F>().await;
    assert!(!old.store.park(&stale, &Failure::dead("late", 1)).await.unwrap());
    new.finish(&fresh).await.unwrap();
    assert!(!old.store.park(&stale, &Failure::dead("later", 1)).await.unwrap());
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 1);
}

pub async fn completion_forgets_the_past<F: Fixture>() {
    let (fixture, process, delivery) = one_claimed::<F>().await;
    process.store.park(&delivery, &Failure::waiting("once", 1, Duration::ZERO)).await.unwrap();
    assert_eq!(process.store.return_due(&process.registration).await.unwrap(), 1);
    let delivery = process.claim_one("orders").await;
    assert!(delivery.claim.as_ref().is_some_and(|claim| claim.parked));
    process.finish(&delivery).await.unwrap();
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
    fixture.sql("update received_order set status = '0'").await;
    assert_eq!(process.claim_one("orders").await.attempt, 1);
}

pub async fn without_a_failed_value_the_dead_stay_out_of_circulation<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture.sql("insert into ticket (region, number, kind) values ('a', 1, 'urgent'), ('a', 2, 'urgent')").await;
    let process = Player::join(&fixture).await;
    park_dead(&process, "urgent").await;
    park_dead(&process, "urgent").await;
    assert!(process.claim("urgent", 1).await.is_empty());
    assert!(process.store.is_drained("urgent").await.unwrap());
    process.tidy().await;
    assert_eq!(process.store.parked(&ParkedFilter::default()).await.unwrap().len(), 2);
    assert!(process.store.discard(&id("urgent/a/2")).await.unwrap());
    assert!(process.store.retry(&id("urgent/a/1")).await.unwrap());
    process.tidy().await;
    process.finish(&process.claim_one("urgent").await).await.unwrap();
    assert!(process.claim("urgent", 1).await.is_empty(), "what was discarded stays out of circulation");
    assert!(process.store.parked(&ParkedFilter::default()).await.unwrap().is_empty());
}

pub async fn what_is_known_about_a_row_that_is_gone_is_forgotten<F: Fixture>() {
    let fixture = with_orders::<F>(4).await;
    let process = Player::join(&fixture).await;
    for _ in 0..3 {
        park_dead(&process, "orders").await;
    }
    let waiting = process.claim_one("orders").await;
    process.store.park(&waiting, &Failure::waiting("later", 1, Duration::ZERO)).await.unwrap();
    fixture
        .sql("delete from received_order where id in (1, 4); update received_order set status = '0' where id = 2")
        .await;
    process.tidy().await;
    assert_eq!(process.store.return_due(&process.registration).await.unwrap(), 0, "what waited is gone");
    let left = process.store.parked(&ParkedFilter::default()).await.unwrap();
    assert_eq!(left.iter().map(|parked| parked.id.as_str()).collect::<Vec<_>>(), ["orders/3"]);
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 1);
}

pub async fn the_last_ten_failures_are_remembered<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let process = Player::join(&fixture).await;
    for attempt in 1..=12 {
        let delivery = process.claim_one("orders").await;
        assert_eq!(delivery.attempt, attempt);
        let failure = Failure::waiting(format!("failure {attempt} with a \0 in it"), attempt, Duration::ZERO);
        assert!(process.store.park(&delivery, &failure).await.unwrap());
        assert_eq!(process.store.return_due(&process.registration).await.unwrap(), 1);
    }
    park_dead(&process, "orders").await;
    let shown = process.store.parked(&ParkedFilter::default()).await.unwrap().remove(0);
    let attempts: Vec<_> = shown.history.iter().map(|failure| failure.attempt).collect();
    assert_eq!(attempts, [4, 5, 6, 7, 8, 9, 10, 11, 12, 3]);
    assert!(shown.history[0].error.starts_with("failure 4"));
    assert!(shown.history[0].at.ends_with('Z'), "{}", shown.history[0].at);
}

pub async fn a_queue_is_drained_when_nothing_is_left_or_waits<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = Player::join(&fixture).await;
    assert!(process.store.is_drained("orders").await.unwrap());
    send_orders(&fixture, 1).await;
    assert!(!process.store.is_drained("orders").await.unwrap());
    let delivery = process.claim_one("orders").await;
    assert!(!Player::join(&fixture).await.store.is_drained("orders").await.unwrap(), "somebody is at it");
    process.finish(&delivery).await.unwrap();
    assert!(process.store.is_drained("orders").await.unwrap());
}

pub async fn a_wait_longer_than_a_database_can_count_is_cut<F: Fixture>() {
    let (fixture, process, delivery) = one_claimed::<F>().await;
    assert!(process.store.park(&delivery, &Failure::waiting("later", 1, Duration::MAX)).await.unwrap());
    assert_eq!(fixture.number("select count(*) from ichido_parked where due_at > parked_at").await, 1);
}
