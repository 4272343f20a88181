//! Messages that a broker hands out, where their rows are held by locks: for databases that have row locks.

use std::time::Duration;

use ichido::{
    Delivery, Due, Error, Guarded, Key, MessageId, Messages, NewMessage, Queue,
    action::Terms,
    broker::{Found, Standing},
    inspect::{Changed, Listed, MessageFilter, MessageState},
    store::{
        Audit, By, Cancelled, Cancelling, Database, Failure, Mutexes, Outbox, Processes, Queues, Running, Transactions,
    },
};

use crate::{
    cases::broker_rows::{BODY, handed_out, held, leased, publish_all, rows, send_all, unsent},
    fixture::{Fixture, Player, assert_lost, effect, effects},
    in_time,
};

const FREE: Found = Found::Free(Standing { failures: 0, suspect: false, parked: false });

/// The same queue held by locks, and by owners; and a message in it.
struct Scene<F: Fixture> {
    fixture: F,
    process: Player<F>,
    key: Key,
}

impl<F: Fixture> Scene<F> {
    async fn new() -> Self {
        let fixture = F::fresh().await;
        let queues = vec![Queue::broker("paid", Guarded::new("shop", "paid.eu"))];
        let process = Player::join_with(fixture.store_with(queues), &["paid"]).await;
        let key = send_all(&process.store, "paid", &[NewMessage::new(BODY)]).await.remove(0);
        Scene { fixture, process, key }
    }

    async fn lock(&self, tx: &mut <F::Store as Database>::Tx, key: &Key) -> Found {
        let delivery = handed_out("paid", key);
        let lock = self.process.store.lock(tx, &delivery);
        in_time("nobody waits for a lock", lock).await.expect("a lock is had or not")
    }

    /// Begins with the lock.
    async fn begin(&self, key: &Key) -> (<F::Store as Database>::Tx, Found) {
        let delivery = handed_out("paid", key);
        let begin = self.process.store.begin_locked(Terms::default(), &delivery);
        in_time("nobody waits for a lock", begin).await.expect("a lock is had or not")
    }

    /// What is found when it is locked for a moment, in whichever way.
    async fn find(&self, key: &Key) -> Found {
        let mut tx = self.process.store.begin().await.unwrap();
        let found = self.lock(&mut tx, key).await;
        self.process.store.rollback(tx).await.unwrap();
        let (tx, begun) = self.begin(key).await;
        self.process.store.rollback(tx).await.unwrap();
        assert_eq!(begun, found, "the beginning of a transaction finds the same");
        found
    }

    fn delivery(&self) -> Delivery {
        let Scene { process, key, .. } = self;
        held("paid", key, process.registration.id, Standing::default(), true)
    }

    /// A transaction that holds the row, and has had its effect.
    async fn at_work(&self) -> <F::Store as Database>::Tx {
        let (mut tx, found) = self.begin(&self.key).await;
        assert_eq!(found, FREE);
        effect::<F>(F::Store::connection(&mut tx), &self.delivery().message).await.unwrap();
        tx
    }
}

pub async fn a_locked_message_is_done_with_its_effect<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let mut tx = scene.at_work().await;
    store.complete(&mut tx, &[scene.delivery()]).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!((rows(&scene.fixture).await, effects(&scene.fixture).await), ((0, 0), 1));
    assert_eq!(scene.find(&scene.key).await, Found::Nothing);
    let mut tx = store.begin().await.unwrap();
    assert_lost(&store.complete(&mut tx, &[scene.delivery()]).await);
    store.rollback(tx).await.unwrap();
}

pub async fn who_is_handed_what_another_has_locked_finds_it_busy_at_once<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let other = Player::<F>::join_with(scene.fixture.store_with(leased()), &["paid"]).await;
    let tx = scene.at_work().await;
    assert_eq!(scene.find(&scene.key).await, Found::Busy);
    assert_eq!(other.find("paid", std::slice::from_ref(&scene.key)).await, [Found::Busy]);
    assert!(!scene.process.store.is_drained("paid").await.unwrap());
    scene.process.store.rollback(tx).await.unwrap();
    assert_eq!(scene.find(&scene.key).await, FREE, "nothing is left of a lock");
    assert_eq!((rows(&scene.fixture).await, effects(&scene.fixture).await), ((1, 1), 0));
}

