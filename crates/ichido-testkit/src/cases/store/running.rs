//! What runs now: told with the heartbeat, seen by operators, and not kept waiting by suspects.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ichido::{
    Action, CancellationToken, Context, Inspect, Outcome, Process, Result, Store,
    inspect::RunningState,
    store::{Processes, Running},
};
use serde::Deserialize;
use tokio::sync::Notify;

use super::interference;
use crate::{
    eventually,
    fixture::{Fixture, Player, send_orders, with_orders},
};

pub async fn a_heartbeat_says_what_runs_and_the_next_one_what_runs_then<F: Fixture>() {
    let fixture = with_orders::<F>(2).await;
    let process = Player::join(&fixture).await;
    let claimed = process.claim("orders", 2).await;
    let list: Vec<_> =
        claimed.iter().map(|delivery| Running::new(&delivery.message.id(), Duration::from_millis(61_500))).collect();
    let id = process.registration.id;
    for (told, seen) in [(&list[..], 2), (&list[1..], 1), (&[], 0)] {
        assert!(process.store.heartbeat(id, told).await.unwrap());
        let overview = process.store.overview().await.unwrap();
        let state = overview.processes.iter().find(|state| state.id == id.to_string()).unwrap();
        assert!(state.heartbeat_seconds.is_some_and(|age| age < 60), "{:?}", state.heartbeat_seconds);
        assert_eq!(state.running.len(), seen);
        let second = RunningState { id: "orders/2".into(), seconds: 61 };
        assert_eq!(state.running.last(), (seen > 0).then_some(&second));
    }
}

pub async fn a_list_that_is_too_long_says_what_has_run_longest<F: Fixture>() {
    let fixture = F::fresh().await;
    let process = Player::join(&fixture).await;
    send_orders(&fixture, 1).await;
    let order = process.claim_one("orders").await.message.id();
    let list = vec![Running::new(&order, Duration::from_secs(1)); 5000];
    assert!(process.store.heartbeat(process.registration.id, &list).await.unwrap());
    let running = process.store.overview().await.unwrap().processes.remove(0).running;
    assert!((1000..5000).contains(&running.len()), "{}", running.len());
}

#[derive(Deserialize)]
struct Order {
    id: i64,
}

/// Runs until it is told.
#[derive(Clone)]
struct Slow(Arc<Notify>);

impl<S: Store> Action<S> for Slow {
    type Message = Order;

    async fn handle(&self, _: &mut Context<S>, _: Order) -> Result<Outcome> {
        self.0.notified().await;
        Ok(Outcome::Done)
    }
}

pub async fn operators_see_what_runs_and_not_what_is_only_claimed<F: Fixture>() {
    let fixture = with_orders::<F>(6).await;
    let (end, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let process = Process::new(fixture.store()).poll(Duration::from_millis(20)).lease(Duration::from_secs(3));
    let pool = interference::orders(2).read_ahead(4);
    let process = process.stop_on(stop.clone()).action(pool, Slow(end.clone()));
    let running = tokio::spawn(process.run());
    let store = fixture.store();
    let seen = |expected: &'static [&'static str]| {
        let store = store.clone();
        eventually(format!("{expected:?} run"), async move || {
            let overview = store.overview().await.unwrap();
            let running = overview.processes.iter().flat_map(|process| &process.running);
            let mut running: Vec<_> = running.map(|running| running.id.clone()).collect();
            running.sort();
            (running == expected).then_some(())
        })
    };
    seen(&["orders/1", "orders/2"]).await;
    end.notify_one();
    end.notify_one();
    seen(&["orders/3", "orders/4"]).await;
    stop.cancel();
    while !running.is_finished() {
        end.notify_waiters();
        tokio::task::yield_now().await;
    }
    running.await.unwrap().unwrap();
}

/// A suspect waits until so many others are done.
#[derive(Clone)]
struct Beside {
    suspects: i64,
    others: usize,
    done: Arc<AtomicUsize>,
    changed: Arc<Notify>,
}

impl<S: Store> Action<S> for Beside {
    type Message = Order;

    async fn handle(&self, _: &mut Context<S>, order: Order) -> Result<Outcome> {
        if order.id > self.suspects {
            self.done.fetch_add(1, Ordering::SeqCst);
            self.changed.notify_waiters();
            return Ok(Outcome::Done);
        }
        loop {
            let changed = self.changed.notified();
            if self.done.load(Ordering::SeqCst) >= self.others {
                return Ok(Outcome::Done);
            }
            changed.await;
        }
    }
}

pub async fn others_run_beside_more_suspects_than_were_read_ahead<F: Fixture>() {
    let fixture: F = interference::with_suspects(30, 40).await;
    let action = Beside { suspects: 30, others: 10, done: Arc::default(), changed: Arc::default() };
    let process = Process::new(fixture.store()).poll(Duration::from_millis(5)).drain();
    let pool = interference::orders(2).read_ahead(2);
    let drained = tokio::time::timeout(Duration::from_mins(2), process.action(pool, action).run()).await;
    assert_eq!(drained.expect("the others need not wait for the suspects").unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, 40);
}
