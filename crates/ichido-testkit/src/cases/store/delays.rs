//! Messages that are sent now and run later.

use std::time::{Duration, SystemTime};

use ichido::{
    Client, Inspect, NewMessage,
    inspect::ParkedFilter,
    store::{Database, Queues, Transactions},
};

use crate::fixture::{Fixture, Player, effects};

const HOUR: Duration = Duration::from_hours(1);

async fn send<F: Fixture>(fixture: &F, queue: &str, messages: &[NewMessage]) {
    let store = fixture.store();
    let mut tx = store.begin().await.unwrap();
    store.send(F::Store::connection(&mut tx), queue, messages).await.unwrap();
    store.commit(tx).await.unwrap();
}

async fn due_now<F: Fixture>(fixture: &F, player: &Player<F>) -> u64 {
    fixture.sql("update ichido_parked set due_at = parked_at").await;
    player.store.return_due(&player.registration).await.unwrap()
}

pub async fn a_delayed_message_runs_when_it_is_due_as_attempt_one<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    send(&fixture, "mail", &[NewMessage::new("1").delay(HOUR), NewMessage::new("2")]).await;
    let at_once = player.claim("mail", 10).await;
    assert_eq!(at_once.iter().map(|delivery| &*delivery.message.payload).collect::<Vec<_>>(), [b"2"]);
    assert_eq!(player.store.return_due(&player.registration).await.unwrap(), 0, "it is not due");
    let mut waiting = ParkedFilter::default();
    waiting.waiting = true;
    let seen = player.store.parked(&waiting).await.unwrap();
    assert_eq!(seen.len(), 1, "an operator sees what waits");
    assert_eq!(due_now(&fixture, &player).await, 1);
    let known = fixture.number("select count(*) from ichido_parked").await;
    assert_eq!(known, 0, "there is nothing that its claim or its completion had to look for");
    let later = player.claim_one("mail").await;
    assert_eq!((later.attempt, &*later.message.payload), (1, &b"1"[..]));
    player.finish(&later).await.unwrap();
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn a_message_for_a_given_time_runs_from_then_on<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let now = SystemTime::now();
    let past = NewMessage::new("1").at(now - HOUR);
    send(&fixture, "mail", &[past, NewMessage::new("2").at(now + HOUR), NewMessage::new("3").delay(Duration::MAX)])
        .await;
    assert_eq!(player.store.return_due(&player.registration).await.unwrap(), 1);
    assert_eq!(&*player.claim_one("mail").await.message.payload, b"1");
    let soon = fixture.number("select count(*) from ichido_parked where state = 'waiting'").await;
    assert_eq!(soon, 2);
}

pub async fn a_delay_does_not_keep_a_queue_from_being_drained<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &[NewMessage::new("1").delay(HOUR)]).await;
    assert!(fixture.store().is_drained("mail").await.unwrap());
}

pub async fn a_row_is_sent_with_a_delay_too<F: Fixture>() {
    let fixture = F::fresh().await;
    let player = Player::join(&fixture).await;
    let client = Client::new(fixture.store());
    let mut tx = player.store.begin().await.unwrap();
    let orders = [serde_json::json!({"id": 1, "name": "x"}), serde_json::json!({"id": 2})];
    let later = client.queue("orders").delay(HOUR).send_all(F::Store::connection(&mut tx), &orders).await.unwrap();
    let ticket = serde_json::json!({"region": "a", "number": 1});
    client.queue("urgent").at(SystemTime::now() + HOUR).send(F::Store::connection(&mut tx), &ticket).await.unwrap();
    player.store.commit(tx).await.unwrap();
    assert_eq!(later.iter().map(ToString::to_string).collect::<Vec<_>>(), ["orders/1", "orders/2"]);
    assert!(player.claim("orders", 10).await.is_empty() && player.claim("urgent", 10).await.is_empty());
    assert_eq!(due_now(&fixture, &player).await, 3);
    for queue in ["orders", "orders", "urgent"] {
        let delivery = player.claim_one(queue).await;
        assert_eq!(delivery.attempt, 1);
        player.finish(&delivery).await.unwrap();
    }
    assert_eq!(effects(&fixture).await, 3);
}