pub async fn a_lock_is_not_for_another_body<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let mut forged = handed_out("paid", &scene.key);
    forged.message.payload = br#"{"id":666}"#.as_slice().into();
    let mut tx = store.begin().await.unwrap();
    assert_eq!(store.lock(&mut tx, &forged).await.unwrap(), Found::Another);
    store.rollback(tx).await.unwrap();
    let (tx, found) = store.begin_locked(Terms::default(), &forged).await.unwrap();
    assert_eq!(found, Found::Another);
    store.rollback(tx).await.unwrap();
    assert_eq!(scene.find(&scene.key).await, FREE, "the genuine one is to be had");
    scene.fixture.sql("update ichido_mutex set hash = null").await;
    let (tx, found) = store.begin_locked(Terms::default(), &forged).await.unwrap();
    assert_eq!(found, FREE, "without a hash nobody can tell");
    store.rollback(tx).await.unwrap();
}

pub async fn a_lock_on_one_row_is_on_no_other<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let others = send_all(store, "paid", &vec![NewMessage::new(BODY); 3]).await;
    publish_all(store, "paid").await;
    let owner = Player::<F>::join_with(scene.fixture.store_with(leased()), &["paid"]).await;
    let mut tx = scene.at_work().await;
    store.complete(&mut tx, &[scene.delivery()]).await.unwrap();
    for key in &others[..2] {
        assert_eq!(scene.find(key).await, FREE);
    }
    owner.finish(&owner.take("paid", &others[0]).await).await.unwrap();
    let failure = Failure::waiting("not yet", 1, Duration::ZERO);
    assert!(owner.store.park(&owner.take("paid", &others[1]).await, &failure).await.unwrap());
    assert_eq!(owner.store.return_due(&owner.registration).await.unwrap(), 1);
    owner.take("paid", &others[2]).await;
    owner.store.deregister(owner.registration.id).await.unwrap();
    assert_eq!(scene.find(&others[2]).await, FREE);
    store.commit(tx).await.unwrap();
    assert_eq!(rows(&scene.fixture).await, (2, 2));
}

pub async fn what_a_lock_finds_says_what_becomes_of_a_delivery<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let owner = Player::<F>::join_with(scene.fixture.store_with(leased()), &["paid", "refund"]).await;
    let store = &owner.store;
    let keys = send_all(store, "paid", &vec![NewMessage::new(BODY); 5]).await;
    let [done, waiting, dead, busy, released] = &keys[..] else { panic!("five were sent") };
    owner.finish(&owner.take("paid", done).await).await.unwrap();
    let later = Failure::waiting("not yet", 2, Duration::from_hours(1));
    assert!(store.park(&owner.take("paid", waiting).await, &later).await.unwrap());
    assert!(store.park(&owner.take("paid", dead).await, &Failure::dead("never", 3)).await.unwrap());
    owner.take("paid", busy).await;
    let soon = Failure::waiting("not yet", 1, Duration::ZERO);
    assert!(store.park(&owner.take("paid", released).await, &soon).await.unwrap());
    assert_eq!(store.return_due(&owner.registration).await.unwrap(), 1);
    scene.fixture.sql("insert into ichido_mutex (id, queue) values ('it''s $1 \"; --', 'paid')").await;
    let elsewhere = send_all(store, "refund", &[NewMessage::new(BODY)]).await.remove(0);
    let again = Found::Free(Standing { failures: 1, suspect: false, parked: true });
    let expected = [
        (done, Found::Nothing),
        (waiting, Found::Waiting),
        (dead, Found::Failed),
        (busy, Found::Busy),
        (released, again),
        (&elsewhere, Found::Nothing),
        (&Key::new([format!("{released} ")]), Found::Nothing),
        (&Key::new(["a/b%\0'"]), Found::Nothing),
        (&Key::new(["it's $1 \"; --"]), FREE),
        (&Key::new(["it's $1 \\\"; --"]), Found::Nothing),
        (&scene.key, FREE),
    ];
    for (key, found) in expected {
        assert_eq!(scene.find(key).await, found);
    }
    let mut tx = scene.process.store.begin().await.unwrap();
    assert_eq!(scene.lock(&mut tx, released).await, again);
    let standing = Standing { failures: 1, suspect: false, parked: true };
    let delivery = held("paid", released, scene.process.registration.id, standing, true);
    scene.process.store.complete(&mut tx, &[delivery]).await.unwrap();
    scene.process.store.commit(tx).await.unwrap();
    let forgotten = "select count(*) from ichido_parked where queue = 'paid' and state = 'released'";
    assert_eq!(scene.fixture.number(forgotten).await, 0, "what was known about it goes with it");
}

