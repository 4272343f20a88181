//! Publishing to exchanges, by a client and by an action: through which broker, in which transaction, and who hears of it.

use std::time::Duration;

use ichido::{
    CancellationToken, Client, Context, Error, Inspect, Outcome, Pool, Process, Queue, Relay, Result,
    broker::{Broker, Outgoing, Received, Settlement, Source, Unpublished},
    store::{Database, Outbox, Transactions},
    testing::Run,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    cases::broker_rows::{leased, publish_all, rows, send_one, unsent},
    fixture::Fixture,
    in_time,
};

/// One broker, and a queue of ichido's own.
fn with_one_broker() -> Vec<Queue> {
    leased().into_iter().filter(|queue| &*queue.name != "refund").collect()
}

pub async fn a_client_publishes_through_the_only_or_the_named_broker<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    let client = Client::new(store.clone());
    let mut tx = store.begin().await.unwrap();
    let connection = F::Store::connection(&mut tx);
    let unclear = client.publish(connection, "news", "paid", &json!({})).await;
    assert!(matches!(&unclear, Err(Error::Setup(why)) if why.contains("`paid`, `refund`")), "{unclear:?}");
    let unknown = client.through("mail").publish(connection, "news", "paid", &json!({})).await;
    assert!(matches!(&unknown, Err(Error::Setup(why)) if why.contains("`mail`")), "{unknown:?}");
    let named = client.through("refund").publish(connection, "news", "paid", &json!({"id": 1})).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!((unsent(&store, "refund").await, unsent(&store, "paid").await), (vec![named], Vec::new()));

    let store = fixture.store_with(with_one_broker());
    let client = Client::new(store.clone());
    for commits in [false, true] {
        let mut tx = store.begin().await.unwrap();
        let only = client.publish(F::Store::connection(&mut tx), "news", "paid", &json!({"id": 2})).await.unwrap();
        if commits {
            store.commit(tx).await.unwrap();
            let [published] = &store.unsent("paid", 9).await.unwrap()[..] else { panic!("one is committed") };
            assert_eq!((&published.message.id, &published.message.queue), (&only, &None));
            assert_eq!((&*published.message.exchange, &*published.message.routing_key), ("news", "paid"));
            assert_eq!(published.message.payload, br#"{"id":2}"#);
        } else {
            store.rollback(tx).await.unwrap();
        }
    }
    let none = Client::new(fixture.store());
    let mut tx = store.begin().await.unwrap();
    let nowhere = none.publish(F::Store::connection(&mut tx), "news", "paid", &json!({})).await;
    assert!(matches!(&nowhere, Err(Error::Setup(_))), "{nowhere:?}");
    store.rollback(tx).await.unwrap();
}

/// For how many seconds the oldest of what is unpublished is.
async fn oldest<F: Fixture>(store: &F::Store) -> Option<i64> {
    let overview = store.overview().await.unwrap();
    let paid = overview.queues.into_iter().find(|queue| queue.queue == "paid").expect("a queue");
    paid.outbox.expect("a broker keeps it").oldest_seconds
}

/// An alarm on its age must go off in an outage, in which it is tried again and again.
pub async fn what_is_unpublished_is_as_old_as_its_send<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    let key = send_one(&store, "paid").await;
    let long_ago = "update ichido_outbox set created_at = '2020-01-01T00:00:00.000'";
    fixture.sql(long_ago).await;
    for _ in 0..2 {
        let [unsent] = &store.unsent("paid", 9).await.unwrap()[..] else { panic!("it is due") };
        store.note_unpublished("paid", unsent, "away", Duration::ZERO).await.unwrap();
        assert!(oldest::<F>(&store).await >= Some(3600), "{:?}", oldest::<F>(&store).await);
        assert_eq!(store.publish_again("paid", std::slice::from_ref(&key), 1).await.unwrap(), 1);
        assert!(oldest::<F>(&store).await >= Some(3600), "an operator makes it no younger");
    }
    publish_all(&store, "paid").await;
    assert_eq!(oldest::<F>(&store).await, None);
    // What is published again is due since then, and not since it was first sent.
    fixture.sql(long_ago).await;
    assert_eq!(store.publish_again("paid", &[key], 1).await.unwrap(), 1);
    assert!(oldest::<F>(&store).await < Some(3600), "{:?}", oldest::<F>(&store).await);
}

