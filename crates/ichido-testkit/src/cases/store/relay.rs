//! The outbox: what was sent to brokers is published after commit, in order, by one relay at a time, and until it has arrived.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use ichido::{
    Error, Guarded, Inspect, NewMessage, Queue, Relay,
    broker::{AnyBroker, Broker, Depths, OutboxState, Outgoing, Publication, Unpublished},
    store::{Database, Failure, Mutexes, Outbox, ProcessId, Queues, Stats, Transactions},
};

use tokio::sync::mpsc;

use super::publications::{Nothing, Told};
use crate::{
    cases::broker_rows::{BODY, join, leased, publish_all, rows, send_all, send_one, unsent},
    eventually,
    faults::{Faults, FaultyStore, Verb},
    fixture::{Fixture, Player},
    in_time,
};

const HOUR: Duration = Duration::from_hours(1);

fn publication(payload: &[u8]) -> Publication {
    Publication {
        exchange: "news".into(),
        routing_key: "order.paid".into(),
        headers: [("lang".to_owned(), "日本語".to_owned())].into(),
        payload: payload.to_vec(),
    }
}

/// What operators see of a queue's outbox.
async fn outbox<F: Fixture>(store: &F::Store, queue: &str) -> Option<OutboxState> {
    let overview = store.overview().await.unwrap();
    overview.queues.into_iter().find(|counts| counts.queue == queue).unwrap().outbox
}

pub async fn what_is_rolled_back_is_never_there<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    let mut tx = store.begin().await.unwrap();
    let connection = F::Store::connection(&mut tx);
    store.send(connection, "paid", &[NewMessage::new("{}"), NewMessage::new("{}").delay(HOUR)]).await.unwrap();
    store.publish(connection, "paid", &[publication(b"{}")]).await.unwrap();
    assert_eq!(unsent(&fixture.store_with(leased()), "paid").await, [""; 0], "nobody sees it before its commit");
    store.rollback(tx).await.unwrap();
    assert_eq!(rows(&fixture).await, (0, 0));
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
    assert_eq!(unsent(&store, "paid").await, [""; 0]);
}

pub async fn what_is_committed_is_handed_to_the_relay_whole_and_in_order<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    let payloads: [&[u8]; 3] = [b"{\"id\":1}", "{\"name\":\"\\u0000 日本 🦀\"}".as_bytes(), b"\xff\xfe\x00'\\"];
    let messages = payloads.map(|payload| {
        let mut message = NewMessage::new(payload);
        message.headers = [("trace".to_owned(), "a'b\\c".to_owned())].into();
        message
    });
    let mut tx = store.begin().await.unwrap();
    let connection = F::Store::connection(&mut tx);
    let sent = store.send(connection, "paid", &messages).await.unwrap();
    let bare = publication(b"\xc3\x28\x00\xff");
    let published = store.publish(connection, "paid", &[bare.clone(), bare.clone()]).await.unwrap();
    store.send(connection, "refund", &messages[..1]).await.unwrap();
    store.commit(tx).await.unwrap();
    let origin = store.guard("paid").await.unwrap().origin;
    assert!(!origin.is_empty());
    assert_eq!(fixture.store_with(leased()).guard("refund").await.unwrap().origin, origin, "the database has one name");
    let guarded = sent.iter().zip(&messages).map(|(id, message)| Outgoing {
        edition: 0,
        id: id.key.columns()[0].clone(),
        origin: origin.clone(),
        queue: Some("paid".into()),
        exchange: "shop".into(),
        routing_key: "paid.eu".into(),
        headers: message.headers.clone(),
        payload: message.payload.clone(),
    });
    let unguarded = published.iter().map(|id| Outgoing {
        edition: 0,
        id: id.clone(),
        origin: origin.clone(),
        queue: None,
        exchange: bare.exchange.clone(),
        routing_key: bare.routing_key.clone(),
        headers: bare.headers.clone(),
        payload: bare.payload.clone(),
    });
    let found = store.unsent("paid", 100).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|unsent| (unsent.attempts, unsent.message)).collect();
    assert_eq!(found, guarded.chain(unguarded).map(|message| (0, message)).collect::<Vec<_>>());
    assert_eq!(store.unsent("paid", 2).await.unwrap().len(), 2);
    assert_eq!(rows(&fixture).await, (4, 6));
}

