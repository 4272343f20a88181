//! A message is moved in time by an operator: later, earlier, or now; and what is claimed, has failed or is done stays as it is.

use std::time::{Duration, SystemTime};

use ichido::{
    Client, Due, MessageId, Messages, NewMessage, Operate,
    inspect::{Listed, MessageState},
    store::{Database, Failure, Mutexes, Outbox, Queues, Transactions},
};

use super::messages::{id, left, listed, state};
use crate::{
    cases::broker_rows::{handed_out, join, leased, publish_all, send_all, send_one, unsent},
    fixture::{Fixture, Player, send, send_orders, with_orders},
};

const HOUR: Duration = Duration::from_hours(1);

async fn returned<F: Fixture>(process: &Player<F>) -> u64 {
    process.store.return_due(&process.registration).await.unwrap()
}

/// How many milliseconds, about, a message is due from now on; the clocks are those of one machine.
async fn due_in<F: Fixture>(fixture: &F, condition: &str) -> i64 {
    fixture.number(&format!("select count(*) from ichido_parked where state = 'waiting' and {condition}")).await
}

pub async fn what_is_ready_waits_until_its_new_time<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let mail = send(&fixture, "mail", &["1"]).await;
    let process = Player::join(&fixture).await;
    for message in ["orders/1", &mail[0]] {
        assert!(process.store.reschedule(&id(message), Due::After(HOUR)).await.unwrap().is_yes());
        let info = process.store.message(&id(message)).await.unwrap().unwrap();
        assert_eq!((info.state, info.attempts, info.error), (MessageState::Waiting, 0, None), "{message}");
    }
    assert_eq!(process.claim_one("orders").await.message.id(), id("orders/2"));
    assert!(process.claim("mail", 1).await.is_empty());
    assert_eq!(returned(&process).await, 0, "they are not due");
    fixture.sql("update ichido_parked set due_at = parked_at").await;
    assert_eq!(returned(&process).await, 2);
    for queue in ["orders", "mail"] {
        let delivery = process.claim_one(queue).await;
        assert_eq!(delivery.attempt, 1, "nothing has failed");
        process.finish(&delivery).await.unwrap();
    }
    assert_eq!(fixture.number("select count(*) from ichido_audit where verb = 'reschedule'").await, 2);
}

pub async fn what_waits_is_due_at_its_new_time<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let process = Player::join(&fixture).await;
    let delivery = process.claim_one("orders").await;
    assert!(process.store.park(&delivery, &Failure::waiting("not yet", 2, HOUR)).await.unwrap());
    let before = process.store.message(&id("orders/1")).await.unwrap().unwrap();
    for due in [Due::At(SystemTime::now() + 5 * HOUR), Due::After(4 * HOUR), Due::After(Duration::MAX)] {
        assert!(process.store.reschedule(&id("orders/1"), due).await.unwrap().is_yes());
        let later = process.store.message(&id("orders/1")).await.unwrap().unwrap();
        assert!(later.due_at > before.due_at, "{:?}, {:?}", later.due_at, before.due_at);
        assert_eq!((later.attempts, &later.parked_at, &later.error), (2, &before.parked_at, &before.error));
        assert_eq!(returned(&process).await, 0);
    }
    assert!(process.store.reschedule(&id("orders/1"), Due::At(SystemTime::UNIX_EPOCH)).await.unwrap().is_yes());
    assert_eq!(due_in(&fixture, "due_at < parked_at").await, 1);
    assert_eq!(returned(&process).await, 1, "it was due long ago");
    assert_eq!(process.claim_one("orders").await.attempt, 3);
}

pub async fn attempts_are_kept_by_a_message_that_is_moved<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let process = Player::join(&fixture).await;
    let delivery = process.claim_one("orders").await;
    assert!(process.store.park(&delivery, &Failure::waiting("not yet", 2, HOUR)).await.unwrap());
    let order = id("orders/1");
    assert!(process.store.run_now(&order).await.unwrap().is_yes());
    assert!(process.store.reschedule(&order, Due::After(HOUR)).await.unwrap().is_yes(), "it was ready");
    let info = process.store.message(&order).await.unwrap().unwrap();
    assert_eq!((info.attempts, info.history.len(), info.error.as_deref()), (2, 1, Some("not yet")));
    assert!(process.store.run_now(&order).await.unwrap().is_yes());
    assert_eq!(process.claim_one("orders").await.attempt, 3);
}

