//! Several messages in one transaction: all done together, or each alone.

use std::{
    collections::BTreeSet,
    marker::PhantomData,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ichido::{
    Action, BatchAction, Context, Handler, NewMessage, Next, Outcome, Pool, Process, Result, RetryPolicy, Store,
    handlers::{Each, Scope},
    store::{Database, Queues, Transactions},
};
use serde::Deserialize;
use tokio::sync::Notify;

use super::interference::{self, Again};
use crate::{
    faults::{Fault, Scene, Verb, one_line},
    fixture::{Fixture, effect_here, effects, failed, send, send_orders, with_orders},
};

#[derive(Deserialize)]
struct Order {
    id: i64,
    name: Option<String>,
}

fn together(most: usize) -> Pool {
    let retry =
        RetryPolicy { attempts: 2, first: Duration::from_millis(1), max: Duration::from_millis(2), factor: 1.0 };
    Pool::new("Together").from("orders").concurrency(1).read_ahead(1).commit_interval(most).retry(retry)
}

fn process<F: Fixture>(fixture: &F) -> Process<F::Store> {
    Process::new(fixture.store()).poll(Duration::from_millis(5)).drain()
}

/// One line in the ledger; what the order's name says goes wrong. What it knows must be about this order.
async fn book<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    if cx.message_id()?.to_string() != format!("orders/{}", order.id) || cx.deliveries().len() != 1 {
        return Err(format!("{} is not order {}", cx.message_id()?, order.id).into());
    }
    effect_here::<F>(cx).await?;
    match order.name.as_deref() {
        Some("error") => Err("no such customer".into()),
        Some("panic") => panic!("boom {}", order.id),
        Some("park") => Ok(Outcome::park("not today")),
        Some("twice") if cx.attempt() == 1 => Ok(Outcome::retry_after(Duration::ZERO)),
        Some("abort") => Ok(Outcome::Abort(111)),
        Some("break") => {
            for statement in F::ENDING.iter().chain(&["rollback"]) {
                let _ = F::through(cx.tx().await?, (*statement).to_owned()).await;
            }
            let _ = effect_here::<F>(cx).await;
            Ok(Outcome::Done)
        }
        _ => Ok(Outcome::Done),
    }
}

/// Each of so many orders has one effect, except these.
async fn assert_exact<F: Fixture>(fixture: &F, orders: i64, failed: &[i64]) {
    let done = orders - i64::try_from(failed.len()).unwrap();
    assert_eq!(effects(fixture).await, done);
    assert_eq!(fixture.number("select count(distinct message) from ledger").await, done);
    let rows = "select count(*) from received_order where status = '1' and process_id is null";
    assert_eq!(fixture.number(rows).await, done);
    for id in failed {
        let line = format!("select count(*) from ledger where message = 'orders/{id}'");
        assert_eq!(fixture.number(&line).await, 0, "order {id} failed and has an effect");
    }
}

pub async fn messages_that_are_at_hand_share_a_transaction<F: Fixture>() {
    let scene = Scene::<F>::new(25).await;
    scene.drain(scene.process().action_fn(together(10), one_line::<F>)).await;
    assert_exact(&scene.fixture, 25, &[]).await;
    assert_eq!(scene.faults.begun(Verb::Commit), 3, "ten, ten and five");
}

pub async fn one_that_fails_fails_alone_and_the_others_are_done<F: Fixture>() {
    let fixture = with_orders::<F>(40).await;
    fixture.sql("update received_order set name = 'error' where id = 5; update received_order set name = 'panic' where id = 15").await;
    fixture.sql("update received_order set name = 'park' where id = 16; update received_order set name = 'twice' where id = 35").await;
    assert_eq!(process(&fixture).action_fn(together(10), book::<F>).run().await.unwrap(), 0);
    assert_exact(&fixture, 40, &[5, 15, 16]).await;
    let expected =
        [("orders/15", 2, "panic: boom 15"), ("orders/16", 1, "not today"), ("orders/5", 2, "no such customer")];
    assert_eq!(
        failed(&fixture).await,
        expected.map(|(id, attempts, error)| (id.to_owned(), attempts, error.to_owned()))
    );
}

/// Somebody changes a row by hand when several are about to be run.
struct ByHand<F>(Arc<F>, AtomicBool);

impl<F: Fixture, S: Store> Handler<S> for ByHand<F> {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        if cx.deliveries().len() > 1 && self.1.swap(false, Ordering::SeqCst) {
            self.0.sql("update received_order set status = '1', process_id = null where id = 8").await;
        }
        next.run(cx).await
    }
}

