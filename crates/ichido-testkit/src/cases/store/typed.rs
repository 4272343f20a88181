//! Typed queues: what is sent to them arrives at the action that is for it, also through a lane set and from inside an action.

use std::time::Duration;

use ichido::{
    BatchAction, Client, Context, Outcome, Pool, Process, QueueOf, Result, Store,
    lanes::{LaneSet, Level, Policy},
    store::{Database, Transactions},
};
use serde::{Deserialize, Serialize};

use crate::{
    fixture::{Fixture, effects, with_orders},
    in_time,
};

#[derive(Serialize, Deserialize)]
struct Order {
    id: i64,
    name: String,
}

const ORDERS: QueueOf<Order> = QueueOf::named("orders");
const MAIL: QueueOf<String> = QueueOf::named("mail");
const SITE: QueueOf<Order> = QueueOf::named("site");

async fn line<F: Fixture>(cx: &mut Context<F::Store>, who: &str) -> Result<Outcome> {
    let line = format!("insert into ledger (message, who) values ('{}', '{who}')", cx.message_id()?);
    F::through(cx.tx().await?, line).await?;
    Ok(Outcome::Done)
}

async fn confirm<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    let unique = format!("order {}", order.id);
    cx.to(&MAIL).unique(unique).send(&order.name).await?;
    line::<F>(cx, "confirm").await
}

async fn mail<F: Fixture>(cx: &mut Context<F::Store>, text: String) -> Result<Outcome> {
    line::<F>(cx, &text).await
}

async fn ship<F: Fixture>(cx: &mut Context<F::Store>, order: Order) -> Result<Outcome> {
    line::<F>(cx, &order.name).await
}

fn site() -> LaneSet {
    LaneSet::new("site", Policy::Strict).level(Level::new("member", "orders")).level(Level::new("free", "mail"))
}

async fn ends<S: Store>(process: Process<S>) -> i32 {
    let process = process.poll(Duration::from_millis(5)).drain();
    in_time("the process ends", process.run()).await.unwrap()
}

async fn written<F: Fixture>(fixture: &F, who: &str) -> i64 {
    fixture.number(&format!("select count(*) from ledger where who = '{who}'")).await
}

pub async fn what_an_action_sends_to_a_typed_queue_arrives<F: Fixture>() {
    let fixture = with_orders::<F>(3).await;
    let process = Process::new(fixture.store()).on(&ORDERS, Pool::new("Confirm").from("nowhere"), confirm::<F>).on(
        &MAIL,
        Pool::new("Mail"),
        mail::<F>,
    );
    assert_eq!(ends(process).await, 0);
    assert_eq!((effects(&fixture).await, written(&fixture, "confirm").await), (6, 3));
    assert_eq!((written(&fixture, "order 1").await, written(&fixture, "order 3").await), (1, 1));
}

pub async fn a_typed_send_is_part_of_the_callers_transaction<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let client = Client::new(store.clone());
    for (name, commit) in [("there", true), ("gone", false)] {
        let mut tx = store.begin().await.unwrap();
        let sent = client.to(&MAIL).send_all(F::Store::connection(&mut tx), &[name.into(), name.into()]).await;
        assert_eq!(sent.unwrap().len(), 2);
        if commit { store.commit(tx).await.unwrap() } else { store.rollback(tx).await.unwrap() }
    }
    assert_eq!(ends(Process::new(store).on(&MAIL, Pool::new("Mail"), mail::<F>)).await, 0);
    assert_eq!((effects(&fixture).await, written(&fixture, "there").await), (2, 2));
}

/// The name of a typed queue may be that of a lane set, which the pool or the process knows.
pub async fn a_lane_set_can_be_typed<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.store();
    let client = Client::new(store.clone()).lanes(site());
    for (id, level) in [(1, "member"), (2, "free")] {
        let order = Order { id, name: level.into() };
        let mut tx = store.begin().await.unwrap();
        client.to(&SITE).level(level).send(F::Store::connection(&mut tx), &order).await.unwrap();
        store.commit(tx).await.unwrap();
    }
    let by_process = Process::new(fixture.store()).lanes(site()).max_messages(1);
    assert_eq!(ends(by_process.on(&SITE, Pool::new("Ship"), ship::<F>)).await, 0);
    assert_eq!((effects(&fixture).await, written(&fixture, "member").await), (1, 1));
    let by_pool = Process::new(fixture.store()).on(&SITE, Pool::new("Ship").from_lanes(site()), ship::<F>);
    assert_eq!(ends(by_pool).await, 0);
    assert_eq!((effects(&fixture).await, written(&fixture, "free").await), (2, 1));
}

pub async fn an_action_of_a_typed_queue_in_another_lane_set_is_refused<F: Fixture>() {
    let fixture = F::fresh().await;
    let pool = Pool::new("Confirm").from_lanes(site());
    assert_eq!(ends(Process::new(fixture.store()).on(&ORDERS, pool, confirm::<F>)).await, 127);
}

struct Count<F>(std::marker::PhantomData<fn() -> F>);

impl<F: Fixture> BatchAction<F::Store> for Count<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<F::Store>, orders: Vec<Order>) -> Result<Outcome> {
        line::<F>(cx, &format!("{} orders", orders.len())).await
    }
}

pub async fn a_batch_action_can_be_typed<F: Fixture>() {
    let fixture = with_orders::<F>(4).await;
    let pool = Pool::new("Count").concurrency(1).commit_interval(4);
    let process = Process::new(fixture.store()).on_batch(&ORDERS, pool, Count::<F>(std::marker::PhantomData));
    assert_eq!(ends(process).await, 0);
    assert_eq!(written(&fixture, "4 orders").await, 1);
}
