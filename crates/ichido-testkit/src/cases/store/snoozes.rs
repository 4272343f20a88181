//! Messages whose action says: later. They run again as the same attempt, in whatever queue and however they were read.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, Mutex},
    time::Duration,
};

use ichido::{
    Action, BatchAction, Context, Error, Failure, Handler, Inspect, NewMessage, Next, Outcome, Pool, Process, Result,
    RetryPolicy, Store,
    handlers::Scope,
    inspect::{Parked, ParkedFilter, ParkedState},
    stat::{Tally, WINDOW},
    store::{Database, Processes, Queues, Transactions},
    testing,
};
use serde_json::Value;

use crate::{
    faults::{Fault, Scene, Verb},
    fixture::{Fixture, Player, effect, effects, failed, send, send_orders, with_orders},
};

const HOUR: Duration = Duration::from_hours(1);

/// How often each message has run, and as which attempts.
type Runs = Arc<Mutex<BTreeMap<String, Vec<u32>>>>;

/// Writes its effect, and then snoozes the first runs of each message.
struct Sleepy<F> {
    runs: Runs,
    snoozes: usize,
    after: Duration,
    _fixture: PhantomData<fn() -> F>,
}

impl<F: Fixture> Sleepy<F> {
    fn new(runs: &Runs, snoozes: usize, after: Duration) -> Self {
        Sleepy { runs: runs.clone(), snoozes, after, _fixture: PhantomData }
    }
}

/// One more run of this message; how many there were before.
fn ran(runs: &Runs, id: String, attempt: u32) -> usize {
    let mut runs = runs.lock().unwrap();
    let all = runs.entry(id).or_default();
    all.push(attempt);
    all.len() - 1
}

impl<S: Store, F: Fixture> Action<S> for Sleepy<F>
where
    F::Store: Database<Connection = S::Connection>,
{
    type Message = Value;

    async fn handle(&self, cx: &mut Context<S>, _: Value) -> Result<Outcome> {
        let message = cx.message()?.clone();
        effect::<F>(cx.tx().await?, &message).await?;
        let before = ran(&self.runs, message.id().to_string(), cx.attempt());
        Ok(if before < self.snoozes { Outcome::snooze(self.after) } else { Outcome::Done })
    }

    async fn transaction_failure(&self, _: &mut Context<S>, _: &Error, failure: &Failure) -> Result<()> {
        panic!("a snooze is no failure: {failure:?}")
    }
}

/// A spent attempt would be the last one.
fn once(queue: &str) -> Pool {
    Pool::new(queue).from(queue).concurrency(2).retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() })
}

fn draining<F: Fixture>(fixture: &F) -> Process<F::Store> {
    Process::new(fixture.store()).poll(Duration::from_millis(5)).drain()
}

async fn waiting<F: Fixture>(fixture: &F) -> Vec<Parked> {
    let mut filter = ParkedFilter::default();
    filter.waiting = true;
    fixture.store().parked(&filter).await.unwrap()
}

async fn counted<F: Fixture>(fixture: &F) -> Tally {
    let mut all = Tally::default();
    fixture.store().stats(WINDOW).await.unwrap().iter().for_each(|row| all.merge(&row.stat.tally));
    all
}