pub async fn what_was_set_to_new_by_hand_is_moved_as_attempt_one<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let process = Player::join(&fixture).await;
    let delivery = process.claim_one("orders").await;
    assert!(process.store.park(&delivery, &Failure::dead("never", 3)).await.unwrap());
    fixture.sql("update received_order set status = '0'").await;
    assert_eq!(state(&process, "orders/1").await, Some(MessageState::Ready));
    assert!(process.store.reschedule(&id("orders/1"), Due::After(HOUR)).await.unwrap().is_yes());
    assert!(process.store.run_now(&id("orders/1")).await.unwrap().is_yes());
    assert_eq!(process.claim_one("orders").await.attempt, 1);
}

pub async fn what_is_claimed_failed_or_done_stays_as_it_is<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    let process = Player::join(&fixture).await;
    let claimed = process.claim("orders", 3).await;
    assert!(process.store.park(&claimed[1], &Failure::dead("never", 3)).await.unwrap());
    process.finish(&claimed[2]).await.unwrap();
    let me = process.registration.id.to_string();
    let said = [
        ("orders/1", MessageState::Claimed, me.as_str()),
        ("orders/2", MessageState::Failed, "`ichido failed retry orders/2`"),
        ("orders/3", MessageState::Done, "is done"),
    ];
    for (message, state, text) in said {
        for changed in [
            process.store.reschedule(&id(message), Due::After(HOUR)).await.unwrap(),
            process.store.run_now(&id(message)).await.unwrap(),
        ] {
            let info = left(changed);
            assert!(info.state == state && info.why_left().contains(text), "{}", info.why_left());
        }
    }
    let gone = process.store.reschedule(&id("orders/9"), Due::After(HOUR)).await.unwrap();
    assert!(matches!(gone, ichido::inspect::Changed::No(None)), "{gone:?}");
    assert_eq!(fixture.number("select count(*) from ichido_audit").await, 0);
    process.finish(&claimed[0]).await.unwrap();
    assert_eq!(fixture.number("select count(*) from received_order where status = '2'").await, 1);
}

pub async fn what_waits_runs_now<F: Fixture>() {
    let fixture = F::fresh().await;
    send_orders(&fixture, 1).await;
    let process = Player::join(&fixture).await;
    let delivery = process.claim_one("orders").await;
    assert!(process.store.park(&delivery, &Failure::waiting("not yet", 1, HOUR)).await.unwrap());
    assert!(process.store.run_now(&id("orders/1")).await.unwrap().is_yes());
    let again = left(process.store.run_now(&id("orders/1")).await.unwrap());
    assert_eq!(again.state, MessageState::Ready, "there is nothing to do");
    assert_eq!(fixture.number("select count(*) from ichido_audit where verb = 'run-now'").await, 1);
    let delivery = process.claim_one("orders").await;
    assert_eq!(delivery.attempt, 2);
    process.finish(&delivery).await.unwrap();
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn a_group_waits_for_its_first_message_that_is_moved<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = Player::join(&fixture).await;
    let messages: Vec<_> = ["a", "a", "b"].iter().map(|group| NewMessage::new("1").group(*group)).collect();
    let mut tx = process.store.begin().await.unwrap();
    let ids = process.store.send(F::Store::connection(&mut tx), "mail", &messages).await.unwrap();
    process.store.commit(tx).await.unwrap();
    assert!(process.store.reschedule(&ids[0], Due::After(HOUR)).await.unwrap().is_yes());
    let claimed = process.claim("mail", 10).await;
    assert_eq!(claimed.iter().map(|delivery| delivery.message.id()).collect::<Vec<_>>(), [ids[2].clone()]);
    assert!(process.store.run_now(&ids[0]).await.unwrap().is_yes());
    let first = process.claim("mail", 10).await;
    assert_eq!(first.iter().map(|delivery| delivery.message.id()).collect::<Vec<_>>(), [ids[0].clone()]);
    process.finish(&first[0]).await.unwrap();
    assert_eq!(process.claim_one("mail").await.message.id(), ids[1]);
}

pub async fn a_client_moves_one_message<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let (client, order) = (Client::new(fixture.store()), id("orders/1"));
    assert!(client.message(&order).reschedule(HOUR).await.unwrap().is_yes());
    assert!(client.message(&order).reschedule(SystemTime::now() + HOUR).await.unwrap().is_yes());
    assert!(client.message(&order).run_now().await.unwrap().is_yes());
    assert!(!client.message(&order).run_now().await.unwrap().is_yes());
}

fn of(queue: &str, key: &ichido::Key) -> MessageId {
    MessageId { queue: queue.into(), key: key.clone() }
}