pub async fn many_messages_are_published_in_the_order_of_their_sends<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    let messages: Vec<_> = (0..1201).map(|id| NewMessage::new(format!(r#"{{"id":{id}}}"#))).collect();
    let sent: Vec<_> = send_all(&store, "paid", &messages).await.iter().map(ToString::to_string).collect();
    let found = store.unsent("paid", 2000).await.unwrap();
    assert_eq!(found.iter().map(|unsent| unsent.message.id.clone()).collect::<Vec<_>>(), sent);
    for (unsent, message) in found.iter().zip(&messages) {
        assert_eq!(unsent.message.payload, message.payload);
    }
}

pub async fn what_cannot_be_published_or_has_no_place_there_is_refused<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    let mut tx = store.begin().await.unwrap();
    let connection = F::Store::connection(&mut tx);
    let long = Publication { routing_key: "k".repeat(256), ..publication(b"{}") };
    for refused in [publication(&[b'x'; 1001]), long] {
        let error = store.publish(connection, "paid", &[publication(b"{}"), refused]).await;
        assert!(matches!(error, Err(Error::Refused(_))), "{error:?}");
    }
    for message in [NewMessage::new("{}").unique("one"), NewMessage::new("{}").group("one")] {
        let error = store.send(connection, "paid", &[NewMessage::new("{}"), message]).await;
        assert!(matches!(&error, Err(Error::Refused(why)) if why.contains("managed queues")), "{error:?}");
    }
    let error = store.publish(connection, "mail", &[publication(b"{}")]).await;
    assert!(matches!(&error, Err(Error::Setup(why)) if why.contains("`mail`")), "{error:?}");
    let error = store.guard("mail").await.map(|guard| guard.origin);
    assert!(matches!(&error, Err(Error::Setup(why)) if why.contains("`mail`")), "{error:?}");
    store.commit(tx).await.unwrap();
    assert_eq!(rows(&fixture).await, (0, 0), "what stood beside it is not sent either");
}

pub async fn one_relay_at_a_time_has_the_turn<F: Fixture>() {
    let fixture = F::fresh().await;
    let queues = |lasts: Duration| vec![Queue::broker("paid", Guarded::new("shop", "paid").lease().relay_after(lasts))];
    let (store, hasty) = (fixture.store_with(queues(HOUR)), fixture.store_with(queues(Duration::ZERO)));
    let [first, second] = [ProcessId::random(), ProcessId::random()];
    assert!(store.take_relay_lease(first, "paid").await.unwrap());
    assert!(!store.take_relay_lease(second, "paid").await.unwrap());
    assert!(store.take_relay_lease(first, "paid").await.unwrap(), "who has it keeps it");
    store.release_relay_lease(second, "paid").await.unwrap();
    assert!(!store.take_relay_lease(second, "paid").await.unwrap(), "nobody leaves it for another");
    store.release_relay_lease(first, "paid").await.unwrap();
    assert!(store.take_relay_lease(second, "paid").await.unwrap());
    // From here on it lasts no time at all.
    assert!(hasty.take_relay_lease(second, "paid").await.unwrap());
    assert!(store.take_relay_lease(first, "paid").await.unwrap(), "it is over after its time");
    assert!(!store.take_relay_lease(second, "paid").await.unwrap());
}

pub async fn of_many_relays_that_want_the_turn_at_once_one_gets_it<F: Fixture>() {
    let fixture = F::fresh().await;
    let wanting = (0..8).map(|_| {
        let store = fixture.store_with(leased());
        tokio::spawn(async move { store.take_relay_lease(ProcessId::random(), "paid").await.unwrap() })
    });
    let mut taken = 0;
    for relay in wanting.collect::<Vec<_>>() {
        taken += u32::from(relay.await.unwrap());
    }
    assert_eq!(taken, 1);
}

pub async fn what_has_arrived_is_not_published_again<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    let mut tx = store.begin().await.unwrap();
    let connection = F::Store::connection(&mut tx);
    store.send(connection, "paid", &[NewMessage::new("{}"), NewMessage::new("{}")]).await.unwrap();
    store.publish(connection, "paid", &[publication(b"{}"), publication(b"{}")]).await.unwrap();
    store.commit(tx).await.unwrap();
    let all = store.unsent("paid", 100).await.unwrap();
    store.note_published("paid", &[&all[0], &all[2]]).await.unwrap();
    assert_eq!(unsent(&store, "paid").await, [all[1].message.id.clone(), all[3].message.id.clone()]);
    assert_eq!(rows(&fixture).await, (2, 3), "a message with a mutex stays until it is done");
    store.note_published("paid", &all.iter().collect::<Vec<_>>()).await.unwrap();
    assert_eq!(unsent(&store, "paid").await, [""; 0]);
    assert_eq!(rows(&fixture).await, (2, 2));
    store.note_published("paid", &[]).await.unwrap();
}