async fn send_to_all<F: Fixture>(fixture: &F, each: i64) {
    send_orders(fixture, each).await;
    let mail = vec!["{}"; usize::try_from(each).unwrap()];
    send(fixture, "mail", &mail).await;
    let tickets: Vec<_> = (1..=each).map(|n| format!(r#"{{"region":"a","number":{n},"kind":"urgent"}}"#)).collect();
    send(fixture, "urgent", &tickets.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

pub async fn a_snoozed_message_runs_again_as_the_same_attempt<F: Fixture>() {
    for together in [1, 4] {
        let fixture = F::fresh().await;
        send_to_all(&fixture, 5).await;
        let runs = Runs::default();
        let process = ["orders", "mail", "urgent"].iter().fold(draining(&fixture), |process, queue| {
            let pool = once(queue).commit_interval(together);
            process.action(pool, Sleepy::<F>::new(&runs, 3, Duration::ZERO))
        });
        assert_eq!(process.run().await.unwrap(), 0);
        assert_eq!((effects(&fixture).await, failed(&fixture).await), (15, Vec::new()));
        assert_eq!(fixture.number("select count(distinct message) from ledger").await, 15);
        assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
        let runs = runs.lock().unwrap().clone();
        assert!(runs.len() == 15 && runs.values().all(|runs| runs.len() >= 4), "{runs:?}");
        assert!(runs.values().flatten().all(|attempt| *attempt == 1), "no attempt was spent: {runs:?}");
        if together == 1 {
            let tally = counted(&fixture).await;
            assert_eq!((tally.started, tally.done, tally.snoozed), (60, 15, 45));
            assert_eq!((tally.retried, tally.failed), (0, 0), "they are counted apart");
        }
    }
}

/// The first run fails, the second snoozes for an hour, the third is done.
async fn first_bad_then_early<F: Fixture>(cx: &mut Context<F::Store>, _: Value) -> Result<Outcome> {
    let message = cx.message()?.clone();
    effect::<F>(cx.tx().await?, &message).await?;
    let snoozed = waited(cx)?;
    match cx.attempt() {
        1 => Err("as it should".into()),
        2 if !snoozed => Ok(Outcome::snooze(HOUR)),
        _ => Ok(Outcome::Done),
    }
}

/// A message that was changed from outside when it had been snoozed.
fn waited<S: Store>(cx: &Context<S>) -> Result<bool> {
    let order: Value = serde_json::from_slice(&cx.message()?.payload)?;
    Ok(order["name"] == "later")
}

pub async fn a_snooze_keeps_attempts_and_history_and_a_drain_does_not_wait_for_it<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let retry = RetryPolicy { attempts: 2, first: Duration::from_millis(1), ..RetryPolicy::default() };
    let process = || draining(&fixture).action_fn(Pool::new("orders").retry(retry), first_bad_then_early::<F>);
    assert_eq!(process().run().await.unwrap(), 0);
    let [parked] = &waiting(&fixture).await[..] else { panic!("one message waits") };
    assert_eq!((parked.state, parked.attempts, parked.snoozed), (ParkedState::Waiting, 1, 1));
    assert_eq!((parked.history.len(), parked.error.as_str()), (1, "as it should"), "a snooze is no failure");
    assert!(parked.due_at.is_some() && fixture.store().is_drained("orders").await.unwrap());
    fixture.sql("update received_order set name = 'later'; update ichido_parked set due_at = parked_at").await;
    assert!(!fixture.store().is_drained("orders").await.unwrap(), "it is due");
    assert_eq!(process().run().await.unwrap(), 0);
    assert_eq!((effects(&fixture).await, failed(&fixture).await), (1, Vec::new()));
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

pub async fn snoozes_are_counted_until_the_message_fails<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let player = Player::join(&fixture).await;
    let snooze = |failures| Failure::snoozed(failures, Duration::ZERO);
    let parks = [snooze(0), snooze(0), Failure::waiting("bad", 1, Duration::ZERO), snooze(1)];
    for (failure, expected) in parks.into_iter().zip([(0, 1), (0, 2), (1, 0), (1, 1)]) {
        let order = player.claim_one("orders").await;
        assert!(player.store.park(&order, &failure).await.unwrap());
        let [parked] = &waiting(&fixture).await[..] else { panic!("one message waits") };
        assert_eq!((parked.attempts, parked.snoozed), expected);
        assert_eq!(player.store.return_due(&player.registration).await.unwrap(), 1);
    }
}

/// Snoozes order 3 if it is asked about it alone, and everything if it is asked about more.
struct Batch<F>(Runs, PhantomData<fn() -> F>);

impl<F: Fixture> BatchAction<F::Store> for Batch<F> {
    type Message = Value;

    async fn handle(&self, cx: &mut Context<F::Store>, orders: Vec<Value>) -> Result<Outcome> {
        let messages: Vec<_> = cx.deliveries().iter().map(|delivery| delivery.message.clone()).collect();
        for message in &messages {
            effect::<F>(cx.tx().await?, message).await?;
            ran(&self.0, message.id().to_string(), orders.len().try_into()?);
        }
        let early = orders.len() > 1 || orders[0]["id"] == 3;
        Ok(if early { Outcome::snooze(HOUR) } else { Outcome::Done })
    }
}

pub async fn a_batch_that_snoozes_is_run_one_by_one<F: Fixture>() {
    let fixture = with_orders::<F>(6).await;
    let runs = Runs::default();
    let pool = once("orders").concurrency(1).commit_interval(6);
    let process = draining(&fixture).batch_action(pool, Batch::<F>(runs.clone(), PhantomData));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(effects(&fixture).await, 5, "five were done alone, and nothing of the batch is left");
    assert_eq!(fixture.number("select count(distinct message) from ledger").await, 5);
    let waiting: Vec<_> = waiting(&fixture).await.into_iter().map(|parked| (parked.id, parked.attempts)).collect();
    assert_eq!(waiting, [("orders/3".to_owned(), 0)]);
}

pub async fn a_snoozed_head_holds_its_group<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let messages: Vec<_> = (1..=4).map(|n| NewMessage::new(n.to_string()).group("g")).collect();
    let mut tx = store.begin().await.unwrap();
    store.send(F::Store::connection(&mut tx), "mail", &messages).await.unwrap();
    store.commit(tx).await.unwrap();
    let player = Player::join(&fixture).await;
    let head = player.claim_one("mail").await;
    assert!(player.store.park(&head, &Failure::snoozed(0, HOUR)).await.unwrap());
    assert!(player.claim("mail", 10).await.is_empty(), "those after it wait");
    fixture.sql("update ichido_parked set due_at = parked_at").await;
    assert_eq!(player.store.return_due(&player.registration).await.unwrap(), 1);
    for n in 1..=4 {
        let next = player.claim_one("mail").await;
        assert_eq!((next.attempt, &*next.message.payload), (1, n.to_string().as_bytes()));
        player.finish(&next).await.unwrap();
    }
}

pub async fn a_suspect_that_snoozes_is_none_any_more<F: Fixture>() {
    let fixture = with_orders::<F>(1).await;
    let (dead, other) = (Player::join_with_slots(&fixture, 1).await, Player::join(&fixture).await);
    dead.claim_one("orders").await;
    dead.die(&fixture).await;
    other.store.rescue(&other.registration).await.unwrap();
    let suspect = other.claim_one("orders").await;
    assert!(suspect.is_suspect());
    assert!(other.store.park(&suspect, &Failure::snoozed(suspect.attempt - 1, Duration::ZERO)).await.unwrap());
    other.store.return_due(&other.registration).await.unwrap();
    let again = other.claim_one("orders").await;
    assert_eq!((again.is_suspect(), again.attempt), (false, 1));
}

/// A handler that is not open yet.
struct Closed(Runs);

impl<S: Store> Handler<S> for Closed {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let (id, attempt) = (cx.message_id()?.to_string(), cx.attempt());
        if ran(&self.0, id, attempt) == 0 { Ok(Outcome::snooze(Duration::ZERO)) } else { next.run(cx).await }
    }
}

pub async fn a_handler_can_snooze_too<F: Fixture>() {
    for place in ["read", "transaction"] {
        let fixture = with_orders::<F>(3).await;
        let (runs, closed) = (Runs::default(), Closed(Runs::default()));
        let process = draining(&fixture).action(once("orders"), Sleepy::<F>::new(&runs, 0, HOUR));
        let process = process.handlers(move |queue| queue.after(Scope::Worker, place, closed));
        assert_eq!(process.run().await.unwrap(), 0);
        assert_eq!((effects(&fixture).await, failed(&fixture).await), (3, Vec::new()), "after {place}");
        assert_eq!(counted(&fixture).await.snoozed, 3);
    }
}

/// The transaction that records a snooze does not begin, or is committed and nobody learns it.
pub async fn a_snooze_whose_record_is_in_doubt_spends_nothing<F: Fixture>() {
    for fault in [Fault::Unreachable, Fault::ReplyLost] {
        let scene = Scene::<F>::new(6).await;
        let runs = Runs::default();
        scene.faults.inject(Verb::Park, fault, 4);
        let action = Sleepy::<F>::new(&runs, 2, Duration::ZERO);
        scene.drain(scene.process().poll(Duration::from_millis(5)).action(once("orders"), action)).await;
        assert_eq!((scene.done().await, effects(&scene.fixture).await), (6, 6), "{fault:?}");
        let runs = runs.lock().unwrap().clone();
        assert!(runs.values().flatten().all(|attempt| *attempt == 1), "{fault:?}: {runs:?}");
        assert_eq!(scene.fixture.number("select count(*) from ichido_parked").await, 0);
    }
}

pub async fn the_drain_of_a_test_counts_what_is_snoozed<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let process = || Process::new(fixture.store()).poll(Duration::from_millis(5));
    let runs = Runs::default();
    let drained = testing::drain(process().action(once("orders"), Sleepy::<F>::new(&runs, 1, HOUR))).await.unwrap();
    assert_eq!((drained.done, drained.failed, drained.snoozed, drained.errors.len()), (0, 0, 2, 0));
    fixture.sql("update ichido_parked set due_at = parked_at").await;
    let drained = testing::drain(process().action(once("orders"), Sleepy::<F>::new(&runs, 1, HOUR))).await.unwrap();
    drained.assert_all_done();
    assert_eq!(drained.done, 2);
}