pub async fn a_lock_does_not_complete_a_row_that_was_taken_away<F: Fixture>() {
    let owner = ichido::store::ProcessId::random();
    for take in ["delete from ichido_mutex".to_owned(), format!("update ichido_mutex set owner = '{owner}'")] {
        let scene = Scene::<F>::new().await;
        let store = &scene.process.store;
        let mut tx = scene.at_work().await;
        F::through(F::Store::connection(&mut tx), take).await.unwrap();
        assert_lost(&store.complete(&mut tx, &[scene.delivery()]).await);
        store.rollback(tx).await.unwrap();
        assert_eq!((rows(&scene.fixture).await, effects(&scene.fixture).await), ((1, 1), 0));
    }
}

pub async fn an_action_that_ends_its_transaction_completes_nothing<F: Fixture>() {
    for end in ["rollback", "commit"] {
        let scene = Scene::<F>::new().await;
        let store = &scene.process.store;
        let mut tx = scene.at_work().await;
        F::through(F::Store::connection(&mut tx), end.into()).await.unwrap();
        let before = effects(&scene.fixture).await;
        let completed = store.complete(&mut tx, &[scene.delivery()]).await;
        assert!(matches!(completed, Err(Error::BrokenTransaction(_))), "{end}: {completed:?}");
        store.rollback(tx).await.unwrap();
        assert_eq!((rows(&scene.fixture).await, effects(&scene.fixture).await), ((1, 1), before), "{end}");
        assert_eq!(scene.find(&scene.key).await, FREE, "{end}");
    }
}

pub async fn a_locked_messages_failure_is_recorded_unless_it_is_taken<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    store.rollback(scene.at_work().await).await.unwrap();
    let failure = Failure::waiting("not yet", 1, Duration::ZERO);
    let tx = scene.at_work().await;
    let parked = in_time("nobody waits for a lock", store.park(&scene.delivery(), &failure)).await;
    assert!(!parked.unwrap(), "whoever is at it now decides");
    store.rollback(tx).await.unwrap();
    assert_eq!(scene.fixture.number("select count(*) from ichido_parked").await, 0);
    assert!(store.park(&scene.delivery(), &failure).await.unwrap());
    assert!(!store.park(&scene.delivery(), &failure).await.unwrap(), "once");
    assert_eq!(scene.find(&scene.key).await, Found::Waiting);
    publish_all(store, "paid").await;
    assert_eq!(store.return_due(&scene.process.registration).await.unwrap(), 1);
    assert_eq!(unsent(store, "paid").await, [scene.key.to_string()]);
}

pub async fn a_locked_messages_failure_is_committed_with_its_transaction<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let failure = Failure::dead("never", 1);
    let mut tx = scene.at_work().await;
    store.fail(&mut tx, &scene.delivery(), &failure).await.unwrap();
    store.rollback(tx).await.unwrap();
    assert_eq!(scene.find(&scene.key).await, FREE);
    let mut tx = scene.at_work().await;
    store.fail(&mut tx, &scene.delivery(), &failure).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!((scene.find(&scene.key).await, effects(&scene.fixture).await), (Found::Failed, 1));
}

pub async fn the_row_tells_whether_a_locked_messages_commit_arrived<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let mut tx = scene.at_work().await;
    store.complete(&mut tx, &[scene.delivery()]).await.unwrap();
    store.rollback(tx).await.unwrap();
    assert!(store.is_claimed(&scene.delivery()).await.unwrap());
    let mut tx = scene.at_work().await;
    store.complete(&mut tx, &[scene.delivery()]).await.unwrap();
    store.commit(tx).await.unwrap();
    assert!(!store.is_claimed(&scene.delivery()).await.unwrap());
}

pub async fn noting_what_is_published_waits_for_no_completion<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let other = send_all(store, "paid", &[NewMessage::new(BODY)]).await.remove(0);
    let all = store.unsent("paid", 9).await.unwrap();
    assert_eq!(all.len(), 2);
    let mut tx = scene.at_work().await;
    store.complete(&mut tx, &[scene.delivery()]).await.unwrap();
    in_time("the relay does not wait", store.note_published("paid", &[&all[0], &all[1]])).await.unwrap();
    store.rollback(tx).await.unwrap();
    assert_eq!(unsent(store, "paid").await, [scene.key.to_string()], "the other one, {other}, is noted");
}

