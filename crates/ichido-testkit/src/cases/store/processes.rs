//! The whole chain: processes with actions, run as a user runs them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{
    CancellationToken, Context, Delivery, Error, Handler, Inspect, Key, Message, Next, Outcome, Pool, Process, Reader,
    Result, RetryPolicy, Store, action::Request, handlers::Scope, inspect::ParkedFilter, readers::Turn,
    store::Processes,
};
use serde::Deserialize;
use tokio::sync::Notify;

use crate::fixture::{Fixture, Player, effect, effect_here, effects, send, until, with_orders};

#[derive(Deserialize)]
struct Order {
    id: i64,
    name: Option<String>,
}

/// One line in the ledger; what the order's name says goes wrong.
async fn create_project<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    match order.name.as_deref() {
        Some("error") => Err("no such customer".into()),
        Some("panic") => panic!("boom {}", order.id),
        Some("park") => Ok(Outcome::park("not today")),
        Some("retry") => Ok(Outcome::retry()),
        Some("abort") => Ok(Outcome::Abort(111)),
        Some("twice") if cx.attempt() == 1 => Ok(Outcome::retry_after(Duration::ZERO)),
        Some("statement") => {
            F::through(cx.tx().await?, "insert into only_one (id) values (1), (1)".into()).await?;
            Ok(Outcome::Done)
        }
        Some("rollback") => {
            let _ = F::through(cx.tx().await?, "rollback".into()).await;
            let _ = effect_here::<F>(cx).await;
            Ok(Outcome::Done)
        }
        _ => Ok(Outcome::Done),
    }
}

fn orders() -> Pool {
    let retry =
        RetryPolicy { attempts: 2, first: Duration::from_millis(1), max: Duration::from_millis(5), factor: 2.0 };
    Pool::new("ProjectCreation").from("orders").concurrency(4).retry(retry)
}

fn process<F: Fixture>(fixture: &F) -> Process<F::Store> {
    Process::new(fixture.store()).poll(Duration::from_millis(20)).drain()
}

async fn drain<F: Fixture>(fixture: &F) -> i32 {
    process(fixture).action_fn(orders(), create_project::<F>).run().await.unwrap()
}

pub async fn every_message_is_run_exactly_once_and_the_queue_is_empty<F: Fixture>() {
    let fixture = with_orders::<F>(200).await;
    let (one, two) = tokio::join!(drain(&fixture), drain(&fixture));
    assert_eq!((one, two), (0, 0));
    assert_eq!(effects(&fixture).await, 200);
    assert_eq!(fixture.number("select count(distinct message) from ledger").await, 200);
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '1' and process_id is null").await,
        200
    );
    assert_eq!(fixture.number("select count(*) from ichido_process").await, 0, "they deregistered");
}

pub async fn a_bad_message_never_stops_its_neighbours<F: Fixture>() {
    let fixture = with_orders::<F>(60).await;
    fixture.sql("update received_order set name = 'error' where id = 5; update received_order set name = 'panic' where id = 15").await;
    fixture.sql("update received_order set name = 'park' where id = 25; update received_order set name = 'statement' where id = 35").await;
    assert_eq!(drain(&fixture).await, 0);
    assert_eq!(effects(&fixture).await, 56);
    let failed = fixture.store().parked(&ParkedFilter::default()).await.unwrap();
    let mut seen: Vec<_> =
        failed.iter().map(|parked| (parked.id.as_str(), parked.attempts, parked.error.clone())).collect();
    seen.sort_unstable();
    assert_eq!(seen[0], ("orders/15", 2, "panic: boom 15".to_owned()));
    assert_eq!(seen[1], ("orders/25", 1, "not today".to_owned()));
    assert_eq!((seen[2].0, seen[2].1), ("orders/35", 2));
    let text = seen[2].2.to_lowercase();
    assert!(text.contains("unique") || text.contains("duplicate"), "{text}");
    assert_eq!(seen[3], ("orders/5", 2, "no such customer".to_owned()));
    assert_eq!(fixture.number("select count(*) from received_order where status = '2'").await, 4);
}

