//! Messages that a broker hands out: the row in the database says what becomes of each delivery, whoever it is handed to, and
//! however often. Here rows are held by owners; `locking` is about those that are held by locks.

use std::time::Duration;

use ichido::{
    Error, Key, Message, MessageId, Messages, NewMessage, Operate,
    broker::{Found, Standing},
    store::{Database, Failure, Mutexes, Outbox, ProcessId, Processes, Queues, Rescued, Transactions},
};

use crate::{
    cases::broker_rows::{
        BODY, all_handed_out, handed_out, held, join, leased, publish_all, rows, send_all, send_one, unsent,
    },
    fixture::{Fixture, Player, assert_lost, effects, failed_in},
};

const FREE: Found = Found::Free(Standing { failures: 0, suspect: false, parked: false });

fn some(count: usize) -> Vec<NewMessage> {
    vec![NewMessage::new(BODY); count]
}

/// A fresh database, a process, and a message that was sent and published.
async fn one_published<F: Fixture>() -> (F, Player<F>, Key) {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let key = send_one(&process.store, "paid").await;
    publish_all(&process.store, "paid").await;
    (fixture, process, key)
}

pub async fn what_is_done_has_no_row_any_more_and_is_never_done_again<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let keys = send_all(&process.store, "paid", &some(2)).await;
    publish_all(&process.store, "paid").await;
    let delivery = process.take("paid", &keys[0]).await;
    process.finish(&delivery).await.unwrap();
    assert_eq!((rows(&fixture).await, effects(&fixture).await), ((1, 1), 1), "only its own rows go");
    assert_eq!(process.find("paid", &keys).await, [Found::Nothing, FREE]);
    assert_lost(&process.finish(&delivery).await);
    process.finish(&process.take("paid", &keys[1]).await).await.unwrap();
    assert_eq!((rows(&fixture).await, effects(&fixture).await), ((0, 0), 2));
}

pub async fn several_messages_are_done_together_or_not_at_all<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let keys = send_all(&process.store, "paid", &some(3)).await;
    let mut done = Vec::new();
    for key in &keys {
        done.push(process.take("paid", key).await);
    }
    process.store.release(&done[2..]).await.unwrap();
    let mut tx = process.store.begin().await.unwrap();
    assert_lost(&process.store.complete(&mut tx, &done).await);
    process.store.rollback(tx).await.unwrap();
    assert_eq!(rows(&fixture).await, (3, 3));
    let mut tx = process.store.begin().await.unwrap();
    process.store.complete(&mut tx, &done[..2]).await.unwrap();
    process.store.commit(tx).await.unwrap();
    assert_eq!(rows(&fixture).await, (1, 1));
    assert_eq!(process.find("paid", &keys).await, [Found::Nothing, Found::Nothing, FREE]);
}

pub async fn of_two_who_are_handed_the_same_message_one_gets_it<F: Fixture>() {
    let fixture = F::fresh().await;
    let (one, other) = (join(&fixture).await, join(&fixture).await);
    let keys = send_all(&one.store, "paid", &some(30)).await;
    let backwards: Vec<_> = keys.iter().rev().cloned().collect();
    let (first, mut second) = tokio::join!(one.find("paid", &keys), other.find("paid", &backwards));
    second.reverse();
    for (first, second) in first.iter().zip(&second) {
        let both = (*first, *second);
        assert!(both == (FREE, Found::Busy) || both == (Found::Busy, FREE), "{both:?}");
    }
    let owned = "select count(*) from ichido_mutex where owner is not null";
    assert_eq!(fixture.number(owned).await, 30);
    assert_eq!(one.find("paid", &keys).await, first, "who has it gets it again, and nobody else");
    assert_eq!(other.find("paid", &keys).await, second);
}