pub async fn a_late_confirm_does_not_swallow_a_retry<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let store = &process.store;
    let key = send_one(store, "paid").await;
    let before = store.unsent("paid", 1).await.unwrap();
    let delivery = process.take("paid", &key).await;
    assert!(store.park(&delivery, &Failure::waiting("not yet", 1, Duration::ZERO)).await.unwrap());
    assert_eq!(store.return_due(&process.registration).await.unwrap(), 1);
    store.note_published("paid", &[&before[0]]).await.unwrap();
    store.note_unpublished("paid", &before[0], "an old story", HOUR).await.unwrap();
    let again = store.unsent("paid", 1).await.unwrap();
    assert_eq!((again[0].number, again[0].edition), (before[0].number, before[0].edition + 1));
    assert_eq!(again[0].message, Outgoing { edition: again[0].edition, ..before[0].message.clone() });
    store.note_published("paid", &[&again[0]]).await.unwrap();
    assert_eq!(unsent(store, "paid").await, [""; 0]);
}

pub async fn what_did_not_arrive_is_put_off_and_operators_see_it<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    assert_eq!(outbox::<F>(&store, "mail").await, None, "no broker keeps it");
    assert_eq!(outbox::<F>(&store, "paid").await, Some(OutboxState::default()));
    send_one(&store, "paid").await;
    assert_eq!(outbox::<F>(&store, "paid").await.unwrap().unpublished, 1);
    assert_eq!(store.count("paid").await.unwrap().unwrap().unpublished, Some(1));
    let first = store.unsent("paid", 1).await.unwrap().remove(0);
    store.note_unpublished("paid", &first, "nobody is bound to 'it'", Duration::ZERO).await.unwrap();
    let again = store.unsent("paid", 1).await.unwrap().remove(0);
    assert_eq!((again.attempts, &again.message), (1, &first.message));
    let now = outbox::<F>(&store, "paid").await.unwrap();
    assert_eq!((now.unpublished, now.error.as_deref()), (1, Some("nobody is bound to 'it'")));
    assert!(now.oldest_seconds.is_some_and(|seconds| seconds < 600), "{now:?}");
    store.note_unpublished("paid", &first, "still nobody", HOUR).await.unwrap();
    assert_eq!(unsent(&store, "paid").await, [""; 0], "it is put off");
    let later = outbox::<F>(&store, "paid").await.unwrap();
    assert_eq!((later.unpublished, later.error.as_deref()), (1, Some("still nobody")));
    store.note_published("paid", &[&first]).await.unwrap();
    assert_eq!(outbox::<F>(&store, "paid").await, Some(OutboxState::default()));
}

pub async fn a_delayed_message_is_published_when_it_is_due<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = join(&fixture).await;
    let store = &process.store;
    let messages = [NewMessage::new(BODY).delay(HOUR), NewMessage::new(BODY), NewMessage::new(BODY).at(UNIX_EPOCH)];
    let keys = send_all(store, "paid", &messages).await;
    assert_eq!(unsent(store, "paid").await, [keys[1].to_string()]);
    assert_eq!(outbox::<F>(store, "paid").await.unwrap().unpublished, 1);
    assert_eq!(rows(&fixture).await, (3, 3));
    assert_eq!(store.return_due(&process.registration).await.unwrap(), 1);
    assert_eq!(unsent(store, "paid").await, [keys[1].to_string(), keys[2].to_string()]);
    assert_eq!(process.take("paid", &keys[2]).await.attempt, 1);
}