pub async fn an_action_that_breaks_its_transaction_is_parked_at_once<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    fixture.sql("update received_order set name = 'rollback' where id = 2").await;
    assert_eq!(drain(&fixture).await, 0);
    assert_eq!(effects(&fixture).await, 2);
    assert_eq!(fixture.number("select count(*) from ledger where message = 'orders/2'").await, 0);
    let failed = fixture.store().parked(&ParkedFilter::default()).await.unwrap();
    assert_eq!((failed[0].id.as_str(), failed[0].attempts), ("orders/2", 1));
    assert!(failed[0].error.starts_with("transaction broken"), "{}", failed[0].error);
}

pub async fn a_failing_message_runs_again_after_its_backoff<F: Fixture>() {
    let fixture = with_orders::<F>(4).await;
    fixture.sql("update received_order set name = 'twice' where id = 2; update received_order set name = 'retry' where id = 3").await;
    assert_eq!(drain(&fixture).await, 0);
    assert_eq!(effects(&fixture).await, 3);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 3);
    let failed = fixture.store().parked(&ParkedFilter::default()).await.unwrap();
    assert_eq!(
        failed.iter().map(|parked| (parked.id.as_str(), parked.attempts)).collect::<Vec<_>>(),
        [("orders/3", 2)]
    );
}

pub async fn an_abort_ends_the_process_with_its_code<F: Fixture>() {
    let fixture = with_orders::<F>(30).await;
    fixture.sql("update received_order set name = 'abort' where id = 1").await;
    assert_eq!(drain(&fixture).await, 111);
    assert_eq!(fixture.number("select count(*) from ledger where message = 'orders/1'").await, 0);
    assert_eq!(fixture.number("select count(*) from ichido_parked where attempts = 1").await, 1, "an attempt is spent");
    let owned = "select count(*) from received_order where status = '0' and process_id is not null and process_id not like '00000000-%'";
    assert_eq!(fixture.number(owned).await, 0, "the rest is released");
    fixture.sql("update received_order set name = null").await;
    assert_eq!(drain(&fixture).await, 0);
    assert_eq!(effects(&fixture).await, 30);
}

/// Waits inside an action until it is let go.
struct Blocking<F> {
    begun: Arc<Notify>,
    go: Arc<Notify>,
    _fixture: std::marker::PhantomData<fn(F)>,
}

impl<F: Fixture> ichido::Action<F::Store> for Blocking<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<F::Store>, _: Order) -> Result<Outcome> {
        let message = cx.message()?.clone();
        self.begun.notify_one();
        self.go.notified().await;
        effect::<F>(cx.tx().await?, &message).await?;
        Ok(Outcome::Done)
    }
}

pub async fn a_stop_releases_what_is_not_begun<F: Fixture>() {
    let fixture = with_orders::<F>(10).await;
    let (begun, go, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
    let action = Blocking::<F> { begun: begun.clone(), go: go.clone(), _fixture: std::marker::PhantomData };
    let process = process(&fixture).stop_on(stop.clone()).action(orders().concurrency(1).read_ahead(5), action);
    let running = tokio::spawn(process.run());
    begun.notified().await;
    stop.cancel();
    go.notify_one();
    assert_eq!(running.await.unwrap().unwrap(), 0);
    assert_eq!(effects(&fixture).await, 1, "what was running came to its end");
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '0' and process_id is null").await,
        9
    );
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0, "nothing is counted");
}