/// Does what is to be done among these, in this order, until nothing is left.
async fn consume<F: Fixture>(process: &Player<F>, keys: Vec<Key>) {
    let store = &process.store;
    let mut left = keys;
    while let Some(key) = left.pop() {
        let delivery = held("paid", &key, process.registration.id, Standing::default(), true);
        let (mut tx, found) = store.begin_locked(Terms::default(), &delivery).await.unwrap();
        match found {
            Found::Free(_) => {
                effect::<F>(F::Store::connection(&mut tx), &delivery.message).await.unwrap();
                store.complete(&mut tx, &[delivery]).await.unwrap();
                store.commit(tx).await.unwrap();
                continue;
            }
            Found::Nothing => {}
            Found::Busy => left.insert(0, key),
            other => panic!("{key}: {other:?}"),
        }
        store.rollback(tx).await.unwrap();
    }
}

pub async fn consumers_and_the_relay_are_never_in_each_others_way<F: Fixture>() {
    let Scene { fixture, process, key } = Scene::<F>::new().await;
    let mut keys = send_all(&process.store, "paid", &vec![NewMessage::new(BODY); 99]).await;
    keys.push(key);
    let backwards: Vec<_> = keys.iter().rev().cloned().collect();
    let from_the_middle: Vec<_> = keys[50..].iter().chain(&keys[..50]).cloned().collect();
    let done = std::sync::atomic::AtomicBool::new(false);
    let consumers = async {
        tokio::join!(consume(&process, keys.clone()), consume(&process, backwards), consume(&process, from_the_middle));
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    };
    let relay = async {
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            publish_all(&process.store, "paid").await;
            assert_eq!(process.store.return_due(&process.registration).await.unwrap(), 0);
            process.store.rescue(&process.registration).await.unwrap();
        }
    };
    tokio::join!(consumers, relay);
    assert_eq!((rows(&fixture).await, effects(&fixture).await), ((0, 0), 100));
}

pub async fn a_message_that_is_locked_is_not_moved<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let id = MessageId { queue: "paid".into(), key: scene.key.clone() };
    let mut tx = scene.at_work().await;
    let moved = in_time("nobody waits for a lock", store.reschedule(&id, Due::After(Duration::from_hours(1)))).await;
    let Changed::No(Some(info)) = moved.unwrap() else { panic!("what runs was put aside") };
    assert!(info.state == MessageState::Ready && info.why_left().contains("has its row locked"), "{}", info.why_left());
    // Who runs it says so with its heartbeat; the row does not.
    let running = [Running::new(&id, Duration::from_secs(3))];
    assert!(store.heartbeat(scene.process.registration.id, &running).await.unwrap());
    let info = store.message(&id).await.unwrap().unwrap();
    assert_eq!((info.state, info.owner.unwrap().running_seconds), (MessageState::Claimed, Some(3)));
    let page = store.messages(&MessageFilter::new("paid", Listed::Claimed, 10)).await.unwrap();
    assert_eq!(page.messages.len(), 1);
    let page = store.messages(&MessageFilter::new("paid", Listed::Ready, 10)).await.unwrap();
    assert_eq!(page.messages.len(), 0);
    store.complete(&mut tx, &[scene.delivery()]).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!((rows(&scene.fixture).await, effects(&scene.fixture).await), ((0, 0), 1));
}

fn id(key: &Key) -> MessageId {
    MessageId { queue: "paid".into(), key: key.clone() }
}