pub async fn who_looks_around_sees_what_is_to_be_published<F: Fixture>() {
    let fixture = F::fresh().await;
    let Player { store, .. } = join(&fixture).await;
    send_one(&store, "paid").await;
    assert!(!store.any_unsent(&[].into()).await.unwrap(), "it publishes for nobody");
    assert!(!store.any_unsent(&["refund".into()].into()).await.unwrap(), "not for this queue");
    let both = ["paid".into(), "refund".into()].into();
    assert!(store.any_unsent(&both).await.unwrap());
    publish_all(&store, "paid").await;
    send_all(&store, "paid", &[NewMessage::new("{}").delay(HOUR)]).await;
    assert!(!store.any_unsent(&both).await.unwrap());
}

/// Payloads are read by whoever has the lease, and by nobody else.
pub async fn a_relay_without_the_lease_reads_no_payload<F: Fixture>() {
    let fixture = F::fresh().await;
    let (store, faults) = (fixture.store_with(leased()), Arc::<Faults>::default());
    let (tell, mut told) = mpsc::unbounded_channel();
    let relay = Relay::new(FaultyStore::new(store.clone(), faults.clone())).broker("paid", Told { tell, depths: None });
    assert_eq!(relay.flush().await.unwrap().published, 0);
    assert_eq!(faults.begun(Verb::Unsent), 0, "there is nothing to be read");
    send_one(&store, "paid").await;
    let other = ProcessId::random();
    assert!(store.take_relay_lease(other, "paid").await.unwrap());
    assert!(relay.flush().await.unwrap().elsewhere);
    assert_eq!(faults.begun(Verb::Unsent), 0, "it is another's to publish");
    store.release_relay_lease(other, "paid").await.unwrap();
    assert_eq!(relay.flush().await.unwrap().published, 1);
    assert!(told.try_recv().is_ok());
}

/// A relay asks whether something may be missing by taking its lease; where nothing circulates, it writes nothing.
pub async fn where_nothing_was_published_nobody_takes_the_lease<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store_with(leased());
    assert!(!store.any_circulating("paid").await.unwrap());
    send_one(&store, "paid").await;
    assert!(!store.any_circulating("paid").await.unwrap(), "it is not with the broker yet");
    publish_all(&store, "paid").await;
    assert!(store.any_circulating("paid").await.unwrap());
    assert!(!store.any_circulating("refund").await.unwrap());
    // A database may count in milliseconds.
    eventually("it was published some time ago", async || {
        store.circulating("paid", Duration::ZERO, 10).await.unwrap().old.len() == 1
    })
    .await;
}

/// A broker that asks for ten messages at a time, and after so many calls takes what it is given without a word.
struct Falling {
    told: Told,
    answers: AtomicUsize,
}

impl Broker for Falling {
    type Source = Nothing;

    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Unpublished>> {
        let fates = self.told.publish(messages).await;
        if self.answers.fetch_sub(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        fates
    }

    fn at_a_time(&self) -> usize {
        10
    }

    fn receive(&self, _: u16) -> Nothing {
        Nothing
    }

    async fn depths(&self) -> Result<Depths, String> {
        self.told.depths().await
    }
}

pub async fn a_relay_that_dies_repeats_one_call_to_the_broker_at_most<F: Fixture>() {
    let fixture = F::fresh().await;
    // A lease that lasts no time: the other relay need not wait for the end of the dead one's.
    let rules = Guarded::new("shop", "paid").lease().relay_after(Duration::ZERO);
    let store = fixture.store_with(vec![Queue::broker("paid", rules)]);
    send_all(&store, "paid", &vec![NewMessage::new("{}"); 100]).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let falling = Falling { told: Told { tell: tell.clone(), depths: None }, answers: AtomicUsize::new(2) };
    let relay = Relay::new(store.clone()).broker("paid", AnyBroker::new(falling));
    let dying = tokio::spawn(async move { relay.flush().await });
    for _ in 0..30 {
        in_time("a message is published", told.recv()).await.expect("the relay publishes");
    }
    dying.abort();
    assert!(dying.await.is_err(), "it has died");
    let other = Relay::new(store).broker("paid", Told { tell, depths: None });
    assert_eq!(other.flush().await.unwrap().published, 80, "of a hundred, two calls were noted");
    assert_eq!(told.len(), 80);
}