pub async fn a_message_out_of_grace_is_released<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let (begun, go, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
    let action = Blocking::<F> { begun: begun.clone(), go, _fixture: std::marker::PhantomData };
    let settings =
        ichido::process::Settings { grace: Duration::from_millis(50), ..ichido::process::Settings::default() };
    // Two workers: the one that only waits must not keep the other's grace from ending.
    let process =
        Process::new(fixture.store()).settings(settings).stop_on(stop.clone()).action(orders().concurrency(2), action);
    let running = tokio::spawn(process.run());
    begun.notified().await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap(), 0);
    assert_eq!(effects(&fixture).await, 0);
    assert_eq!(
        fixture.number("select count(*) from received_order where status = '0' and process_id is null").await,
        2
    );
}

async fn read_mail<F: Fixture>(cx: &mut Context<F::Store>, _: serde_json::Value) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    Ok(Outcome::Done)
}

pub async fn several_actions_run_side_by_side<F: Fixture>() {
    let fixture = with_orders::<F>(20).await;
    send(&fixture, "mail", &["{}"; 20]).await;
    let build = || {
        process(&fixture)
            .action_fn(orders(), create_project::<F>)
            .action_fn(Pool::new("Mail").from("mail"), read_mail::<F>)
    };
    assert_eq!(build().run_request(Request::path("Mail/M1")).await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from ledger where message like 'mail/%'").await, 20);
    assert_eq!(effects(&fixture).await, 20, "only the action that was asked for");
    assert_eq!(build().run().await.unwrap(), 0);
    assert_eq!(effects(&fixture).await, 40);
}

pub async fn an_unknown_action_is_exit_13<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = process(&fixture).action_fn(orders(), create_project::<F>);
    assert_eq!(process.run_request(Request::path("ProjectDeletion/R1")).await.unwrap(), 13);
}

/// Writes down what it sees.
struct Diary(Arc<Mutex<Vec<String>>>);

impl<S: Store> Handler<S> for Diary {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let outcome = next.run(cx).await;
        let line = format!("{} {} {:?}", cx.message_id()?, cx.attempt(), outcome.as_ref().ok());
        self.0.lock().unwrap().push(line);
        outcome
    }
}

pub async fn a_handler_of_the_users_own_sees_every_message<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    fixture.sql("update received_order set name = 'twice' where id = 2").await;
    let diary = Arc::new(Mutex::new(Vec::new()));
    let seen = diary.clone();
    let process = process(&fixture).action_fn(orders(), create_project::<F>);
    let process = process.handlers(move |queue| queue.before(Scope::Worker, "transaction", Diary(seen)));
    assert_eq!(process.run().await.unwrap(), 0);
    let mut lines = diary.lock().unwrap().clone();
    lines.sort_unstable();
    assert_eq!(lines, ["orders/1 1 Some(Done)", "orders/2 1 Some(Retry(Some(0ns)))", "orders/2 2 Some(Done)"]);
    let refused = self::process(&fixture).handlers(|queue| queue.after(Scope::Process, "reed", Diary(Arc::default())));
    let refused = refused.run().await;
    assert!(
        matches!(&refused, Err(Error::Setup(text)) if text.contains("`reed`") && text.contains("read")),
        "{refused:?}"
    );
}

/// Fails for some messages, in a way of its own.
struct Fails(&'static str);

impl<S: Store> Handler<S> for Fails {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        match (self.0, cx.message_id().map(|id| id.to_string()).unwrap_or_default().as_str()) {
            ("error", "orders/3") => Err("a handler says no".into()),
            ("panic", "orders/3") => panic!("a handler that panics"),
            ("before read", _) => panic!("a handler that panics before anything is read"),
            _ => next.run(cx).await,
        }
    }
}

/// A message at which a handler between `read` and `transaction` fails is a failed message like any other.
pub async fn a_handler_that_fails_for_a_message_parks_it<F: Fixture>() {
    for way in ["error", "panic"] {
        let fixture = with_orders::<F>(20).await;
        let process = process(&fixture).action_fn(orders(), create_project::<F>);
        let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", Fails(way)));
        assert_eq!(process.run().await.unwrap(), 0);
        assert_eq!(effects(&fixture).await, 19);
        let failed = fixture.store().parked(&ParkedFilter::default()).await.unwrap();
        assert_eq!((failed.len(), failed[0].id.as_str(), failed[0].attempts), (1, "orders/3", 2));
        assert!(failed[0].error.contains("a handler"), "{}", failed[0].error);
    }
}