/// The row is locked while the action runs: it is asked for, and who drops it carries it out, or who asked.
pub async fn what_runs_under_a_lock_is_asked_for_and_cancelled_by_who_drops_it<F: Fixture>() {
    for by_process in [true, false] {
        let scene = Scene::<F>::new().await;
        let (store, id) = (&scene.process.store, id(&scene.key));
        let operator = store.by(By::user("anna"));
        let tx = scene.at_work().await;
        assert_eq!(in_time("nobody waits", operator.cancel(&id)).await.unwrap(), Cancelled::Asked);
        assert_eq!(operator.cancel(&id).await.unwrap(), Cancelled::Asked);
        assert_eq!(store.poll(&scene.process.registration).await.unwrap().cancelled, [id.clone()].into());
        assert!(!store.finish_cancel(&scene.delivery()).await.unwrap(), "it is not free yet");
        store.rollback(tx).await.unwrap();
        if by_process {
            assert!(store.finish_cancel(&scene.delivery()).await.unwrap());
            assert_eq!(operator.cancel(&id).await.unwrap(), Cancelled::Already);
        } else {
            assert_eq!(operator.cancel(&id).await.unwrap(), Cancelled::Cancelled);
            assert!(store.finish_cancel(&scene.delivery()).await.unwrap(), "it is cancelled, and not done");
        }
        assert!(!store.is_claimed(&scene.delivery()).await.unwrap());
        assert_eq!(scene.find(&scene.key).await, Found::Nothing);
        assert_eq!((rows(&scene.fixture).await, effects(&scene.fixture).await), ((0, 0), 0));
        let audit = store.audit(None, None, 10).await.unwrap();
        assert!(audit.len() == 1 && audit[0].by.user.as_deref() == Some("anna"), "{audit:?}");
        assert_eq!(scene.fixture.number("select count(*) from ichido_cancel").await, 0);
    }
}

pub async fn what_ends_before_it_is_cancelled_is_done<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let (store, id) = (&scene.process.store, id(&scene.key));
    let mut tx = scene.at_work().await;
    let canceller = {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move { ichido::message::cancel_within(&store, &id, Duration::from_mins(1)).await })
    };
    crate::fixture::until(&scene.fixture, "select count(*) from ichido_cancel", 1).await;
    store.complete(&mut tx, &[scene.delivery()]).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!(in_time("it is over", canceller).await.unwrap().unwrap(), Cancelled::Done);
    assert_eq!(effects(&scene.fixture).await, 1);
    assert_eq!(scene.fixture.number("select count(*) from ichido_cancel").await, 0, "nobody is asked any more");
}

/// An id that has only entered the inbox: nothing but its transaction knows of it.
pub async fn what_runs_from_an_inbox_is_asked_for_and_cancelled<F: Fixture>() {
    for by_process in [true, false] {
        let fixture = F::fresh().await;
        let queues = vec![Queue::broker("paid", Guarded::new("", "paid").inbox())];
        let process = Player::<F>::join_with(fixture.store_with(queues), &["paid"]).await;
        let (store, key) = (&process.store, Key::new(["paid:shop:a:4"]));
        let delivery = held("paid", &key, process.registration.id, Standing::default(), true);
        let mut tx = store.begin().await.unwrap();
        assert_eq!(store.lock(&mut tx, &delivery).await.unwrap(), FREE);
        effect::<F>(F::Store::connection(&mut tx), &delivery.message).await.unwrap();
        assert_eq!(in_time("nobody waits", store.cancel(&id(&key))).await.unwrap(), Cancelled::Asked);
        store.rollback(tx).await.unwrap();
        if by_process {
            assert!(store.finish_cancel(&delivery).await.unwrap());
        } else {
            assert_eq!(store.cancel(&id(&key)).await.unwrap(), Cancelled::Cancelled);
        }
        let mut tx = store.begin().await.unwrap();
        assert_eq!(store.lock(&mut tx, &delivery).await.unwrap(), Found::Nothing, "no copy of it runs");
        store.rollback(tx).await.unwrap();
        assert!(!store.is_claimed(&delivery).await.unwrap() && store.finish_cancel(&delivery).await.unwrap());
        assert_eq!(effects(&fixture).await, 0);
        assert_eq!(fixture.number("select count(*) from ichido_cancel").await, 0);
    }
}

/// A table's row, which the action has locked itself.
pub async fn a_row_that_its_action_has_locked_is_asked_for<F: Fixture>() {
    let (fixture, process, delivery) = crate::fixture::one_claimed::<F>().await;
    let (store, id) = (&process.store, delivery.message.id());
    let mut tx = store.begin().await.unwrap();
    F::through(F::Store::connection(&mut tx), "update received_order set name = 'mine' where id = 1".into())
        .await
        .unwrap();
    assert_eq!(in_time("nobody waits", store.cancel(&id)).await.unwrap(), Cancelled::Asked);
    assert_eq!(store.poll(&process.registration).await.unwrap().cancelled, [id.clone()].into());
    store.rollback(tx).await.unwrap();
    assert!(store.finish_cancel(&delivery).await.unwrap(), "its process cancels it");
    assert_eq!(store.cancel(&id).await.unwrap(), Cancelled::Already);
    assert_eq!(fixture.number("select count(*) from received_order where status = '2' and name <> 'mine'").await, 1);
}