pub async fn what_is_found_says_what_becomes_of_a_delivery<F: Fixture>() {
    let fixture = F::fresh().await;
    let (process, other) = (join(&fixture).await, join(&fixture).await);
    let store = &process.store;
    let keys = send_all(store, "paid", &some(6)).await;
    let elsewhere = send_one(store, "refund").await;
    let [done, waiting, dead, busy, released, free] = &keys[..] else { panic!("six were sent") };
    process.finish(&process.take("paid", done).await).await.unwrap();
    let later = Failure::waiting("not yet", 2, Duration::from_hours(1));
    assert!(store.park(&process.take("paid", waiting).await, &later).await.unwrap());
    assert!(store.park(&process.take("paid", dead).await, &Failure::dead("never", 3)).await.unwrap());
    other.take("paid", busy).await;
    store.release(&[process.take("paid", released).await]).await.unwrap();
    let padded = Key::new([format!("{free} ")]);
    let asked = [elsewhere, padded, Key::new([""]), Key::new(["x".repeat(300)]), Key::new(["a/b%\0'"])];
    assert_eq!(process.find("paid", &asked).await, [Found::Nothing; 5], "nobody else's row is theirs");
    let asked: Vec<_> = [free, busy, dead, waiting, done, released, free].into_iter().cloned().collect();
    let found = [FREE, Found::Busy, Found::Failed, Found::Waiting, Found::Nothing, FREE, FREE];
    assert_eq!(process.find("paid", &asked).await, found, "in the order in which it was asked for");
    assert_eq!(process.find("paid", &[]).await, []);
}

/// A message with an id of ours and a body that nobody has sent.
fn forged(key: &Key) -> Message {
    Message::new("paid", key.clone(), *br#"{"id":666}"#)
}

pub async fn another_body_is_not_to_be_had_and_takes_nothing<F: Fixture>() {
    let fixture = F::fresh().await;
    let (process, other) = (join(&fixture).await, join(&fixture).await);
    let store = &process.store;
    let keys = send_all(store, "paid", &some(4)).await;
    let [free, held_by_us, waiting, dead] = &keys[..] else { panic!("four were sent") };
    process.take("paid", held_by_us).await;
    let later = Failure::waiting("not yet", 1, Duration::from_hours(1));
    assert!(store.park(&process.take("paid", waiting).await, &later).await.unwrap());
    assert!(store.park(&process.take("paid", dead).await, &Failure::dead("never", 3)).await.unwrap());
    let all: Vec<_> = keys.iter().map(forged).collect();
    let me = process.registration.id;
    assert_eq!(store.claim_these(me, "paid", &all).await.unwrap(), [Found::Another; 4]);
    let owned = "select count(*) from ichido_mutex where owner is not null";
    assert_eq!(fixture.number(owned).await, 3, "what was free still is");
    let both = [forged(free), handed_out("paid", free).message];
    assert_eq!(other.store.claim_these(other.registration.id, "paid", &both).await.unwrap(), [Found::Another, FREE]);
    let found = [Found::Busy, FREE, Found::Waiting, Found::Failed];
    assert_eq!(process.find("paid", &keys).await, found, "the genuine ones are as they were");
}

pub async fn a_row_without_a_hash_is_about_any_body<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let key = send_one(&process.store, "paid").await;
    fixture.sql("update ichido_mutex set hash = null").await;
    let found = process.store.claim_these(process.registration.id, "paid", &[forged(&key)]).await.unwrap();
    assert_eq!(found, [FREE]);
}