pub async fn a_worker_that_panics_ends_the_process_and_nothing_is_lost<F: Fixture>() {
    let fixture = with_orders::<F>(20).await;
    let process = process(&fixture).action_fn(orders(), create_project::<F>);
    let process = process.handlers(|queue| queue.before(Scope::Worker, "read", Fails("before read")));
    assert_eq!(process.run().await.unwrap(), 20);
    assert_eq!(drain(&fixture).await, 0);
    assert_eq!(effects(&fixture).await, 20);
}

/// The suspects of two pools wait for each other, not for ever.
pub async fn suspects_of_several_pools_are_all_run<F: Fixture>() {
    let fixture = with_orders::<F>(4).await;
    send(&fixture, "mail", &["{}"; 4]).await;
    let victim = Player::join(&fixture).await;
    assert_eq!(victim.claim("orders", 4).await.len() + victim.claim("mail", 4).await.len(), 8);
    victim.die(&fixture).await;
    let medic = Player::join(&fixture).await;
    assert_eq!(medic.store.rescue(&medic.registration).await.unwrap().messages, 8);
    let process = process(&fixture).action_fn(orders(), create_project::<F>);
    let process = process.action_fn(Pool::new("Mail").from("mail"), read_mail::<F>);
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(effects(&fixture).await, 8);
    assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0);
}

/// An action that passes its order on to another queue of the same process.
async fn pass_on<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    let text = if order.name.as_deref() == Some("large") { "x".repeat(2000) } else { String::new() };
    cx.send("mail", &text).await?;
    Ok(Outcome::Done)
}

pub async fn a_drain_waits_for_what_one_action_sends_to_another<F: Fixture>() {
    let fixture = with_orders::<F>(12).await;
    let process = process(&fixture).action_fn(orders().concurrency(1), pass_on::<F>);
    let process = process.action_fn(Pool::new("Mail").from("mail"), read_mail::<F>);
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from ledger where message like 'mail/%'").await, 12);
}

pub async fn a_refusal_inside_an_action_is_the_messages_failure<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    fixture.sql("update received_order set name = 'large' where id = 2").await;
    assert_eq!(process(&fixture).action_fn(orders(), pass_on::<F>).run().await.unwrap(), 0);
    let failed = fixture.store().parked(&ParkedFilter::default()).await.unwrap();
    assert_eq!((failed.len(), failed[0].id.as_str()), (1, "orders/2"));
    assert!(failed[0].error.contains("over the limit"), "{}", failed[0].error);
}

pub async fn two_actions_cannot_share_a_queue<F: Fixture>() {
    let fixture = F::fresh().await;
    let twin = Pool::new("Twin").from("orders");
    let process = process(&fixture).action_fn(orders(), create_project::<F>).action_fn(twin, create_project::<F>);
    assert_eq!(process.run().await.unwrap(), 127);
}

/// What is written down is refused by the table itself: the message waits where it can be seen, and nothing spins.
pub async fn a_failure_that_cannot_be_recorded_is_seen_and_does_not_spin<F: Fixture>() {
    let fixture = F::fresh().await;
    fixture.sql("create table picky (id integer primary key, state varchar(9) not null check (state <> 'failed'), taken_by char(36))").await;
    fixture.sql("insert into picky (id, state) values (1, 'new')").await;
    let status = ichido::Status::new("state", "new", "done").failed("failed");
    let store =
        fixture.store_with(vec![ichido::Queue::table("picky", ichido::Table::new("picky", "taken_by", status))]);
    let stop = CancellationToken::new();
    let pool = Pool::new("Picky").from("picky").retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() });
    let process = Process::new(store.clone()).poll(Duration::from_millis(20)).stop_on(stop.clone());
    let running = tokio::spawn(process.action_fn(pool, always_fails::<F::Store>).run());
    until(&fixture, "select count(*) from ichido_parked where state = 'waiting'", 1).await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap(), 0);
    let mut filter = ParkedFilter::default();
    filter.waiting = true;
    let parked = store.parked(&filter).await.unwrap();
    assert!(
        parked[0].error.contains("no way") && parked[0].error.contains("recording this failure failed"),
        "{}",
        parked[0].error
    );
}