pub async fn a_brokers_message_is_published_when_its_new_time_has_come<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let store = &process.store;
    let keys = send_all(store, "paid", &[NewMessage::new(r#"{"id":1}"#), NewMessage::new(r#"{"id":1}"#)]).await;
    let late = store.unsent("paid", 10).await.unwrap();
    store.note_published("paid", &[&late[0]]).await.unwrap();
    for key in &keys {
        assert!(store.reschedule(&of("paid", key), Due::After(HOUR)).await.unwrap().is_yes());
    }
    assert_eq!(unsent(store, "paid").await, [""; 0], "nothing is published before its time");
    // Who was about to publish the second one tells so too late.
    store.note_published("paid", &late.iter().collect::<Vec<_>>()).await.unwrap();
    let found = process.find("paid", &keys).await;
    assert_eq!(found, vec![ichido::broker::Found::Waiting; 2], "copies at the broker are turned away");
    let ids: Vec<_> = keys.iter().map(|key| of("paid", key).to_string()).collect();
    assert_eq!(listed(store, "paid", Listed::Waiting, 1).await, ids);
    assert!(store.run_now(&of("paid", &keys[0])).await.unwrap().is_yes());
    assert_eq!(unsent(store, "paid").await, [keys[0].to_string()]);
    fixture.sql("update ichido_parked set due_at = parked_at where state = 'waiting'").await;
    assert_eq!(returned(&process).await, 1);
    assert_eq!(unsent(store, "paid").await, [keys[0].to_string(), keys[1].to_string()]);
    publish_all(store, "paid").await;
    for key in &keys {
        let delivery = process.take("paid", key).await;
        assert_eq!(delivery.attempt, 1);
        process.finish(&delivery).await.unwrap();
    }
    assert_eq!(state(&process, &ids[0]).await, None);
}

pub async fn brokers_messages_are_listed_by_state<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let store = &process.store;
    let messages = vec![NewMessage::new(r#"{"id":1}"#); 5];
    let mut keys = send_all(store, "paid", &messages).await;
    keys.sort_unstable();
    send_one(store, "refund").await;
    let ids: Vec<_> = keys.iter().map(|key| of("paid", key).to_string()).collect();
    for size in [1, 2, 10] {
        assert_eq!(listed(store, "paid", Listed::Ready, size).await, ids);
    }
    let (claimed, failed) = (process.take("paid", &keys[0]).await, process.take("paid", &keys[1]).await);
    assert!(store.park(&failed, &Failure::dead("never", 3)).await.unwrap());
    assert_eq!(listed(store, "paid", Listed::Claimed, 10).await, ids[..1]);
    assert_eq!(listed(store, "paid", Listed::Failed, 10).await, ids[1..2]);
    assert_eq!(listed(store, "paid", Listed::Ready, 2).await, ids[2..]);
    let info = left(store.reschedule(&of("paid", &keys[0]), Due::After(HOUR)).await.unwrap());
    assert_eq!(info.owner.unwrap().process, process.registration.id.to_string());
    process.finish(&claimed).await.unwrap();
    assert_eq!(state(&process, &ids[0]).await, None);
}

pub async fn what_is_only_at_the_broker_is_not_put_aside<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    fixture.sql("insert into ichido_mutex (id, queue) values ('foreign', 'paid')").await;
    let key = ichido::Key::new(["foreign"]);
    let error = process.store.reschedule(&of("paid", &key), Due::After(HOUR)).await.unwrap_err().to_string();
    assert!(error.contains("only at the broker"), "{error}");
    assert_eq!(state(&process, "paid/foreign").await, Some(MessageState::Ready));
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
    assert!(!process.store.retry(&of("paid", &key)).await.unwrap());
}

pub async fn an_inbox_knows_what_is_done<F: Fixture>() {
    let fixture = F::fresh().await;
    let mut queues = leased();
    queues.push(ichido::Queue::broker("news", ichido::Guarded::new("", "news").inbox().lease()));
    let process = Player::<F>::join_with(fixture.store_with(queues), &["news"]).await;
    let key = ichido::Key::new(["news:shop:4"]);
    let news = of("news", &key).to_string();
    assert_eq!(state(&process, &news).await, None);
    let delivery = process.take("news", &key).await;
    assert_eq!(state(&process, &news).await, Some(MessageState::Claimed));
    assert!(process.store.park(&delivery, &Failure::waiting("not yet", 1, HOUR)).await.unwrap());
    assert!(process.store.run_now(&of("news", &key)).await.unwrap().is_yes());
    let delivery = process.take("news", &key).await;
    assert_eq!((delivery.attempt, &delivery.message.payload), (2, &handed_out("news", &key).message.payload));
    process.finish(&delivery).await.unwrap();
    assert_eq!(state(&process, &news).await, Some(MessageState::Done));
    assert!(process.store.guard("news").await.is_ok());
}
