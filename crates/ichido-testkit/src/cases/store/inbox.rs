//! Messages that are guarded by the inbox: an id enters it once, with the effect of its message, or not at all.

use std::time::Duration;

use ichido::{
    Delivery, Error, Guarded, Key, Message, Queue,
    broker::{Found, Standing},
    process::Retention,
    store::{Database, Failure, Mutexes, Queues, Stats, Transactions},
};

use crate::{
    cases::broker_rows::{handed_out, held, publish_all, rows, unsent},
    fixture::{Fixture, Player, assert_lost, effect, effects},
    in_time,
};

const FREE: Found = Found::Free(Standing { failures: 0, suspect: false, parked: false });

/// How many ids are forgotten at a time.
const AT_A_TIME: i64 = 1000;

/// A queue with an inbox, and a message that somebody else has sent.
struct Scene<F: Fixture> {
    fixture: F,
    process: Player<F>,
    key: Key,
}

type Tx<F> = <<F as Fixture>::Store as Database>::Tx;

impl<F: Fixture> Scene<F> {
    async fn new() -> Self {
        let fixture = F::fresh().await;
        let queues = vec![Queue::broker("paid", Guarded::new("", "paid").inbox())];
        let process = Player::join_with(fixture.store_with(queues), &["paid"]).await;
        Scene { fixture, process, key: Key::new(["paid:shop:a:4"]) }
    }

    async fn enter(&self, tx: &mut Tx<F>, delivery: &Delivery) -> Found {
        let entered = in_time("nobody waits for another transaction", self.process.store.lock(tx, delivery)).await;
        entered.expect("an id is had or not")
    }

    /// What is found of the message when it is handed out, without doing it.
    async fn find(&self) -> Found {
        let mut tx = self.process.store.begin().await.unwrap();
        let found = self.enter(&mut tx, &handed_out("paid", &self.key)).await;
        self.process.store.rollback(tx).await.unwrap();
        found
    }

    fn locked(&self) -> Delivery {
        held("paid", &self.key, self.process.registration.id, Standing::default(), true)
    }

    /// A transaction that has entered the id, and has had its effect.
    async fn at_work(&self) -> Tx<F> {
        let mut tx = self.process.store.begin().await.unwrap();
        assert!(matches!(self.enter(&mut tx, &self.locked()).await, Found::Free(_)));
        effect::<F>(F::Store::connection(&mut tx), &self.locked().message).await.unwrap();
        tx
    }

    async fn finish(&self, mut tx: Tx<F>) {
        self.process.store.complete(&mut tx, &[self.locked()]).await.expect("what has entered is completed");
        self.process.store.commit(tx).await.unwrap();
    }

    async fn ids(&self) -> i64 {
        self.fixture.number("select count(*) from ichido_inbox").await
    }
}

pub async fn an_id_enters_the_inbox_with_the_effect_of_its_message<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    store.rollback(scene.at_work().await).await.unwrap();
    assert!(store.is_claimed(&scene.locked()).await.unwrap(), "nothing has arrived");
    assert_eq!((scene.ids().await, effects(&scene.fixture).await, scene.find().await), (0, 0, FREE));
    scene.finish(scene.at_work().await).await;
    assert!(!store.is_claimed(&scene.locked()).await.unwrap());
    assert_eq!((scene.ids().await, effects(&scene.fixture).await, scene.find().await), (1, 1, Found::Nothing));
    assert_eq!(scene.process.find("paid", std::slice::from_ref(&scene.key)).await, [Found::Nothing]);
    assert!(!store.park(&scene.locked(), &Failure::dead("late", 1)).await.unwrap(), "it is done");
    assert_eq!(rows(&scene.fixture).await, (0, 0));
}

pub async fn of_two_who_enter_one_id_at_once_one_finds_it_busy<F: Fixture>() {
    if !F::LOCKS {
        return; // one transaction at a time writes
    }
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let tx = scene.at_work().await;
    assert_eq!(scene.find().await, Found::Busy);
    assert_eq!(scene.process.find("paid", std::slice::from_ref(&scene.key)).await, [Found::Busy]);
    let parked = in_time("nobody waits", store.park(&scene.locked(), &Failure::dead("no", 1))).await;
    assert!(!parked.unwrap(), "whoever is at it now decides");
    let other = Key::new(["paid:shop:b:4"]);
    let mut beside = store.begin().await.unwrap();
    assert_eq!(scene.enter(&mut beside, &handed_out("paid", &other)).await, FREE);
    store.rollback(beside).await.unwrap();
    scene.finish(tx).await;
    assert_eq!((scene.find().await, scene.ids().await), (Found::Nothing, 1));
}

pub async fn another_payload_under_the_same_id_is_another_message<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    scene.finish(scene.at_work().await).await;
    let mut tx = scene.process.store.begin().await.unwrap();
    let other = Delivery::unclaimed(Message::new("paid", scene.key.clone(), *b"something else"));
    assert_eq!(scene.enter(&mut tx, &other).await, Found::Another);
    scene.process.store.rollback(tx).await.unwrap();
    assert_eq!(scene.find().await, Found::Nothing);
}

pub async fn what_is_marked_enters_when_it_is_done<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let marked = scene.process.take("paid", &scene.key).await;
    assert_eq!((scene.find().await, scene.ids().await, rows(&scene.fixture).await), (Found::Busy, 0, (1, 0)));
    let mut tx = store.begin().await.unwrap();
    effect::<F>(F::Store::connection(&mut tx), &marked.message).await.unwrap();
    store.complete(&mut tx, std::slice::from_ref(&marked)).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!((scene.find().await, scene.ids().await, rows(&scene.fixture).await), (Found::Nothing, 1, (0, 0)));
    assert!(!store.park(&marked, &Failure::dead("late", 1)).await.unwrap(), "it is done");
    assert_eq!(rows(&scene.fixture).await, (0, 0));
}