async fn always_fails<S: Store>(_: &mut Context<S>, _: serde_json::Value) -> Result<Outcome> {
    Err("no way".into())
}

/// Hands out three messages that are in no queue.
#[derive(Default)]
struct Three {
    given: AtomicUsize,
    settled: Arc<Mutex<Vec<Option<ichido::message::Mark>>>>,
}

impl Reader for Three {
    fn try_next(&self) -> Result<Turn> {
        let number = self.given.fetch_add(1, Ordering::SeqCst);
        if number >= 3 {
            return Ok(Turn::Finished);
        }
        let message =
            Message::new("file", Key::new([number.to_string()]), format!(r#"{{"id":{number}}}"#).into_bytes());
        Ok(Turn::Delivery(Box::new(Delivery::unclaimed(message))))
    }

    async fn changed(&self) {}

    async fn settle(&self, delivery: Delivery) -> Result<()> {
        self.settled.lock().unwrap().push(delivery.mark);
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

pub async fn a_reader_of_the_users_own_takes_the_place_of_a_queue<F: Fixture>() {
    let fixture = F::fresh().await;
    let reader = Three::default();
    let settled = reader.settled.clone();
    let process = Process::new(fixture.store()).action_fn(Pool::new("Import").reader(reader), create_project::<F>);
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(effects(&fixture).await, 3);
    assert_eq!(*settled.lock().unwrap(), [Some(ichido::message::Mark::Done); 3]);
}

async fn rolls_back<F: Fixture>(cx: &mut Context<F::Store>, _: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    let _ = F::through(cx.tx().await?, "rollback".into()).await;
    Ok(Outcome::Done)
}

/// Without a claim there is nothing to complete, but a broken transaction is still not done.
pub async fn a_users_reader_is_not_told_done_after_a_broken_transaction<F: Fixture>() {
    let fixture = F::fresh().await;
    let reader = Three::default();
    let settled = reader.settled.clone();
    let process = Process::new(fixture.store()).action_fn(Pool::new("Import").reader(reader), rolls_back::<F>);
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!(effects(&fixture).await, 0);
    assert!(settled.lock().unwrap().iter().all(|mark| *mark != Some(ichido::message::Mark::Done)));
}

async fn order_by_mail<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    cx.send("mail", &serde_json::json!({"order": order.id})).await?;
    if order.name.as_deref() == Some("error") { Err("too late".into()) } else { Ok(Outcome::Done) }
}

pub async fn a_message_sent_by_an_action_is_sent_only_if_it_is_done<F: Fixture>() {
    let fixture = with_orders::<F>(4).await;
    fixture.sql("update received_order set name = 'error' where id = 2").await;
    assert_eq!(process(&fixture).action_fn(orders(), order_by_mail::<F>).run().await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from ichido_message where queue = 'mail'").await, 3);
    assert_eq!(fixture.number("select count(*) from ichido_message where payload like '%2%'").await, 0);
}

async fn nothing_to_write<S: Store>(_: &mut Context<S>, _: serde_json::Value) -> Result<Outcome> {
    Ok(Outcome::Done)
}

pub async fn an_action_that_opens_no_transaction_is_completed_too<F: Fixture>() {
    let fixture = with_orders::<F>(5).await;
    assert_eq!(process(&fixture).action_fn(orders(), nothing_to_write::<F::Store>).run().await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 5);
}