pub async fn what_is_tried_again_is_published_again_with_its_attempts<F: Fixture>() {
    let (fixture, process, key) = one_published::<F>().await;
    let store = &process.store;
    for failures in 1..=2 {
        let delivery = process.take("paid", &key).await;
        assert_eq!(delivery.attempt, failures);
        let failure = Failure::waiting("not yet", failures, Duration::ZERO);
        assert!(store.park(&delivery, &failure).await.unwrap());
        assert_eq!(unsent(store, "paid").await, [""; 0], "its time has not come");
        assert_eq!(process.find("paid", std::slice::from_ref(&key)).await, [Found::Waiting]);
        assert_eq!(store.return_due(&process.registration).await.unwrap(), 1);
        assert_eq!(unsent(store, "paid").await, [key.to_string()]);
        publish_all(store, "paid").await;
    }
    let delivery = process.take("paid", &key).await;
    assert_eq!(delivery.attempt, 3);
    process.finish(&delivery).await.unwrap();
    assert_eq!(rows(&fixture).await, (0, 0));
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn what_has_failed_is_published_again_when_an_operator_wants_it<F: Fixture>() {
    let (fixture, process, key) = one_published::<F>().await;
    let store = &process.store;
    let delivery = process.take("paid", &key).await;
    assert!(store.park(&delivery, &Failure::dead("never", 3)).await.unwrap());
    assert_eq!(failed_in(store).await, [(format!("paid/{key}"), 3, "never".to_owned())]);
    assert_eq!(process.find("paid", std::slice::from_ref(&key)).await, [Found::Failed]);
    let id = MessageId { queue: "paid".into(), key: key.clone() };
    assert_eq!(store.payload(&id).await.unwrap().as_deref(), Some(r#"{"id":1}"#));
    process.tidy().await;
    assert!(store.retry(&id).await.unwrap());
    assert!(!store.retry(&id).await.unwrap(), "it has not failed any more");
    assert_eq!(unsent(store, "paid").await, [key.to_string()]);
    let delivery = process.take("paid", &key).await;
    assert_eq!(delivery.attempt, 1);
    process.finish(&delivery).await.unwrap();
    assert_eq!(rows(&fixture).await, (0, 0));
}

pub async fn what_an_operator_discards_is_gone<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let keys = send_all(&process.store, "paid", &some(2)).await;
    let delivery = process.take("paid", &keys[0]).await;
    let id = MessageId { queue: "paid".into(), key: keys[0].clone() };
    assert!(!process.store.discard(&id).await.unwrap(), "it has not failed");
    assert!(process.store.park(&delivery, &Failure::dead("never", 3)).await.unwrap());
    assert!(process.store.discard(&id).await.unwrap());
    assert_eq!(rows(&fixture).await, (1, 1), "the other one stays");
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
    assert_eq!(process.find("paid", &keys).await, [Found::Nothing, FREE]);
    assert_eq!(unsent(&process.store, "paid").await, [keys[1].to_string()]);
}

pub async fn what_a_dead_process_had_is_suspect_and_published_if_need_be<F: Fixture>() {
    let fixture = F::fresh().await;
    let (victim, other) = (join(&fixture).await, join(&fixture).await);
    let mut kept = Vec::new();
    for queue in ["paid", "refund"] {
        let key = send_one(&other.store, queue).await;
        publish_all(&other.store, queue).await;
        kept.push((queue, key.clone(), victim.take(queue, &key).await));
    }
    let old = victim.registration.id;
    victim.die(&fixture).await;
    let rescued = other.store.rescue(&other.registration).await.unwrap();
    assert_eq!(rescued, Rescued { processes: 1, messages: 2, parked: 0 });
    assert_eq!(unsent(&other.store, "paid").await, [""; 0], "its delivery comes back by itself");
    assert_eq!(unsent(&other.store, "refund").await, [kept[1].1.to_string()]);
    let late = other.store.claim_these(old, "paid", &all_handed_out("paid", &[kept[0].1.clone()])).await;
    assert!(matches!(late, Err(Error::LostClaim)), "the dead claim nothing: {late:?}");
    for (queue, key, before) in &kept {
        assert_lost(&other.finish(before).await);
        assert!(!other.store.park(before, &Failure::dead("late", 1)).await.unwrap());
        let delivery = other.take(queue, key).await;
        assert!(delivery.is_suspect());
        assert_eq!(delivery.attempt, 1);
        other.finish(&delivery).await.unwrap();
    }
    assert_eq!((rows(&fixture).await, effects(&fixture).await), ((0, 0), 2));
}

pub async fn a_process_that_nobody_knows_is_handed_nothing<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let key = send_one(&process.store, "paid").await;
    let keys = std::slice::from_ref(&key);
    let handed_out = all_handed_out("paid", keys);
    let claimed = fixture.store_with(leased()).claim_these(ProcessId::random(), "paid", &handed_out).await;
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
    process.take("paid", &key).await;
    process.store.deregister(process.registration.id).await.unwrap();
    let claimed = process.store.claim_these(process.registration.id, "paid", &handed_out).await;
    assert!(matches!(claimed, Err(Error::LostClaim)), "{claimed:?}");
    let other = join(&fixture).await;
    assert_eq!(other.find("paid", keys).await, [FREE], "who deregisters frees what it had, and nothing is counted");
}

pub async fn a_queue_of_a_broker_is_drained_when_everything_is_done<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let store = &process.store;
    assert!(store.is_drained("paid").await.unwrap());
    let key = send_one(store, "paid").await;
    assert!(!store.is_drained("paid").await.unwrap(), "it is not even published");
    assert!(store.is_drained("refund").await.unwrap(), "the other queue has nothing to do with it");
    publish_all(store, "paid").await;
    let delivery = process.take("paid", &key).await;
    assert!(!store.is_drained("paid").await.unwrap());
    store.park(&delivery, &Failure::waiting("not yet", 1, Duration::from_hours(1))).await.unwrap();
    assert!(!store.is_drained("paid").await.unwrap(), "it waits for a retry");
    let key = send_one(store, "refund").await;
    process.finish(&process.take("refund", &key).await).await.unwrap();
    assert!(store.is_drained("refund").await.unwrap());
    let key = send_one(store, "refund").await;
    store.park(&process.take("refund", &key).await, &Failure::dead("never", 1)).await.unwrap();
    assert!(store.is_drained("refund").await.unwrap(), "what has failed waits for an operator");
}

