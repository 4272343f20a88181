//! What the cases about brokers' messages need: queues that a broker keeps, without a broker, and processes that are handed
//! messages as a broker hands them out.

use ichido::{
    Delivery, Guarded, Key, Message, NewMessage, Queue, Store,
    broker::{Found, Standing},
    message::Claim,
    store::Mutexes,
};

use crate::fixture::{Fixture, Player};

/// A queue that a broker keeps, and one whose busy deliveries go to the dead letters; both held by owners.
pub(crate) fn leased() -> Vec<Queue> {
    let strict = Guarded::new("shop", "refund.eu").lease().dead_letter_busy();
    vec![
        Queue::broker("paid", Guarded::new("shop", "paid.eu").queue("paid-orders").lease()).payload_limit(1000),
        Queue::broker("refund", strict),
        Queue::managed("mail"),
    ]
}

/// A process that is handed the messages of both.
pub(crate) async fn join<F: Fixture>(fixture: &F) -> Player<F> {
    Player::join_with(fixture.store_with(leased()), &["paid", "refund"]).await
}

/// Sends messages in a transaction of its own.
pub(crate) async fn send_all<S: Store>(store: &S, queue: &str, messages: &[NewMessage]) -> Vec<Key> {
    let mut tx = store.begin().await.unwrap();
    let ids = store.send(S::connection(&mut tx), queue, messages).await.expect("messages can be sent");
    store.commit(tx).await.unwrap();
    ids.into_iter().map(|id| id.key).collect()
}

/// Sends one.
pub(crate) async fn send_one<S: Store>(store: &S, queue: &str) -> Key {
    send_all(store, queue, &[NewMessage::new(BODY)]).await.remove(0)
}

/// What the relay has to publish, by id.
pub(crate) async fn unsent<S: Store>(store: &S, queue: &str) -> Vec<String> {
    store.unsent(queue, 100).await.unwrap().into_iter().map(|unsent| unsent.message.id).collect()
}

/// The relay has published all that it has to.
pub(crate) async fn publish_all<S: Store>(store: &S, queue: &str) {
    let unsent = store.unsent(queue, 100).await.unwrap();
    store.note_published(queue, &unsent.iter().collect::<Vec<_>>()).await.unwrap();
}

/// How many mutexes there are, and how many rows in the outbox.
pub(crate) async fn rows<F: Fixture>(fixture: &F) -> (i64, i64) {
    let mutexes = fixture.number("select count(*) from ichido_mutex").await;
    (mutexes, fixture.number("select count(*) from ichido_outbox").await)
}

/// The body of every message here.
pub(crate) const BODY: &str = r#"{"id":1}"#;

/// A message of the queue, as a broker hands it out.
pub(crate) fn handed_out(queue: &str, key: &Key) -> Delivery {
    Delivery::unclaimed(Message::new(queue, key.clone(), BODY.as_bytes()))
}

/// Several.
pub(crate) fn all_handed_out(queue: &str, keys: &[Key]) -> Vec<Message> {
    keys.iter().map(|key| handed_out(queue, key).message).collect()
}

/// The same, with its row held.
pub(crate) fn held(queue: &str, key: &Key, by: ichido::store::ProcessId, standing: Standing, locked: bool) -> Delivery {
    let claim = Claim { owner: by, parked: standing.parked, suspect: standing.suspect, group: None, locked };
    Delivery::claimed(handed_out(queue, key).message, claim, standing.failures)
}

impl<F: Fixture> Player<F> {
    /// What is found of messages that a broker handed out.
    pub(crate) async fn find(&self, queue: &str, keys: &[Key]) -> Vec<Found> {
        let messages = all_handed_out(queue, keys);
        self.store.claim_these(self.registration.id, queue, &messages).await.expect("a live process can claim")
    }

    /// Claims a message that a broker handed out.
    pub(crate) async fn take(&self, queue: &str, key: &Key) -> Delivery {
        match self.find(queue, std::slice::from_ref(key)).await[..] {
            [Found::Free(standing)] => held(queue, key, self.registration.id, standing, false),
            ref other => panic!("{queue}/{key} is not to be had: {other:?}"),
        }
    }
}