pub async fn one_whose_claim_is_lost_in_the_middle_is_left_out<F: Fixture>() {
    let fixture = Arc::new(F::fresh().await);
    send_orders(&*fixture, 20).await;
    let by_hand = ByHand(fixture.clone(), AtomicBool::new(true));
    let process = process(&*fixture).action_fn(together(20), book::<F>);
    let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", by_hand));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_eq!((effects(&*fixture).await, failed(&*fixture).await.len()), (19, 0));
    assert_eq!(fixture.number("select count(*) from ledger where message = 'orders/8'").await, 0);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 20);
}

async fn with_a_commit_that_is_harmed<F: Fixture>(harm: Fault, probes: usize) -> Scene<F> {
    let scene = Scene::<F>::new(10).await;
    scene.faults.inject(Verb::Commit, harm, 1);
    scene.faults.inject(Verb::Probe, Fault::Unreachable, probes);
    scene.drain(scene.process().action_fn(together(10), one_line::<F>)).await;
    assert_exact(&scene.fixture, 10, &[]).await;
    assert_eq!(scene.fixture.number("select count(*) from ichido_parked").await, 0);
    scene
}

pub async fn a_commit_that_did_not_arrive_is_run_again<F: Fixture>() {
    let scene = with_a_commit_that_is_harmed::<F>(Fault::Unreachable, 0).await;
    assert_eq!((scene.faults.begun(Verb::Probe), scene.faults.begun(Verb::Commit)), (1, 2));
}

pub async fn a_commit_whose_reply_was_lost_is_told_by_every_row<F: Fixture>() {
    let scene = with_a_commit_that_is_harmed::<F>(Fault::ReplyLost, 0).await;
    assert_eq!((scene.faults.begun(Verb::Probe), scene.faults.begun(Verb::Commit)), (10, 1));
}

pub async fn a_commit_that_nobody_can_tell_about_is_found_later<F: Fixture>() {
    with_a_commit_that_is_harmed::<F>(Fault::Unreachable, 1).await;
    let scene = with_a_commit_that_is_harmed::<F>(Fault::ReplyLost, 1).await;
    assert_eq!(scene.faults.begun(Verb::Commit), 1, "nothing was left to do");
}

pub async fn one_that_breaks_the_transaction_is_parked_alone<F: Fixture>() {
    let fixture = with_orders::<F>(20).await;
    fixture.sql("update received_order set name = 'break' where id = 7").await;
    assert_eq!(process(&fixture).action_fn(together(20), book::<F>).run().await.unwrap(), 0);
    assert_exact(&fixture, 20, &[7]).await;
    let parked = failed(&fixture).await;
    assert_eq!((parked.len(), parked[0].0.as_str(), parked[0].1), (1, "orders/7", 1));
    assert!(parked[0].2.starts_with("transaction broken"), "{}", parked[0].2);
}

async fn read_mail<F: Fixture>(cx: &mut Context<F::Store>, _: Order) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    Ok(Outcome::Done)
}

pub async fn one_that_cannot_be_read_is_parked_alone<F: Fixture>() {
    let fixture = F::fresh().await;
    send(&fixture, "mail", &[r#"{"id":1}"#, "[]", r#"{"id":3}"#, r#"{"id":"x"}"#, r#"{"id":5}"#]).await;
    assert_eq!(process(&fixture).action_fn(together(9).from("mail"), read_mail::<F>).run().await.unwrap(), 0);
    assert_eq!(effects(&fixture).await, 3);
    let parked = failed(&fixture).await;
    assert_eq!(parked.iter().map(|parked| parked.1).collect::<Vec<_>>(), [1, 1]);
    assert!(parked.iter().all(|parked| parked.2.contains("cannot read the message")), "{parked:?}");
    assert_eq!(fixture.number("select count(*) from ichido_message").await, 2);
}

/// Writes the lines of all its orders, and down how many it got at once.
struct Bookkeeper<F> {
    sizes: Arc<Mutex<Vec<usize>>>,
    _fixture: PhantomData<fn(F)>,
}

impl<F: Fixture> BatchAction<F::Store> for Bookkeeper<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<F::Store>, orders: Vec<Order>) -> Result<Outcome> {
        self.sizes.lock().unwrap().push(orders.len());
        let ids: Vec<_> = cx.deliveries().iter().map(|delivery| delivery.message.id().to_string()).collect();
        let lines: Vec<_> = orders.iter().map(|order| format!("('orders/{}', 'action')", order.id)).collect();
        assert!(ids.iter().zip(&lines).all(|(id, line)| line.contains(&format!("'{id}'"))), "{ids:?} {lines:?}");
        F::through(cx.tx().await?, format!("insert into ledger (message, who) values {}", lines.join(", "))).await?;
        let bad = orders.iter().any(|order| order.name.as_deref() == Some("error"));
        if bad { Err("no such customer".into()) } else { Ok(Outcome::Done) }
    }
}

