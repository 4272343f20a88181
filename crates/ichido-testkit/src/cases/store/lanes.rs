//! Lanes: levels over managed queues and over tables of the user's own, mixed, and whose message starts when. Starts are written
//! down in the order in which they are handed out: the process runs on one thread, where nothing comes between.

mod diary;

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use ichido::{
    Client, Context, NewMessage, Operate, Outcome, Pool, Process, Result, RetryPolicy,
    lanes::{LaneSet, Level, LevelBy, Policy},
    process::Flag,
    store::{Database, Processes, Transactions},
    testing::Dial,
};
use serde_json::json;

use self::diary::{AsleepForEver, Diary, Numbered, Running};
use crate::{
    faults::{Faults, FaultyStore, LEASE, Verb},
    fixture::{Fixture, Player, ReaderFixture, send, until},
    size,
};

/// A table of the user's own above a managed queue.
fn lanes(policy: Policy) -> LaneSet {
    LaneSet::new("site", policy).level(Level::new("member", "orders").weight(4)).level(Level::new("free", "mail"))
}

fn pool(set: LaneSet, concurrency: usize) -> Pool {
    let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    Pool::new("Serving").from_lanes(set).concurrency(concurrency).retry(retry)
}

/// Messages with these ids for a level's queue.
async fn put<F: Fixture>(fixture: &F, queue: &str, ids: RangeInclusive<i64>) {
    let messages: Vec<_> = ids.map(|id| format!(r#"{{"id":{id},"name":"message {id}"}}"#)).collect();
    send(fixture, queue, &messages.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

fn process<F: Fixture>(fixture: &F) -> Process<F::Store> {
    Process::new(fixture.store()).poll(Duration::from_millis(20)).check(Duration::from_millis(20))
}

/// Runs until nothing is left, and tells what started in which order.
async fn drained<F: Fixture>(fixture: &F, pool: Pool) -> Arc<Diary> {
    let diary = Diary::new(&[], &[]);
    Running::start(process(fixture).drain(), pool, &diary).ends().await;
    diary
}

async fn assert_nothing_is_claimed<F: Fixture>(fixture: &F) {
    assert_eq!(fixture.number("select count(*) from received_order where process_id is not null").await, 0);
    assert_eq!(fixture.number("select count(*) from ichido_message where owner is not null").await, 0);
}

/// Drains two levels that are full at the start; how many each had, and whose messages started, one after the other.
async fn two_full_levels<F: Fixture>(policy: Policy) -> (usize, Vec<String>) {
    let (fixture, each) = (F::fresh().await, size(240, 1000));
    for queue in ["mail", "orders"] {
        put(&fixture, queue, 1..=each.into()).await;
    }
    let queues = drained(&fixture, pool(lanes(policy), 4)).await.queues();
    assert_eq!(queues.len(), 2 * each as usize);
    (each as usize, queues)
}

pub async fn a_strict_set_starts_all_of_the_higher_level_first<F: Fixture>() {
    let (each, queues) = two_full_levels::<F>(Policy::Strict).await;
    let high = queues.iter().take_while(|queue| *queue == "orders").count();
    assert_eq!(high, each, "a lower one started before a higher one that was waiting");
}

pub async fn weights_are_exact_in_every_window_until_a_level_is_empty<F: Fixture>() {
    let (each, queues) = two_full_levels::<F>(Policy::Weighted).await;
    let (both, rest) = queues.split_at(each / 4 * 5);
    for (from, window) in both.windows(5).enumerate() {
        let high = window.iter().filter(|queue| *queue == "orders").count();
        assert_eq!(high, 4, "{window:?} from {from}");
    }
    assert!(rest.iter().all(|queue| queue == "mail"), "then the other gets all");
}

pub async fn a_reserved_slot_is_free_whatever_the_lower_level_runs<F: Fixture>() {
    let fixture = F::fresh().await;
    put(&fixture, "mail", 1..=20).await;
    let mut set = lanes(Policy::Strict);
    set.levels[0].reserve = 2;
    let diary = Diary::new(&[("mail", 1..=20)], &[]);
    let running = Running::start(process(&fixture).drain(), pool(set, 8), &diary);
    diary.until_started("mail", 6).await;
    put(&fixture, "orders", 1..=2).await;
    diary.until_done(2).await;
    assert_eq!(diary.queues().iter().filter(|queue| *queue == "mail").count(), 6, "two slots are kept");
    diary.resume(20);
    running.ends().await;
    assert_eq!(diary.starts().len(), 22);
}

pub async fn dedicated_levels_have_slots_and_idle_ones_help_if_they_may<F: Fixture>() {
    for (borrow, most) in [(false, 2), (true, 5)] {
        let fixture = F::fresh().await;
        put(&fixture, "mail", 1..=10).await;
        let mut set = lanes(Policy::Dedicated { borrow });
        (set.levels[0].concurrency, set.levels[1].concurrency) = (Some(3), Some(2));
        let diary = Diary::new(&[("mail", 1..=10), ("orders", 1..=10)], &[]);
        let running = Running::start(process(&fixture).drain(), pool(set, 1), &diary);
        diary.until_started("mail", most).await;
        if !borrow {
            put(&fixture, "orders", 1..=10).await;
            diary.until_started("orders", 3).await;
        }
        assert_eq!(diary.starts().len(), 5, "{:?}", diary.starts());
        diary.resume(20);
        running.ends().await;
    }
}

pub async fn what_was_read_ahead_is_given_back_when_a_higher_one_shows_up<F: Fixture>() {
    let fixture = F::fresh().await;
    put(&fixture, "mail", 1..=20).await;
    let diary = Diary::new(&[("mail", 1..=1), ("orders", 1..=1)], &[]);
    let running = Running::start(process(&fixture).drain(), pool(lanes(Policy::Strict), 1).read_ahead(8), &diary);
    diary.until_started("mail", 1).await;
    let nine = "select count(*) from (select 1 from ichido_message where owner is not null limit 9) as claimed";
    until(&fixture, nine, 9).await;
    put(&fixture, "orders", 1..=3).await;
    until(&fixture, "select count(*) from received_order where process_id is not null", 3).await;
    diary.resume(1);
    diary.until_started("orders", 1).await;
    until(&fixture, "select count(*) from ichido_message where owner is not null", 0).await;
    diary.resume(1);
    running.ends().await;
    assert_eq!(diary.queues()[..5], ["mail", "orders", "orders", "orders", "mail"]);
    assert_eq!(diary.starts().len(), 23);
}

/// One worker and a clock of the test's, in the middle of the first of three low messages; nothing is found by polling.
async fn in_the_first_of_three<F: Fixture>(look: Duration) -> (F, Arc<Diary>, Running, Dial) {
    let fixture = F::fresh().await;
    put(&fixture, "mail", 1..=3).await;
    let (diary, dial) = (Diary::new(&[("mail", 1..=3)], &[]), Dial::new());
    let store = FaultyStore::new(fixture.store(), Arc::new(Faults::default()));
    let process = Process::new(store).lease(LEASE).poll(LEASE).check(LEASE).clock(AsleepForEver(dial.clone()));
    let running = Running::start(process, pool(lanes(Policy::Strict).look(look), 1), &diary);
    diary.until_started("mail", 1).await;
    (fixture, diary, running, dial)
}

/// A row that somebody inserts without a word to anybody.
async fn insert_quietly<F: Fixture>(fixture: &F, id: i64) {
    fixture.sql(&format!("insert into received_order (id, name) values ({id}, 'quiet')")).await;
}

pub async fn with_a_look_before_each_start_a_higher_message_is_next<F: Fixture>() {
    let (fixture, diary, running, _) = in_the_first_of_three::<F>(Duration::ZERO).await;
    insert_quietly(&fixture, 1).await;
    diary.resume(1);
    diary.until_started("mail", 2).await;
    insert_quietly(&fixture, 2).await;
    diary.resume(2);
    diary.until_done(5).await;
    assert_eq!(diary.queues(), ["mail", "orders", "mail", "orders", "mail"]);
    running.stop().await;
}

pub async fn a_higher_message_that_waited_longer_than_the_look_is_next<F: Fixture>() {
    let look = Duration::from_millis(20);
    let (fixture, diary, running, dial) = in_the_first_of_three::<F>(look).await;
    insert_quietly(&fixture, 1).await;
    diary.resume(1);
    diary.until_started("mail", 2).await;
    assert_eq!(diary.queues(), ["mail", "mail"], "the last look was a moment ago: for the clock no time has passed");
    dial.pass(look + Duration::from_millis(1));
    diary.resume(2);
    diary.until_done(4).await;
    assert_eq!(diary.queues(), ["mail", "mail", "orders", "mail"]);
    running.stop().await;
}

pub async fn an_old_message_takes_turns_with_the_level_above<F: Fixture>() {
    let fixture = F::fresh().await;
    put(&fixture, "orders", 1..=8).await;
    put(&fixture, "mail", 1..=4).await;
    let (diary, dial) = (Diary::new(&[("orders", 1..=1)], &[]), Dial::new());
    let faults = Arc::new(Faults::default());
    let store = FaultyStore::new(fixture.store(), faults.clone());
    let process = Process::new(store).lease(LEASE).poll(LEASE).check(LEASE).clock(AsleepForEver(dial.clone()));
    let set = lanes(Policy::Strict).age_after(Duration::from_hours(1));
    let running = Running::start(process, pool(set, 1), &diary);
    diary.until_started("orders", 1).await;
    let claimed = "select count(*) from ichido_message where owner is not null";
    until(&fixture, claimed, 2).await;
    // The reader has them, not only the database: time passes for what is in hand.
    faults.has_ended(Verb::Claim, faults.begun(Verb::Claim)).await;
    until(&fixture, claimed, 2).await;
    dial.pass(Duration::from_hours(2));
    diary.resume(1);
    diary.until_done(12).await;
    // The first of them may come to hand a moment after the worker has looked.
    let queues = diary.queues();
    let first = queues.iter().position(|queue| queue == "mail").unwrap();
    assert!(first <= 3, "{queues:?}");
    assert_eq!(queues[first..first + 4], ["mail", "orders", "mail", "orders"], "{queues:?}");
    running.stop().await;
}

pub async fn a_delivery_tells_how_long_its_message_has_waited<F: Fixture>() {
    let fixture = F::fresh().await;
    put(&fixture, "mail", 1..=2).await;
    fixture.sql("update ichido_message set sent_at = '2020-01-01 00:00:00' where payload like '%\"id\":1,%'").await;
    put(&fixture, "orders", 1..=1).await;
    let player = Player::join(&fixture).await;
    let waited: Vec<_> = player.claim("mail", 2).await.iter().map(|delivery| delivery.waited.unwrap()).collect();
    assert!(waited[0] > Duration::from_hours(24 * 365 * 5) && waited[1] < Duration::from_hours(1), "{waited:?}");
    assert_eq!(player.claim_one("orders").await.waited, None, "its table does not say");
}

pub async fn an_action_and_a_client_send_to_levels<F: Fixture>() {
    let fixture = F::fresh().await;
    let by = LevelBy { field: "name".into(), map: [("gold".into(), "member".into())].into(), default: "free".into() };
    let set = lanes(Policy::Strict).level_by(by);
    let (store, client) = (fixture.store(), Client::new(fixture.store()).lanes(set.clone()));
    let mut tx = store.begin().await.unwrap();
    let connection = F::Store::connection(&mut tx);
    let gold =
        [json!({ "id": 1, "name": "gold" }), json!({ "id": 2, "name": "tin" }), json!({ "id": 3, "name": "gold" })];
    let ids = client.queue("site").send_all(connection, &gold).await.unwrap();
    let queues: Vec<_> = ids.iter().map(|id| &*id.queue).collect();
    assert_eq!(queues, ["orders", "mail", "orders"]);
    let named = client.queue("site").level("free").send(connection, &gold[0]).await.unwrap();
    assert_eq!(&*named.queue, "mail");
    let unknown = client.queue("site").level("fre").send(connection, &gold[0]).await.unwrap_err();
    assert!(
        ["no level `fre`", "did you mean `free`?"].iter().all(|part| unknown.to_string().contains(part)),
        "{unknown}"
    );
    store.commit(tx).await.unwrap();
    let process = Process::new(fixture.store()).drain();
    assert_eq!(process.action_fn(pool(set, 1), forward::<F>).run().await.unwrap(), 0);
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '1'").await,
        4,
        "with two golden ones"
    );
    assert_eq!(fixture.number("select count(*) from received_order where id in (101, 103)").await, 2);
}

/// What comes from a member is sent on to everybody, though it is golden; what comes from everybody is sent to its own level, once.
async fn forward<F: Fixture>(cx: &mut Context<F::Store>, message: Numbered) -> Result<Outcome> {
    let (from, id) = (cx.message()?.queue.clone(), message.id);
    if id < 100 && &*from == "orders" {
        cx.send_new("site", NewMessage::encode(&json!({ "id": id + 100, "name": "gold" }))?.level("free")).await?;
    } else if id > 100 && &*from == "mail" {
        cx.send("site", &json!({ "id": id, "name": "gold" })).await?;
    }
    Ok(Outcome::Done)
}

pub async fn a_failing_message_at_the_head_of_a_level_holds_up_nobody<F: Fixture>() {
    let fixture = F::fresh().await;
    put(&fixture, "mail", 1..=10).await;
    put(&fixture, "orders", 1..=10).await;
    let diary = Diary::new(&[], &[("orders", 1)]);
    let retry = RetryPolicy { attempts: 5, first: LEASE, max: LEASE, factor: 1.0 };
    let running = Running::start(process(&fixture), pool(lanes(Policy::Strict), 2).retry(retry), &diary);
    diary.until_done(19).await;
    assert_eq!(diary.starts()[0], ("orders".to_owned(), 1));
    assert!(diary.queues()[..10].iter().all(|queue| queue == "orders"), "{:?}", diary.queues());
    running.stop().await;
}

pub async fn while_suspects_run_alone_the_lower_level_goes_on<F: Fixture>() {
    let fixture = F::fresh().await;
    put(&fixture, "orders", 1..=8).await;
    put(&fixture, "mail", 1..=30).await;
    let victim = Player::join_with(fixture.store(), &["orders"]).await;
    assert_eq!(victim.claim("orders", 8).await.len(), 8);
    victim.die(&fixture).await;
    let rescuer = Player::join(&fixture).await;
    assert_eq!(rescuer.store.rescue(&rescuer.registration).await.unwrap().messages, 8);
    rescuer.store.deregister(rescuer.registration.id).await.unwrap();
    let diary = Diary::new(&[("orders", 1..=8)], &[]);
    let running = Running::start(process(&fixture).drain(), pool(lanes(Policy::Strict), 2), &diary);
    diary.until_done(30).await;
    assert_eq!(diary.queues().iter().filter(|queue| *queue == "orders").count(), 1, "the first is still held");
    diary.resume(8);
    running.ends().await;
    assert_eq!(diary.starts().len(), 38);
}

pub async fn a_stop_and_a_pause_free_what_no_level_has_begun<F: Fixture>() {
    let fixture = F::fresh().await;
    put(&fixture, "orders", 1..=20).await;
    put(&fixture, "mail", 1..=20).await;
    let diary = Diary::new(&[("orders", 1..=20), ("mail", 1..=20)], &[]);
    let running = Running::start(process(&fixture), pool(lanes(Policy::Weighted), 4), &diary);
    diary.until_started("mail", 1).await;
    diary.until_started("orders", 3).await;
    let store = fixture.store();
    store.set_flag("Serving", Flag::Pause, true).await.unwrap();
    until(&fixture, "select count(*) from received_order where process_id is not null", 3).await;
    until(&fixture, "select count(*) from ichido_message where owner is not null", 1).await;
    diary.resume(4);
    diary.until_done(4).await;
    store.set_flag("Serving", Flag::Pause, false).await.unwrap();
    diary.until_started("orders", 6).await;
    diary.resume(10);
    diary.until_done(14).await;
    diary.resume(26);
    running.stop().await;
    assert_nothing_is_claimed(&fixture).await;
}

pub async fn a_process_with_an_allowance_frees_the_rest_of_all_levels<F: Fixture>() {
    let fixture = F::fresh().await;
    put(&fixture, "orders", 1..=20).await;
    put(&fixture, "mail", 1..=20).await;
    let diary = Diary::new(&[], &[]);
    let process = process(&fixture).max_messages(10);
    Running::start(process, pool(lanes(Policy::Weighted), 4), &diary).ends().await;
    let high = diary.queues().iter().filter(|queue| *queue == "orders").count();
    assert_eq!((diary.starts().len(), high), (10, 8));
    assert_nothing_is_claimed(&fixture).await;
}

pub async fn two_levels_cost_hardly_more_claims_than_one_queue<F: Fixture>() {
    let claims = async |counts: [i64; 2], set: Option<LaneSet>| {
        let fixture = F::fresh().await;
        put(&fixture, "orders", 1..=counts[0]).await;
        put(&fixture, "mail", 1..=counts[1]).await;
        let (faults, diary) = (Arc::new(Faults::default()), Diary::new(&[], &[]));
        let store = FaultyStore::new(fixture.store(), faults.clone());
        let pool = match set {
            Some(set) => pool(set, 4),
            // What is read ahead does not grow: it does not in a lane set.
            None => Pool::new("Serving").from("orders").concurrency(4).read_ahead(4),
        };
        Running::start(Process::new(store).drain(), pool, &diary).ends().await;
        assert_eq!(i64::try_from(diary.starts().len()).unwrap(), counts[0] + counts[1]);
        faults.begun(Verb::Claim)
    };
    let one = claims([600, 0], None).await;
    for policy in [Policy::Weighted, Policy::Strict] {
        // The looks that strictness costs come on top of it, at most two in the time of a look while lower messages start.
        let two = claims([300, 300], Some(lanes(policy).look(LEASE))).await;
        assert!(two <= one * 5 / 4 + 2, "{policy:?}: {two} claims, and {one} for one queue");
    }
}

/// The same messages in two levels: whatever a reader must do, the reader of a lane set must do too.
pub struct Laned<F>(F);

impl<F: Fixture> ReaderFixture for Laned<F> {
    type Store = F::Store;

    async fn fresh() -> Self {
        Laned(F::fresh().await)
    }

    fn store(&self) -> F::Store {
        self.0.store()
    }

    async fn put(&self, ids: RangeInclusive<i64>) {
        let (last, middle) = (*ids.end(), ids.start() + (ids.end() - ids.start()) / 2);
        put(&self.0, "mail", *ids.start()..=middle).await;
        put(&self.0, "orders", middle + 1..=last).await;
    }

    fn pool(&self, pool: Pool) -> Pool {
        pool.from_lanes(lanes(Policy::Strict))
    }
}
