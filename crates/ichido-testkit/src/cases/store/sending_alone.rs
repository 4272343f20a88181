//! Sending without a transaction of one's own, and what a message brings along beside its payload.

use std::{sync::Arc, time::Duration};

use ichido::{Client, Error, NewMessage, message::UnknownCommit};

use crate::{
    eventually,
    faults::{Fault, Faults, FaultyStore, Verb},
    fixture::{Fixture, Player},
};

const MESSAGES: &str = "select count(*) from ichido_message";

pub async fn what_is_sent_alone_is_committed_when_it_returns<F: Fixture>() {
    let fixture = F::fresh().await;
    let client = Client::new(fixture.store());
    let id = client.queue("mail").header("tenant", "日本").send_and_commit(&"a").await.unwrap();
    assert_eq!(fixture.number(MESSAGES).await, 1);
    let delivery = Player::join(&fixture).await.claim_one("mail").await;
    assert_eq!((delivery.message.id(), &*delivery.message.payload), (id, &b"\"a\""[..]));
    assert_eq!(delivery.message.headers["tenant"], "日本");
    let ids = client.queue("mail").delay(Duration::from_hours(1)).send_all_and_commit(&["b", "c"]).await.unwrap();
    assert_eq!((ids.len(), fixture.number(MESSAGES).await), (2, 3));
    assert_eq!(fixture.number("select count(*) from ichido_parked where state = 'waiting'").await, 2);
}

pub async fn of_several_sent_alone_all_are_sent_or_none<F: Fixture>() {
    let fixture = F::fresh().await;
    let client = Client::new(fixture.store());
    let long = "x".repeat(2000);
    let refused = client.queue("mail").send_all_and_commit(&["a", &long]).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused(text) if text.contains("over the limit")), "{refused}");
    assert_eq!(fixture.number(MESSAGES).await, 0);
    client.queue("mail").send_and_commit(&"a").await.unwrap();
}

pub async fn an_unknown_commit_says_so_and_a_unique_key_makes_it_safe<F: Fixture>() {
    for fault in [Fault::Unreachable, Fault::ReplyLost] {
        let fixture = F::fresh().await;
        let faults = Arc::new(Faults::default());
        let client = Client::new(FaultyStore::new(fixture.store(), faults.clone()));
        let sender = client.queue("mail").unique("welcome/42");
        faults.inject(Verb::Commit, fault, 1);
        let error = sender.send_and_commit(&1).await.unwrap_err();
        assert!(error.is_transient::<FaultyStore<F::Store>>(), "{error}");
        let Error::Failed(cause) = &error else { panic!("{error}") };
        assert!(
            cause.is::<UnknownCommit>() && error.to_string().contains("the outcome of COMMIT is unknown"),
            "{error}"
        );
        eventually("the transaction has ended", async || sender.send_and_commit(&1).await).await;
        assert_eq!(fixture.number(MESSAGES).await, 1, "sent once, whatever became of the first");
    }
}

/// A caller that is dropped half-way, as a request that times out.
pub async fn a_dropped_send_comes_to_its_end<F: Fixture>() {
    let fixture = F::fresh().await;
    let faults = Arc::new(Faults::default());
    let client = Client::new(FaultyStore::new(fixture.store(), faults.clone()));
    faults.hold(Verb::Commit);
    let dropped = tokio::spawn(async move { client.queue("mail").send_and_commit(&1).await });
    faults.has_begun(Verb::Commit, 1).await;
    dropped.abort();
    assert!(dropped.await.is_err_and(|error| error.is_cancelled()));
    faults.resume(Verb::Commit);
    faults.has_ended(Verb::Commit, 1).await;
    assert_eq!(fixture.number(MESSAGES).await, 1);
}

pub async fn what_a_queue_has_no_place_for_is_refused<F: Fixture>() {
    let fixture = F::fresh().await;
    let client = Client::new(fixture.store());
    let order = serde_json::json!({"id": 1});
    let refused = async |message: NewMessage, parts: &[&str]| {
        let mut sender = client.queue("orders");
        sender = message.headers.iter().fold(sender, |sender, (name, value)| sender.header(name, value));
        sender = message.attempts.into_iter().fold(sender, ichido::Sender::attempts);
        let error = sender.send_and_commit(&order).await.unwrap_err();
        assert!(matches!(&error, Error::Refused(text) if parts.iter().all(|part| text.contains(part))), "{error}");
    };
    refused(NewMessage::new("").header("tenant", "x"), &["`orders` is a table", "no place for headers"]).await;
    refused(NewMessage::new("").attempts(2), &["`orders` is a table", "number of attempts"]).await;
    refused(NewMessage::new("").header("x-ichido-attempts", "2"), &["`x-ichido-attempts` is ichido's own"]).await;
    refused(NewMessage::new("").attempts(0), &["1 to 1000000 attempts, not 0"]).await;
    assert_eq!(fixture.number("select count(*) from received_order").await, 0);
}