/// Publishes its message, and fails if that says so.
async fn announce<F: Fixture>(cx: &mut Context<F::Store>, message: Value) -> Result<Outcome> {
    cx.publish("news", "mail.sent", &message).await?;
    Ok(if message["fails"] == true { Outcome::park("it says so") } else { Outcome::Done })
}

pub async fn what_an_action_publishes_goes_out_only_if_it_is_done<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(with_one_broker());
    let ran = Run::new(store.clone()).from("mail").message(&json!({"id": 1})).action_fn(announce::<F>).await;
    ran.assert_sent("news/mail.sent").with(&json!({"id": 1})).once();
    ran.roll_back().await;
    assert_eq!(rows(&fixture).await, (0, 0));
    let client = Client::new(store.clone());
    let mut tx = store.begin().await.unwrap();
    let messages = [json!({"id": 1, "fails": true}), json!({"id": 2})];
    client.queue("mail").send_all(F::Store::connection(&mut tx), &messages).await.unwrap();
    store.commit(tx).await.unwrap();
    let process = Process::new(store.clone()).action_fn(Pool::new("mail"), announce::<F>).drain();
    assert_eq!(process.run().await.unwrap(), 0);
    let published = store.unsent("paid", 9).await.unwrap();
    let payloads: Vec<_> = published.iter().map(|unsent| String::from_utf8_lossy(&unsent.message.payload)).collect();
    assert_eq!(payloads, [r#"{"id":2}"#]);
}

/// A broker that tells what it is given, hands out nothing, and says that it has so many.
pub(super) struct Told {
    pub(super) tell: mpsc::UnboundedSender<Outgoing>,
    pub(super) depths: Option<ichido::broker::Depths>,
}

pub(super) struct Nothing;

impl Broker for Told {
    type Source = Nothing;

    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        messages
            .iter()
            .map(|message| self.tell.send(message.clone()).map_err(|_| Unpublished::Unsent(String::new())))
            .collect()
    }

    fn receive(&self, _: u16) -> Nothing {
        Nothing
    }

    async fn depths(&self) -> Result<ichido::broker::Depths, String> {
        self.depths.ok_or_else(|| "nobody asks".into())
    }
}

impl Source for Nothing {
    fn is_open(&self) -> bool {
        true
    }

    fn prefetch(&self) -> u16 {
        1
    }

    fn try_next(&self) -> Option<Received> {
        None
    }

    async fn changed(&self) {
        std::future::pending::<()>().await;
    }

    fn is_current(&self, _: u64) -> bool {
        false
    }

    async fn settle(&self, _: u64, _: Settlement) -> Result<(), Unpublished> {
        Ok(())
    }

    async fn close(&self) {}
}

pub async fn a_relay_wakes_up_when_something_is_published<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(with_one_broker());
    let (tell, mut told) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let relay = Relay::new(store.clone()).broker("paid", Told { tell, depths: None }).poll(Duration::from_hours(1));
    let relay = tokio::spawn(relay.run(stop.clone()));
    let client = Client::new(store.clone());
    // The first may be seen by the relay's first look; the others only if somebody tells.
    for id in 1..=3 {
        let mut tx = store.begin().await.unwrap();
        let connection = F::Store::connection(&mut tx);
        let published = client.publish(connection, "news", "paid", &json!({"id": id})).await.unwrap();
        store.commit(tx).await.unwrap();
        let heard = in_time("the relay wakes up", told.recv()).await.unwrap();
        assert_eq!(heard.id, published);
    }
    stop.cancel();
    relay.await.unwrap();
    assert_eq!(rows(&fixture).await, (0, 0), "what has arrived is forgotten");
}
