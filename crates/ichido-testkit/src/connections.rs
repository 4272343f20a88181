//! What a process does with its connections to a server. These cases need more of a test than a fixture: a store of its own making, and hands on
//! the server.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use ichido::{
    Action, CancellationToken, Context, Error, Outcome, Pool, Process, Result, Store,
    handlers::{Limit, Retry},
    store::{Database, SessionState, Transactions},
};
use tokio::sync::Semaphore;

use crate::{
    eventually,
    fixture::{Fixture, Player, SilenceFixture, effect, effects, send_orders},
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
    ended: tokio::task::JoinHandle<Result<i32, Error>>,
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

/// The store is to open `min` connections early. `count` asks the server how many sessions the store has.
pub async fn as_many_connections_as_asked_for_are_opened_at_the_start_and_kept<F: SilenceFixture>(
    fixture: &F,
    store: F::Store,
    min: i64,
    count: impl AsyncFn() -> i64,
) {
    assert_eq!(count().await, 0, "nothing is connected yet");
    store.prepare().await.unwrap();
    assert_eq!(count().await, min);
    let tx = store.begin().await.unwrap();
    let session = F::Store::session(&tx).unwrap();
    store.rollback(tx).await.unwrap();
    assert_eq!(count().await, min, "one that was there is used");
    let there = format!("select count(*) from {} = {}", F::SESSION, session.number);
    assert_eq!(fixture.number(&there).await, 1, "and stays");
}

/// The connection that ends a session is opened with the password of now, and so is the one that asks about it. `silence` lets nothing pass on
/// the connections that are open.
pub async fn a_silent_session_is_ended_after_the_password_has_changed<F: SilenceFixture>(
    fixture: &F,
    store: F::Store,
    rotate: impl AsyncFnOnce(),
    silence: impl FnOnce(),
) {
    let tx = store.begin().await.unwrap();
    let session = F::Store::session(&tx).unwrap();
    rotate().await;
    assert!(matches!(store.session_state(&session).await.unwrap(), SessionState::Idle(_)));
    silence();
    assert!(store.commit(tx).await.is_err());
    let there = format!("select count(*) from {} = {}", F::SESSION, session.number);
    eventually("the session is gone", async || fixture.number(&there).await == 0).await;
}

/// `wrong` has this secret as its password, which `told` must not tell, and is refused in these words; the one who gives the password to
/// `locked` fails; `unread` is what was said about a URL with the secret.
pub async fn nobody_tells_the_password<S: Store>(
    (wrong, secret, told): (S, &str, String),
    words: &str,
    locked: S,
    unread: Error,
) {
    let error = wrong.ping().await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { .. }) && error.is_fault::<S>());
    let told = format!("{told} {} {error:?}", error.in_full());
    assert!(told.contains(words) && !told.contains(secret), "{told}");
    let error = locked.ping().await.unwrap_err();
    assert!(error.is_fault::<S>() && error.in_full().to_string().contains("the vault is locked"), "{error}");
    assert!(!format!("{unread} {unread:?}").contains(secret), "{unread}");
}
