//! What a process does with its connections to a server. These cases need more of a test than a fixture: a store of its own making, and hands on
//! the server.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use ichido::{
    Action, CancellationToken, Context, Outcome, Pool, Process, Result,
    handlers::{Limit, Retry},
    store::Database,
};
use tokio::sync::Semaphore;

use crate::{
    eventually,
    fixture::{Fixture, Player, effect, effects, send_orders},
};

const ORDERS: i64 = 40;

/// More than any test needs.
const PLENTY: usize = 100_000;

/// Writes its effect, and keeps its transaction open until the test lets it pass.
struct Gated<F>(Arc<Semaphore>, PhantomData<fn() -> F>);

impl<F: Fixture> Action<F::Store> for Gated<F> {
    type Message = serde_json::Value;

    async fn handle(&self, cx: &mut Context<F::Store>, _: serde_json::Value) -> Result<Outcome> {
        let message = cx.message()?.clone();
        effect::<F>(cx.tx().await?, &message).await?;
        self.0.acquire().await?.forget();
        Ok(Outcome::Done)
    }
}

/// A process that works on orders until it is stopped.
struct Running {
    gate: Arc<Semaphore>,
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<Result<i32, ichido::Error>>,
}

impl Running {
    /// Some of the orders are those of a process that has died.
    async fn start<F: Fixture>(fixture: &F, store: F::Store) -> Self {
        send_orders(fixture, ORDERS).await;
        let victim = Player::join(fixture).await;
        assert_eq!(victim.claim("orders", 5).await.len(), 5);
        victim.die(fixture).await;
        let (gate, stop) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
        let action = Gated::<F>(gate.clone(), PhantomData);
        let process = Process::new(store)
            .lease(Duration::from_secs(2))
            .poll(Duration::from_millis(50))
            .retry(Retry { limit: Limit::Count(500), interval: Duration::from_millis(50), ..Retry::default() })
            .stop_on(stop.clone())
            .action(Pool::new("Pay").from("orders").concurrency(8), action);
        Running { gate, stop, ended: tokio::spawn(process.run()) }
    }

    /// Lets everything pass; at the end each order has its effect once.
    async fn finish<F: Fixture>(self, fixture: &F, mut meanwhile: impl AsyncFnMut()) {
        self.gate.add_permits(PLENTY);
        eventually("all work is done", async || {
            meanwhile().await;
            let done = effects(fixture).await;
            if done >= ORDERS { Ok(()) } else { Err(done) }
        })
        .await;
        self.stop.cancel();
        assert_eq!(self.ended.await.unwrap().unwrap(), 0);
        assert_eq!(fixture.number("select count(*) from received_order where status = '1'").await, ORDERS);
        assert_eq!(fixture.number("select count(distinct message) from ledger").await, ORDERS);
        assert_eq!(effects(fixture).await, ORDERS, "nothing has an effect twice");
        assert_eq!(fixture.number("select count(*) from ichido_parked").await, 0, "no attempt is spent");
    }
}

/// `rotate` changes the password and cuts all connections, also those of transactions that are open.
pub async fn work_is_done_while_the_password_changes<F: Fixture>(
    fixture: &F,
    store: F::Store,
    rotate: impl AsyncFn(u32),
) {
    let running = Running::start(fixture, store).await;
    for round in 1..=3 {
        let before = effects(fixture).await;
        eventually("it goes on", async || {
            running.gate.add_permits(1);
            effects(fixture).await > before
        })
        .await;
        rotate(round).await;
    }
    running.finish(fixture, async || ()).await;
}

/// `count` asks the server how many sessions the process has.
pub async fn there_are_no_more_connections_than_stated<F: Fixture>(
    fixture: &F,
    store: F::Store,
    count: impl AsyncFn() -> i64,
) {
    let stated = store.connections();
    let running = Running::start(fixture, store).await;
    let mut most = 0;
    // All but rescue's, which comes and goes, and the one for what falls silent.
    let usual = i64::from(stated.total()) - 2;
    eventually("all of them are open", async || {
        let seen = count().await;
        most = most.max(seen);
        if seen >= usual { Ok(()) } else { Err(seen) }
    })
    .await;
    running.finish(fixture, async || most = most.max(count().await)).await;
    assert!(most <= i64::from(stated.total()), "{most} instead of {stated:?}");
}