pub async fn a_batch_action_gets_them_together_and_a_bad_one_alone<F: Fixture>() {
    let fixture = with_orders::<F>(20).await;
    fixture.sql("update received_order set name = 'error' where id = 13").await;
    let sizes = Arc::<Mutex<Vec<_>>>::default();
    let action = Bookkeeper::<F> { sizes: sizes.clone(), _fixture: PhantomData };
    assert_eq!(process(&fixture).batch_action(together(10), action).run().await.unwrap(), 0);
    assert_exact(&fixture, 20, &[13]).await;
    assert_eq!(failed(&fixture).await, [("orders/13".to_owned(), 2, "no such customer".to_owned())]);
    let mut expected = vec![10, 10];
    expected.extend([1; 11]);
    assert_eq!(*sizes.lock().unwrap(), expected, "ten, ten with the bad one, each of these, and the bad one again");
}

/// Writes down how many were in hand together, with their ids.
#[derive(Clone, Default)]
struct Company(Arc<Mutex<Vec<BTreeSet<String>>>>);

impl<S: Store> Handler<S> for Company {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let ids = cx.deliveries().iter().map(|delivery| delivery.message.id().to_string()).collect();
        self.0.lock().unwrap().push(ids);
        next.run(cx).await
    }
}

pub async fn suspects_have_no_company<F: Fixture>() {
    let fixture: F = interference::with_suspects(3, 12).await;
    let company = Company::default();
    let seen = company.clone();
    let process = process(&fixture).action_fn(together(10), book::<F>);
    let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", company));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_exact(&fixture, 12, &[]).await;
    let seen = seen.0.lock().unwrap();
    for suspect in ["orders/1", "orders/2", "orders/3"] {
        assert!(seen.contains(&BTreeSet::from([suspect.to_owned()])), "{suspect} in {seen:?}");
    }
    assert_eq!(seen.iter().map(BTreeSet::len).max(), Some(9), "{seen:?}");
}

/// No two of a group in hand, and each group in order.
#[derive(Clone, Default)]
struct Groups(Arc<Mutex<Vec<(String, i64)>>>, Arc<AtomicBool>);

impl<S: Store> BatchAction<S> for Groups {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<S>, orders: Vec<Order>) -> Result<Outcome> {
        let groups = cx.deliveries().iter().filter_map(|delivery| delivery.claim.as_ref()?.group.clone());
        let groups: Vec<_> = groups.collect();
        if groups.iter().collect::<BTreeSet<_>>().len() < orders.len() {
            self.1.store(true, Ordering::SeqCst);
        }
        self.0.lock().unwrap().extend(groups.into_iter().zip(orders.iter().map(|order| order.id)));
        Ok(Outcome::Done)
    }
}