/// Whatever goes wrong before: the row is marked while another transaction has the id.
pub async fn of_a_marked_one_and_a_locked_one_only_one_is_done<F: Fixture>() {
    for at_once in [false, true] {
        if at_once && !F::LOCKS {
            continue;
        }
        let scene = Scene::<F>::new().await;
        let store = &scene.process.store;
        let me = scene.process.registration.id;
        let mark = format!(
            "insert into ichido_mutex (id, queue, owner) values ('{}', 'paid', '{me}')",
            scene.key.columns()[0]
        );
        let marked = held("paid", &scene.key, me, Standing::default(), false);
        let locked = scene.at_work().await;
        let lost = if at_once {
            scene.fixture.sql(&mark).await;
            let mut tx = store.begin().await.unwrap();
            effect::<F>(F::Store::connection(&mut tx), &marked.message).await.unwrap();
            // Whoever loses gives way at once, as the handler does.
            let lose = async {
                let lost = store.complete(&mut tx, std::slice::from_ref(&marked)).await;
                store.rollback(tx).await.unwrap();
                lost
            };
            tokio::join!(lose, scene.finish(locked)).0
        } else {
            scene.finish(locked).await;
            scene.fixture.sql(&mark).await;
            let mut tx = store.begin().await.unwrap();
            let lost = store.complete(&mut tx, std::slice::from_ref(&marked)).await;
            store.rollback(tx).await.unwrap();
            lost
        };
        assert_lost(&lost);
        assert_eq!((scene.ids().await, effects(&scene.fixture).await), (1, 1), "{at_once}");
        assert_eq!(scene.process.find("paid", std::slice::from_ref(&scene.key)).await, [Found::Nothing]);
        assert_eq!(rows(&scene.fixture).await, (0, 0), "the mark is of no use any more");
    }
}

pub async fn an_action_that_ends_its_transaction_enters_nothing<F: Fixture>() {
    for end in ["rollback", "commit"] {
        let scene = Scene::<F>::new().await;
        let store = &scene.process.store;
        let mut tx = scene.at_work().await;
        // Where it is refused at once, that ends the transaction as well.
        let _ = F::through(F::Store::connection(&mut tx), end.into()).await;
        let completed = store.complete(&mut tx, &[scene.locked()]).await;
        assert!(matches!(completed, Err(Error::BrokenTransaction(_))), "{end}: {completed:?}");
        store.rollback(tx).await.unwrap();
        let done = "select count(*) from ichido_inbox where done_at is not null";
        assert_eq!((scene.fixture.number(done).await, scene.find().await), (0, FREE), "{end}");
        assert!(store.is_claimed(&scene.locked()).await.unwrap(), "{end}: it is not done");
        assert!(store.park(&scene.locked(), &Failure::dead("broken", 1)).await.unwrap(), "{end}");
        assert_eq!((scene.ids().await, scene.find().await), (0, Found::Failed), "{end}");
    }
}

pub async fn what_fails_is_kept_and_published_again_to_its_own_queue<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    store.rollback(scene.at_work().await).await.unwrap();
    let failure = Failure::waiting("not yet", 1, Duration::ZERO);
    assert!(store.park(&scene.locked(), &failure).await.unwrap());
    assert!(!store.park(&scene.locked(), &failure).await.unwrap(), "once");
    assert_eq!((scene.find().await, rows(&scene.fixture).await), (Found::Waiting, (1, 1)));
    assert_eq!(store.return_due(&scene.process.registration).await.unwrap(), 1);
    assert_eq!(unsent(store, "paid").await, [scene.key.to_string()]);
    publish_all(store, "paid").await;
    let known = Standing { failures: 1, parked: true, ..Standing::default() };
    assert_eq!(scene.find().await, Found::Free(known));
    let tx = scene.at_work().await;
    scene.finish(tx).await;
    assert_eq!((rows(&scene.fixture).await, scene.find().await), ((0, 0), Found::Nothing));
}

pub async fn a_failure_that_is_committed_enters_nothing<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let mut tx = scene.at_work().await;
    store.fail(&mut tx, &scene.locked(), &Failure::dead("never", 1)).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!((scene.ids().await, effects(&scene.fixture).await, scene.find().await), (0, 1, Found::Failed));
}

pub async fn old_ids_are_forgotten_some_at_a_time<F: Fixture>() {
    let scene = Scene::<F>::new().await;
    let store = &scene.process.store;
    let mut tx = store.begin().await.unwrap();
    let mut done = Vec::new();
    for number in 0..AT_A_TIME + 5 {
        let key = Key::new([format!("paid:shop:{number}:4")]);
        let delivery = held("paid", &key, scene.process.registration.id, Standing::default(), true);
        assert_eq!(scene.enter(&mut tx, &delivery).await, FREE);
        done.push(delivery);
    }
    store.complete(&mut tx, &done).await.unwrap();
    store.commit(tx).await.unwrap();
    let young = "in ('paid:shop:3:4', 'paid:shop:1001:4')";
    let age = format!("update ichido_inbox set done_at = '2000-01-01 00:00:00' where id not {young}");
    scene.fixture.sql(&age).await;
    for (left, more) in [(5, true), (2, false), (2, false)] {
        assert_eq!(store.prune(Retention::default()).await.unwrap(), more, "whoever asks is told to go on");
        assert_eq!(scene.ids().await, left);
    }
    assert_eq!(scene.fixture.number(&format!("select count(*) from ichido_inbox where id {young}")).await, 2);
}