pub async fn whether_an_unknown_commit_arrived_the_row_tells<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let key = send_one(&process.store, "paid").await;
    let delivery = process.take("paid", &key).await;
    assert!(process.store.is_claimed(&delivery).await.unwrap());
    process.finish(&delivery).await.unwrap();
    assert!(!process.store.is_claimed(&delivery).await.unwrap());
}

pub async fn a_message_with_another_programs_mutex_is_kept_when_it_fails<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let store = &process.store;
    fixture.sql("insert into ichido_mutex (id, queue) values ('42', 'paid')").await;
    let key = Key::new(["42"]);
    let mut delivery = process.take("paid", &key).await;
    delivery.message.payload = b"\xff{\"id\":42}".as_slice().into();
    delivery.message.headers = [("trace".to_owned(), "7".to_owned())].into();
    assert_eq!(rows(&fixture).await, (1, 0));
    for failures in 1..=2 {
        assert!(store.park(&delivery, &Failure::waiting("not yet", failures, Duration::ZERO)).await.unwrap());
        assert_eq!(unsent(store, "paid").await, [""; 0]);
        assert_eq!(store.return_due(&process.registration).await.unwrap(), 1);
        let again = store.unsent("paid", 9).await.unwrap().remove(0).message;
        assert_eq!((&*again.id, again.queue.as_deref(), &*again.exchange), ("42", Some("paid"), ""));
        assert_eq!((&*again.routing_key, &again.headers), ("paid-orders", &delivery.message.headers));
        assert_eq!(again.payload, b"\xff{\"id\":42}");
        process.take("paid", &key).await;
        publish_all(store, "paid").await;
    }
    let standing = Standing { failures: 2, suspect: false, parked: true };
    process.finish(&held("paid", &key, process.registration.id, standing, false)).await.unwrap();
    assert_eq!(rows(&fixture).await, (0, 0));
}

pub async fn an_action_that_ends_its_transaction_leaves_its_mutex<F: Fixture>() {
    for end in ["rollback", "commit"] {
        let fixture = F::fresh().await;
        let process: Player<F> = join(&fixture).await;
        let key = send_one(&process.store, "paid").await;
        let delivery = process.take("paid", &key).await;
        let mut tx = process.store.begin().await.unwrap();
        // Where it is refused at once, that ends the transaction as well.
        let _ = F::through(F::Store::connection(&mut tx), end.into()).await;
        let _ = crate::fixture::effect::<F>(F::Store::connection(&mut tx), &delivery.message).await;
        let completed = process.store.complete(&mut tx, std::slice::from_ref(&delivery)).await;
        assert!(matches!(completed, Err(Error::BrokenTransaction(_))), "{end}: {completed:?}");
        process.store.rollback(tx).await.unwrap();
        assert_eq!((rows(&fixture).await, effects(&fixture).await), ((1, 1), 0), "{end}");
    }
}