pub async fn two_of_a_group_never_share_a_transaction<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let messages: Vec<_> =
        (0..60).map(|n| NewMessage::new(format!(r#"{{"id":{n}}}"#)).group(format!("g{}", n % 6))).collect();
    let mut tx = store.begin().await.unwrap();
    store.send(F::Store::connection(&mut tx), "mail", &messages).await.unwrap();
    store.commit(tx).await.unwrap();
    let groups = Groups::default();
    let pool = together(10).from("mail").concurrency(2);
    assert_eq!(process(&fixture).batch_action(pool, groups.clone()).run().await.unwrap(), 0);
    assert!(!groups.1.load(Ordering::SeqCst), "two of a group were in one transaction");
    let seen = groups.0.lock().unwrap();
    for group in 0..6 {
        let of_one: Vec<_> = seen.iter().filter(|(name, _)| *name == format!("g{group}")).map(|(_, n)| *n).collect();
        assert!(of_one.len() == 10 && of_one.is_sorted(), "{of_one:?}");
    }
}

pub async fn a_batch_dropped_at_any_moment_leaves_each_effect_once<F: Fixture>() {
    interference::drop_at_any_moment::<F>(interference::orders(2).commit_interval(5)).await;
}

pub async fn a_database_that_does_not_let_them_begin_spends_nothing<F: Fixture>() {
    let scene = Scene::<F>::new(10).await;
    scene.faults.inject(Verb::Begin, Fault::Unreachable, 25);
    scene.drain(scene.process().action_fn(together(10), one_line::<F>)).await;
    assert_eq!(scene.faults.begun(Verb::Begin), 26, "nobody knocks once for each of them");
    assert_eq!(scene.fixture.number("select count(*) from ichido_parked").await, 0);
    assert_exact(&scene.fixture, 10, &[]).await;
}

pub async fn a_handler_after_each_sees_every_message<F: Fixture>() {
    let fixture = with_orders::<F>(10).await;
    let company = Company::default();
    let seen = company.clone();
    let process = process(&fixture).action_fn(together(10), book::<F>);
    let process = process.handlers(move |queue| Ok(queue.then(Each).then(company)));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_exact(&fixture, 10, &[]).await;
    let expected: Vec<_> = (1..=10).map(|id| BTreeSet::from([format!("orders/{id}")])).collect();
    assert_eq!(*seen.0.lock().unwrap(), expected);
}

/// Says no while order 3 is in hand, alone or with others.
struct SaysNo;

impl<S: Store> Handler<S> for SaysNo {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> Result<Outcome> {
        let bad = cx.deliveries().iter().any(|delivery| delivery.message.id().to_string() == "orders/3");
        if bad { Err("a handler says no".into()) } else { next.run(cx).await }
    }
}

pub async fn a_handler_that_fails_for_all_fails_for_each<F: Fixture>() {
    let fixture = with_orders::<F>(10).await;
    let process = process(&fixture).action_fn(together(10), book::<F>);
    let process = process.handlers(move |queue| queue.after(Scope::Worker, "read", SaysNo));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_exact(&fixture, 10, &[3]).await;
    assert_eq!(failed(&fixture).await, [("orders/3".to_owned(), 2, "a handler says no".to_owned())]);
}

pub async fn an_abort_in_the_middle_releases_the_rest<F: Fixture>() {
    let fixture = with_orders::<F>(10).await;
    fixture.sql("update received_order set name = 'abort' where id = 4").await;
    assert_eq!(process(&fixture).action_fn(together(10), book::<F>).run().await.unwrap(), 111);
    assert_eq!(effects(&fixture).await, 3);
    let free = "select count(*) from received_order where status = '0' and process_id is null and id > 4";
    assert_eq!(fixture.number(free).await, 6, "what was not begun alone is released");
    fixture.sql("update received_order set name = null").await;
    assert_eq!(process(&fixture).action_fn(together(10), book::<F>).run().await.unwrap(), 0);
    assert_exact(&fixture, 10, &[]).await;
}

/// Stops for ever at order 3, once.
struct StopsOnce<F>(Arc<Notify>, AtomicBool, PhantomData<fn(F)>);

impl<F: Fixture> Action<F::Store> for StopsOnce<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
        if order.id == 3 && self.1.swap(false, Ordering::SeqCst) {
            self.0.notify_one();
            std::future::pending::<()>().await;
        }
        if !self.1.load(Ordering::SeqCst) {
            effect_here::<F>(cx).await?;
        }
        Ok(Outcome::Done)
    }
}

pub async fn a_pass_that_is_dropped_and_run_again_runs_all_of_them<F: Fixture>() {
    let fixture = with_orders::<F>(6).await;
    let dropped = Arc::new(Notify::new());
    let action = StopsOnce::<F>(dropped.clone(), AtomicBool::new(true), PhantomData);
    let process = process(&fixture).action(together(6), action);
    let process = process.handlers(move |queue| Ok(queue.then(Again(dropped))));
    assert_eq!(process.run().await.unwrap(), 0);
    assert_exact(&fixture, 6, &[]).await;
}

#[derive(Deserialize)]
struct Ticket {
    number: i64,
}

async fn serve<F: Fixture>(cx: &mut Context<F::Store>, ticket: Ticket) -> Result<Outcome> {
    effect_here::<F>(cx).await?;
    if ticket.number % 10 == 7 { Ok(Outcome::park("not today")) } else { Ok(Outcome::Done) }
}

pub async fn done_rows_that_are_deleted_go_together<F: Fixture>() {
    let fixture = F::fresh().await;
    let tickets: Vec<_> =
        (0..30).map(|n| format!(r#"{{"region":"r {}","number":{n},"kind":"urgent"}}"#, n % 3)).collect();
    send(&fixture, "urgent", &tickets.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(process(&fixture).action_fn(together(15).from("urgent"), serve::<F>).run().await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from ticket").await, 3);
    assert_eq!((effects(&fixture).await, failed(&fixture).await.len()), (27, 3));
}
